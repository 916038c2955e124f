"""A preview as lines: what is created and deleted, by kind, and the changed fields of what is updated or replaced."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainstack.guards.definition_releases import API_VERSION, KIND, RESOURCE_TYPE, revisions_of_resource
from trainstack.live.paths import is_cluster_scoped
from trainstack.objects.ownership import format_names
from trainstack.printable import clean
from trainstack.runs.recorded_launches import state_resource, type_token

_LISTED_OPERATIONS = ("create", "import", "import-replacement", "delete")
_CHANGING_OPERATIONS = ("update", "replace")
_MAX_VALUE = 60
"""Characters of a value; a longer one is cut."""
_SECRET_KINDS = ("Secret", "SecretList", "SecretPatch")
"""Kinds whose values are not shown."""
_MISSING = object()
_STATES = ("oldState", "newState")


def preview_lines(output: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines for the output of `pulumi preview --json`; components and providers are left out."""
    steps = [step for step in _with_definitions(output.get("steps", ())) if _type(step).startswith("kubernetes:")]
    for op in _LISTED_OPERATIONS:
        yield from _lines_by_kind(op, [step for step in steps if step["op"] == op])
    for step in steps:
        if step["op"] in _CHANGING_OPERATIONS:
            yield f"{step['op']}: {_kind(step)} {_name(step)}"
            yield from (f"  {line}" for line in _differences(step))
    for entry in output.get("diagnostics", ()):
        if entry["severity"] == "warning":
            yield f"note: {entry['message'].removeprefix('warning: ').strip()}"
    counts = {op: sum(step["op"] == op for step in steps) for op in (*_LISTED_OPERATIONS, *_CHANGING_OPERATIONS)}
    changes = ", ".join(f"{count} to {op}" for op, count in counts.items() if count)
    # The engine lists no step for an unchanged resource. Its count includes components, as in its own summary.
    yield f"{changes or 'no changes'}, {(output.get('changeSummary') or {}).get('same', 0)} unchanged"


def _with_definitions(steps: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the steps, followed by one for each definition of a release, whose own step is not a Kubernetes object."""
    yield from steps
    for step in steps:
        yield from _definition_steps(step)


def _definition_steps(step: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    old, new = (_definitions_in_release(step, state) for state in _STATES)
    # Unchanged ones are not listed, as the engine lists no unchanged resource.
    for name in sorted(name for name in {*old, *new} if old.get(name) != new.get(name)):
        op = "create" if name not in old else "delete" if name not in new else "update"
        states = zip(_STATES, (old, new), strict=True)
        yield {"op": op, **{state: definitions[name] for state, definitions in states if name in definitions}}


def _definitions_in_release(step: Mapping[str, Any], state: str) -> dict[str, Mapping[str, Any]]:
    """Return the definitions in a resource of a release as if each were a resource, by name."""
    if _type(step) != RESOURCE_TYPE:
        return {}
    inputs = (step.get(state) or {}).get("inputs") or {}
    return {
        name: {
            "type": type_token(API_VERSION, KIND),
            "retainOnDelete": True,
            "inputs": {
                "metadata": {"name": name},
                "version": inputs["input"]["version"],
                "revision": revision,
            },
        }
        for name, revision in revisions_of_resource(state_resource(step["urn"], inputs)).items()
    }


def preview_errors(output: Mapping[str, Any]) -> str:
    """Return the errors of a preview that failed."""
    messages = (entry["message"] for entry in output.get("diagnostics", ()) if entry["severity"] == "error")
    return "\n".join(message.removeprefix("error: ").strip() for message in messages)


def _lines_by_kind(op: str, steps: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    groups: dict[str, list[str]] = {}
    for step in steps:
        is_kept = op == "delete" and (step.get("oldState") or {}).get("retainOnDelete")
        groups.setdefault(f"{'forget' if is_kept else op}: {_kind(step)}", []).append(_name(step))
    for head, names in groups.items():
        kept_note = " (kept in the cluster)" if head.startswith("forget") else ""
        # Whoever confirms a deletion has seen its name.
        shown_names = ", ".join(sorted(names)) if op == "delete" else format_names(sorted(names))
        yield f"{head} {shown_names}{kept_note}"


def _differences(step: Mapping[str, Any]) -> Iterator[str]:
    old, new = ((step.get(state) or {}).get("inputs") or {} for state in _STATES)
    for raw_path, old_value, new_value in _leaves("", old, new):
        path = _as_one_line(raw_path)
        if _kind(step) in _SECRET_KINDS:
            yield path
        elif old_value is _MISSING:
            yield f"{path}: {_format_value(new_value)} (added)"
        elif new_value is _MISSING:
            yield f"{path}: {_format_value(old_value)} (removed)"
        else:
            yield f"{path}: {_format_value(old_value)} → {_format_value(new_value)}"


def _leaves(path: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the path and both values of each difference."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys((*old, *new)):
            yield from _leaves(f"{path}.{key}" if path else key, old.get(key, _MISSING), new.get(key, _MISSING))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (old_element, new_element) in enumerate(zip(old, new, strict=True)):
            yield from _leaves(f"{path}[{index}]", old_element, new_element)
    elif old != new:
        yield path, old, new


def _format_value(value: Any) -> str:
    text = _as_one_line(str(value))
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 1]}…"


def _as_one_line(text: str) -> str:
    r"""Return the text without control sequences, and with all line ends and tabs as `\n` and `\t`."""
    return clean(text).replace("\n", "\\n").replace("\t", "\\t")


def _state(step: Mapping[str, Any]) -> Mapping[str, Any]:
    return step.get("newState") or step.get("oldState") or {}


def _type(step: Mapping[str, Any]) -> str:
    return str(_state(step).get("type", ""))


def _kind(step: Mapping[str, Any]) -> str:
    return _type(step).rpartition(":")[2]


def _name(step: Mapping[str, Any]) -> str:
    metadata = (_state(step).get("inputs") or {}).get("metadata") or {}
    name = metadata.get("name") or f"{metadata.get('generateName', '?')}…"
    # The provider adds a namespace to objects of kinds whose definitions do not exist yet.
    in_namespace = metadata.get("namespace") and not is_cluster_scoped(_kind(step))
    return f"{metadata['namespace']}/{name}" if in_namespace else str(name)
