"""Convert pydantic's errors into findings with place, path, message and remedy."""

import json
from collections.abc import Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from trainstack.settings.errors import SettingsFinding, suggest_name
from trainstack.settings.loading.bases import Steps
from trainstack.settings.loading.kubernetes_keys import kubernetes_remedy
from trainstack.settings.loading.merge import locate
from trainstack.settings.loading.yaml_reader import Node
from trainstack.settings.model import Settings
from trainstack.settings.sections.secrets import PLAIN_TEXT_ERROR
from trainstack.settings.sections.sweeps import FROM_FILES, Sweep
from trainstack.settings.values.pod_patch import DETAILED_ERROR, UNKNOWN_FIELD_ERROR

_EXPECTED_TYPES = {
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
_PATTERN_REMEDIES = {
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
    "^[A-Z][A-Za-z0-9]*$": "use letters and digits, with an upper-case letter at the beginning",
    r"^[a-z0-9./-]+$": "write Kueue's name of an integration, such as kubeflow.org/jaxjob",
    r"^spec(\.[A-Za-z0-9_-]+(\[[0-9]+\])*)+$": "write a path such as spec.template or spec.groups[0].template",
    r"^status(\.[A-Za-z0-9_-]+(\[[0-9]+\])*)+$": "write a path such as status.state",
    r"^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$": ("use letters, digits and '-', with a letter or digit at both ends"),
    r"^[A-Z][A-Za-z0-9]* ([a-z0-9]([-a-z0-9]*[a-z0-9])?/)?[^ /%]+$": (
        "write <Kind> <namespace>/<name>, or <Kind> <name>"
    ),
    "^/": "write an absolute path, beginning with /",
    "^[^/]": "write a relative path, without / at its beginning",
}
"""Remedies by pattern. A pattern that only lists words has none here: the remedy lists the words."""


def findings_of(
    error: ValidationError,
    tree: Node,
    missing_bases: Mapping[Steps, SettingsFinding],
    model: type[BaseModel] = Settings,
) -> Iterator[SettingsFinding]:
    """Yield a finding for each fault that pydantic found in `tree`.

    `missing_bases`: by the steps of a run without a workload.yaml, the finding to report if the run lacks a value.
    """
    path_cache: dict[int, list[str]] = {}
    for detail in error.errors(include_url=False):
        yield from _findings_of_detail(detail, tree, missing_bases, model, path_cache)


def _findings_of_detail(
    detail: ErrorDetails,
    tree: Node,
    missing_bases: Mapping[Steps, SettingsFinding],
    model: type[BaseModel],
    path_cache: dict[int, list[str]],
) -> Iterator[SettingsFinding]:
    error_type, steps, context = detail["type"], detail["loc"], detail.get("ctx", {})
    # A key has no node of its own; the place of its value is that of the key.
    if steps[-1:] == ("[key]",):
        path, node, _ = locate(tree, steps[:-1], path_cache)
        yield SettingsFinding(node.where, path, *_describe_key(error_type, str(steps[-2]), context))
        return
    path, node, exists = locate(tree, steps, path_cache)
    if error_type == "missing":
        yield _missing_value(steps, path, node, missing_bases, model)
    elif error_type == "too_short" and len(node.items) >= context["min_length"]:
        return  # pydantic counts valid elements only, and has reported the others
    elif error_type == PLAIN_TEXT_ERROR:
        yield SettingsFinding(node.where, path, "the secret is in plain text", _secret_remedy(steps))
    elif error_type == "value_error" and isinstance(node.data, float) and model is Settings:
        message = f"must not be a floating-point number (value {node.text})"
        yield SettingsFinding(node.where, path, message, f'write "{node.text}", in quotes')
    elif error_type == "extra_forbidden":
        parent, _, _ = locate(tree, steps[:-1], path_cache)
        remedy = _unknown_key_remedy(str(steps[-1]), _type_at(steps[:-1], model))
        yield SettingsFinding(node.where, parent, f"unknown key {steps[-1]}", remedy)
    elif error_type == "value_error":
        faults = _split_message(str(context["error"]), of_model=_is_model(_type_at(steps, model)))
        yield from (SettingsFinding(node.where, path, message, remedy) for message, remedy in faults)
    else:
        message, remedy = _describe(error_type, context, node, detail["msg"])
        # An invalid value in the section `secrets` may be a secret in the wrong place, so it is not printed.
        is_printable = exists and steps[:1] != ("secrets",)
        yield SettingsFinding(
            node.where, path, f"{message} (value {_format_data(node)})" if is_printable else message, remedy
        )


def _secret_remedy(steps: Steps) -> str:
    """Return the remedy for an unencrypted value; it does not contain the value."""
    if steps[0] == "objects":
        return (
            "remove it from the file, rotate the values, and declare the Secret in section `secrets`, whose values "
            "`pulumi config set --secret --path 'trainstack:secrets.secrets[0].values.<key>'` encrypts"
        )
    _, _, index, _, key = steps
    key_suffix = f".{key}" if str(key).isidentifier() else f'["{key}"]'
    return (
        "remove the value from the file, rotate it, and enter the new value at the prompt of `pulumi config "
        f"set --secret --path 'trainstack:secrets.secrets[{index}].values{key_suffix}'`"
    )


def _describe(error_type: str, context: Mapping[str, Any], node: Node, fallback: str) -> tuple[str, str]:
    if error_type in _EXPECTED_TYPES:
        needs_quotes = error_type == "string_type" and isinstance(node.data, bool | int | float)
        return (
            f"must be {_EXPECTED_TYPES[error_type]}",
            f'write "{node.text}", in quotes' if needs_quotes else f"write {_EXPECTED_TYPES[error_type]}",
        )
    if error_type == "literal_error":
        return "is not supported", _choices_remedy(context)
    if error_type == "string_pattern_mismatch":
        return "has an invalid format", _pattern_remedy(context)
    if error_type in (DETAILED_ERROR, UNKNOWN_FIELD_ERROR):
        return context["problem"], context["remedy"]
    if error_type in _BOUNDS:
        key, template, remedy = _BOUNDS[error_type]
        return template.format(context[key]), remedy
    return fallback, "see the JSON Schema in docs/schema"


def _split_message(text: str, *, of_model: bool) -> Iterator[tuple[str, str]]:
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


def _missing_value(
    steps: Steps, path: str, node: Node, missing_bases: Mapping[Steps, SettingsFinding], model: type[BaseModel]
) -> SettingsFinding:
    annotation = _type_at(steps, model)
    values = f" ({' or '.join(get_args(annotation))})" if get_origin(annotation) is Literal else ""
    missing_base = missing_bases.get(steps[:3]) or missing_bases.get(steps[:4])
    return missing_base or SettingsFinding(node.where, path, "is missing", f"add `{steps[-1]}:`{values}")


def _describe_key(error_type: str, key: str, context: Mapping[str, Any]) -> tuple[str, str]:
    """Return the message and the remedy for an invalid key of a map with arbitrary keys."""
    if error_type == "value_error":
        problem, _, remedy = str(context["error"]).partition("; ")
        return problem, remedy
    if error_type == "string_pattern_mismatch":
        return f"the key {key} has an invalid format", _pattern_remedy(context)
    if error_type == "string_too_short":
        return "the key is empty", "name it or remove it"
    return f"unknown key {key}", _choices_remedy(context)


def _choices_remedy(context: Mapping[str, Any]) -> str:
    return f"write {context['expected']}".replace("'", "")


def _pattern_remedy(context: Mapping[str, Any]) -> str:
    pattern = str(context["pattern"])
    return _PATTERN_REMEDIES.get(pattern) or "write one of " + pattern.strip("^$()").replace("|", ", ")


def _format_data(node: Node) -> str:
    if isinstance(node.data, str):
        return json.dumps(node.data, ensure_ascii=False)
    return "a list" if isinstance(node.data, tuple) else "a map" if isinstance(node.data, Mapping) else node.text


def _unknown_key_remedy(key: str, model: Any) -> str:
    """Return the remedy for an unknown key of a section."""
    if not _is_model(model):
        return suggest_name(key, ())
    keys = [field.alias or name for name, field in model.model_fields.items()]
    valid_keys = [name for name in keys if name not in _NOT_IN_FILES.get(model, ())]
    return kubernetes_remedy(model, key) or suggest_name(key, valid_keys)


def _type_at(steps: Sequence[str | int], root: type[BaseModel]) -> Any:
    """Return the annotation of the value at `steps`, without None."""
    annotation: Any = root
    for step in steps:
        if _is_model(annotation):
            fields = {field.alias or name: field.annotation for name, field in annotation.model_fields.items()}
            annotation = fields.get(str(step))
        else:
            annotation = get_args(annotation)[0 if isinstance(step, int) else -1]
        if get_origin(annotation) in (Union, UnionType):
            annotation = next(member for member in get_args(annotation) if member is not NoneType)
    return annotation


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
