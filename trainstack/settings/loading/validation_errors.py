"""Convert pydantic's errors into findings with place, path, message and remedy."""

import json
from collections.abc import Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from trainstack.settings.errors import Finding, nearest
from trainstack.settings.loading.bases import Steps
from trainstack.settings.loading.merge import at
from trainstack.settings.loading.source import Node
from trainstack.settings.model import Settings
from trainstack.settings.sections.secrets import IN_PLAIN
from trainstack.settings.sections.sweeps import FROM_FILES, Sweep
from trainstack.settings.values.pod_patch import DETAILED

_KINDS = {
    "string_type": "a string",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a map",
    "model_type": "a map",
    "model_attributes_type": "a map",
}
_BOUNDS = {
    "greater_than_equal": ("ge", "must be at least {}", "raise it"),
    "less_than_equal": ("le", "must be at most {}", "lower it"),
    "greater_than": ("gt", "must be above {:g}", "raise it"),
    "string_too_long": ("max_length", "is longer than {} characters", "shorten it"),
    "string_too_short": ("min_length", "must have at least {} character", "set it, or leave the key out"),
    "too_long": ("max_length", "must have at most {} elements", "remove some"),
    "too_short": ("min_length", "must have at least {} element", "add one"),
}
_NOT_IN_FILES: dict[type[BaseModel], tuple[str, ...]] = {Settings: ("stack", "pins", "codePins"), Sweep: FROM_FILES}
"""By model, the keys that the loader sets, and so are not valid in files."""
_PATTERNS = {
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$": "use lower-case letters, digits and '-', with a letter or digit at both ends",
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$": (
        "use lower-case letters, digits, '-' and '.', with a letter or digit at both ends of each part"
    ),
    r"^[0-9a-f]{64}$": "write the sha256 in 64 lower-case hexadecimal digits",
    r"^sha256:[0-9a-f]{64}$": "remove the line and run `trainstack pin`",
    r"^([0-9a-f]{40}|[0-9a-f]{64})$": "remove the line and run `trainstack pin`",
    r"^v[0-9]+\.[0-9]+\.[0-9]+$": "write a version such as v1.2.3",
    r"^https://": "write an address that begins with https://",
    "^(auto|cpu|gpu|[1-9][0-9]*)$": 'write a number in quotes, such as "2", or one of auto, cpu, gpu',
    r"^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$": "write <organization>/<project>/<stack>",
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9]*[a-z0-9])?$": "write <namespace>/<name> of a claim",
    r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$": (
        "use letters, digits, '_', ',' and ':', with a letter at the beginning and a letter, digit or '_' at the end"
    ),
    r"^[a-z0-9-]+(\.[a-z0-9-]+)+/v[a-z0-9]+$": "write a group with '.' and a version, such as kubeflow.org/v1",
    "^[A-Z][A-Za-z0-9]*$": "use letters and digits, with an upper-case letter at the beginning",
    r"^[a-z0-9./-]+$": "write Kueue's name of an integration, such as kubeflow.org/jaxjob",
    r"^spec(\.[A-Za-z0-9_-]+(\[[0-9]+\])*)+$": "write a path such as spec.template or spec.groups[0].template",
    r"^status(\.[A-Za-z0-9_-]+(\[[0-9]+\])*)+$": "write a path such as status.state",
    r"^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$": ("use letters, digits and '-', with a letter or digit at both ends"),
    "^/": "write an absolute path, beginning with /",
    "^[^/]": "write a relative path, without / at its beginning",
}
"""Remedies by pattern. A pattern that only lists words has none here: the remedy lists the words."""


def findings_of(
    error: ValidationError, tree: Node, bases: Mapping[Steps, Finding], model: type[BaseModel] = Settings
) -> Iterator[Finding]:
    """Yield a finding for each fault that pydantic found in `tree`.

    `missing_bases`: by the steps of a run without a workload.yaml, the finding to report if the run lacks a value.
    """
    known: dict[int, list[str]] = {}
    for detail in error.errors(include_url=False):
        yield from _findings(detail, tree, bases, model, known)


def _findings(
    detail: ErrorDetails,
    tree: Node,
    bases: Mapping[Steps, Finding],
    model: type[BaseModel],
    known: dict[int, list[str]],
) -> Iterator[Finding]:
    kind, steps, context = detail["type"], detail["loc"], detail.get("ctx", {})
    # A key has no node of its own; the place of its value is that of the key.
    if steps[-1:] == ("[key]",):
        path, node, _ = at(tree, steps[:-1], known)
        yield Finding(node.where, path, *_of_key(kind, str(steps[-2]), context))
        return
    path, node, found = at(tree, steps, known)
    if kind == "missing":
        yield _missing(steps, path, node, bases, model)
    elif kind == "too_short" and len(node.items) >= context["min_length"]:
        return  # pydantic counts valid elements only, and has reported the others
    elif kind == IN_PLAIN:
        yield Finding(node.where, path, "the secret is in plain text", _set_secret(steps))
    elif kind == "value_error" and isinstance(node.data, float) and model is Settings:
        message = f"must not be a floating-point number (value {node.text})"
        yield Finding(node.where, path, message, f'write "{node.text}", in quotes')
    elif kind == "extra_forbidden":
        parent, _, _ = at(tree, steps[:-1], known)
        yield Finding(node.where, parent, f"unknown key {steps[-1]}", nearest(str(steps[-1]), _keys(steps[:-1], model)))
    elif kind == "value_error":
        faults = _split(str(context["error"]), of_model=_is_model(_type_at(steps, model)))
        yield from (Finding(node.where, path, message, remedy) for message, remedy in faults)
    else:
        message, remedy = _describe(kind, context, node, detail["msg"])
        # An invalid value in the section `secrets` may be a secret in the wrong place, so it is not printed.
        printable = found and steps[:1] != ("secrets",)
        yield Finding(node.where, path, f"{message} (value {_shape(node)})" if printable else message, remedy)


def _set_secret(steps: Steps) -> str:
    """Return the remedy for an unencrypted value of the section `secrets`; it does not contain the value."""
    _, _, index, _, key = steps
    spelled = f".{key}" if str(key).isidentifier() else f'["{key}"]'
    return (
        "remove the value from the file, rotate it, and enter the new value at the prompt of `pulumi config "
        f"set --secret --path 'trainstack:secrets.secrets[{index}].values{spelled}'`"
    )


def _describe(kind: str, context: Mapping[str, Any], node: Node, fallback: str) -> tuple[str, str]:
    if kind in _KINDS:
        quote = kind == "string_type" and isinstance(node.data, bool | int | float)
        return f"must be {_KINDS[kind]}", f'write "{node.text}", in quotes' if quote else f"write {_KINDS[kind]}"
    if kind == "literal_error":
        return "is not supported", _choices(context)
    if kind == "string_pattern_mismatch":
        return "has an invalid format", _pattern(context)
    if kind == DETAILED:
        return context["problem"], context["remedy"]
    if kind in _BOUNDS:
        key, template, remedy = _BOUNDS[kind]
        return template.format(context[key]), remedy
    return fallback, "see the JSON Schema in docs/schema"


def _split(text: str, *, of_model: bool) -> Iterator[tuple[str, str]]:
    """Yield the problems and remedies in a validator's message.

    The validator of a value raises one `problem; remedy`, that of a model (`of_model`) `problem: remedy; …`.
    """
    if not of_model:
        problem, _, remedy = text.partition("; ")
        yield problem, remedy
        return
    for fault in text.split("; "):
        problem, _, remedy = fault.partition(": ")
        yield problem, remedy


def _missing(steps: Steps, path: str, node: Node, bases: Mapping[Steps, Finding], model: type[BaseModel]) -> Finding:
    kind = _type_at(steps, model)
    values = f" ({' or '.join(get_args(kind))})" if get_origin(kind) is Literal else ""
    base = bases.get(steps[:3]) or bases.get(steps[:4])
    return base or Finding(node.where, path, "is missing", f"add `{steps[-1]}:`{values}")


def _of_key(kind: str, key: str, context: Mapping[str, Any]) -> tuple[str, str]:
    """Return the message and the remedy for an invalid key of a map with arbitrary keys."""
    if kind == "value_error":
        problem, _, remedy = str(context["error"]).partition("; ")
        return problem, remedy
    if kind == "string_pattern_mismatch":
        return f"the key {key} has an invalid format", _pattern(context)
    if kind == "string_too_short":
        return "the key is empty", "name it or remove it"
    return f"unknown key {key}", _choices(context)


def _choices(context: Mapping[str, Any]) -> str:
    return f"write {context['expected']}".replace("'", "")


def _pattern(context: Mapping[str, Any]) -> str:
    pattern = str(context["pattern"])
    return _PATTERNS.get(pattern) or "write one of " + pattern.strip("^$()").replace("|", ", ")


def _shape(node: Node) -> str:
    if isinstance(node.data, str):
        return json.dumps(node.data, ensure_ascii=False)
    return "a list" if isinstance(node.data, tuple) else "a map" if isinstance(node.data, Mapping) else node.text


def _keys(steps: Sequence[str | int], root: type[BaseModel]) -> list[str]:
    """Return the valid keys of the map at `steps`."""
    model = _type_at(steps, root)
    if not _is_model(model):
        return []
    keys = [field.alias or name for name, field in model.model_fields.items()]
    return [key for key in keys if key not in _NOT_IN_FILES.get(model, ())]


def _type_at(steps: Sequence[str | int], root: type[BaseModel]) -> Any:
    """Return the annotation of the value at `steps`, without None."""
    kind: Any = root
    for step in steps:
        if _is_model(kind):
            fields = {field.alias or name: field.annotation for name, field in kind.model_fields.items()}
            kind = fields.get(str(step))
        else:
            kind = get_args(kind)[0 if isinstance(step, int) else -1]
        if get_origin(kind) in (Union, UnionType):
            kind = next(member for member in get_args(kind) if member is not NoneType)
    return kind


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
