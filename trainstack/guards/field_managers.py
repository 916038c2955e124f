"""Fields of declared objects that other managers have set, reported before they are overwritten. Pure.

The API server records the manager of each field in `metadata.managedFields`. The engine's provider silently takes over
kubectl's fields, and reports a conflict with any other manager only in the middle of an `up`.

Source: https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainstack.objects.labels import LAUNCH, OBJECT, is_field_manager
from trainstack.objects.ownership import identity
from trainstack.runs.status.launch_kinds import KINDS
from trainstack.settings.values.quantities import amount

PathStep = str | int | tuple[tuple[str, Any], ...]
"""A key of a map, an index of a list, or the keys and values that identify an element of a list."""
ManagedFieldPath = tuple[PathStep, ...]
_MAX_CHARACTERS = 60
"""The maximum length of a value in a message."""


@dataclass(frozen=True)
class ForeignField:
    manager: str
    since: str
    """The time at which that manager last set a field of the object; empty if it is unknown."""
    path: ManagedFieldPath


def foreign_fields(manifest: Mapping[str, Any], metadata: Mapping[str, Any]) -> tuple[ForeignField, ...]:
    """Return the declared fields that other managers own, whatever their values.

    `metadata`: the metadata of the live object. The result is empty for a launch, which is never edited.
    """
    is_launch = manifest["kind"] in KINDS or OBJECT in (manifest["metadata"].get("annotations") or {})
    if is_launch and LAUNCH in (manifest["metadata"].get("labels") or {}):
        return ()
    return tuple(
        ForeignField(entry["manager"], entry.get("time", ""), path)
        for entry in metadata.get("managedFields") or ()
        if not _is_own_manager(entry["manager"]) and entry.get("subresource") != "status"
        for path in _owned_paths(entry.get("fieldsV1") or {}, manifest, ())
    )


def describe_differences(
    manifest: Mapping[str, Any], live: Mapping[str, Any], fields: Sequence[ForeignField]
) -> tuple[str, ...]:
    """Return a message for each field whose live value differs from the declared one."""
    kind, namespace, name = identity(manifest)
    subject = f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
    return tuple(
        f"{subject}: {_format_path(field.path)} is {_format_value(kind, live_value)}, set by {field.manager!r}"
        f"{f' ({field.since})' if field.since else ''}, and {_format_value(kind, declared_value)} is declared"
        for field in fields
        for declared_value, live_value in [(_value_at(manifest, field.path), _value_at(live, field.path))]
        if live_value is not None and not _matches(declared_value, live_value)
    )


def managed_fields_after_transfer(managed_fields: Sequence[Mapping[str, Any]], manager: str) -> list[Mapping[str, Any]]:
    """Return `managedFields` with the fields of all other states transferred to this state's `manager`.

    The latest entry that another state applied becomes this state's, so that a later change removes fields that are no
    longer declared. Entries that were updated instead are dropped, since nothing removes their fields. The latest of
    them is kept if it is the only entry left: with an empty list, the API server would assign all fields to an unknown
    client.
    """
    foreign_entries = [
        entry for entry in managed_fields if is_field_manager(entry["manager"]) and entry["manager"] != manager
    ]
    remaining_entries = [entry for entry in managed_fields if entry not in foreign_entries]
    if any(entry["manager"] == manager and entry["operation"] == "Apply" for entry in remaining_entries):
        return remaining_entries
    applied_entries = [entry for entry in foreign_entries if entry["operation"] == "Apply"]
    candidates = applied_entries or ([] if remaining_entries else foreign_entries)
    latest_entries = sorted(candidates, key=lambda entry: str(entry.get("time", "")))[-1:]
    return [*remaining_entries, *({**entry, "manager": manager} for entry in latest_entries)]


def has_fields_of_other_states(metadata: Mapping[str, Any], manager: str) -> bool:
    """Return whether a state with another field manager has set fields of a live object."""
    managed_fields = metadata.get("managedFields") or ()
    return any(is_field_manager(entry["manager"]) and entry["manager"] != manager for entry in managed_fields)


def _is_own_manager(manager: str) -> bool:
    return is_field_manager(manager) or manager.startswith("pulumi-")


def _owned_paths(fields: Mapping[str, Any], declared: object, path: ManagedFieldPath) -> Iterator[ManagedFieldPath]:
    """Yield the declared paths in a manager's set of fields. An atomic value is one path."""
    for key, nested_fields in fields.items():
        step = _parse_step(key)
        if step is None or _value_at(declared, (step,)) is None:
            continue
        if not nested_fields:
            yield (*path, step)
        else:
            yield from _owned_paths(nested_fields, _value_at(declared, (step,)), (*path, step))


def _parse_step(key: str) -> PathStep | None:
    """Parse a key of `fieldsV1`. Return None for `.` and `v:`, which have no value below them."""
    kind, _, step_text = key.partition(":")
    if kind == "f":
        return step_text
    if kind == "i":
        return int(step_text)
    return tuple(sorted(json.loads(step_text).items())) if kind == "k" else None


def _value_at(data: Any, path: ManagedFieldPath) -> Any:
    for step in path:
        if isinstance(step, str):
            data = data.get(step) if isinstance(data, Mapping) else None
        elif not isinstance(data, list):
            return None
        elif isinstance(step, int):
            data = data[step] if step < len(data) else None
        else:
            matching_elements = (
                item for item in data if isinstance(item, Mapping) and dict(step).items() <= item.items()
            )
            data = next(matching_elements, None)
    return data


def _matches(declared: Any, live: Any) -> bool:
    """Return whether a live value is the declared one, apart from defaults that the API server adds to maps."""
    if isinstance(declared, Mapping):
        return isinstance(live, Mapping) and all(_matches(value, live.get(key)) for key, value in declared.items())
    if isinstance(declared, list):
        return isinstance(live, list) and len(declared) == len(live) and all(map(_matches, declared, live))
    if str(declared) == str(live):
        return True
    try:
        return amount(str(declared)) == amount(str(live))
    except ValueError:
        return False


def _format_path(path: ManagedFieldPath) -> str:
    text = ""
    for step in path:
        if isinstance(step, str):
            text += f".{step}" if "." not in step and "/" not in step else f'["{step}"]'
        elif isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f"[{', '.join(f'{key}={value}' for key, value in step)}]"
    return text.lstrip(".")


def _format_value(kind: str, value: Any) -> str:
    if kind == "Secret":
        return "a secret value"
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= _MAX_CHARACTERS else f"{text[: _MAX_CHARACTERS - 1]}…"
