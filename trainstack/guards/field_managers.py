"""Fields of our objects that somebody else has set: told before they are overwritten.

The API server keeps who set which field last (`metadata.managedFields`). The engine's provider takes over what kubectl
has set before it applies ours, so that nothing conflicts and nothing is said; other managers' fields it would only come
upon in the middle of an `up`. Pure: from manifests and live objects to what differs.

Source: https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainstack.objects.labels import LAUNCH, is_field_manager
from trainstack.objects.ownership import identity
from trainstack.runs.status.kinds import KINDS
from trainstack.settings.values.quantities import amount

Step = str | int | tuple[tuple[str, Any], ...]
"""A key of a map, an index of a list, or what tells an element of a list from the others."""
Path = tuple[Step, ...]
_MOST = 60
"""Characters of a value in a message."""


@dataclass(frozen=True)
class Held:
    """A field that we declare and somebody else owns."""

    manager: str
    since: str
    """When that manager last set anything of the object."""
    path: Path


def held(manifest: Mapping[str, Any], metadata: Mapping[str, Any]) -> tuple[Held, ...]:
    """The declared fields that others own, whatever their values are.

    None of a launch, which is never edited. None of a status, which nobody declares.

    Args:
        manifest: the object as it would be declared.
        metadata: the live one's.

    """
    if manifest["kind"] in KINDS and LAUNCH in (manifest["metadata"].get("labels") or {}):
        return ()
    return tuple(
        Held(entry["manager"], entry.get("time", ""), path)
        for entry in metadata.get("managedFields") or ()
        if not _ours(entry["manager"]) and entry.get("subresource") != "status"
        for path in _owned(entry.get("fieldsV1") or {}, manifest, ())
    )


def overwritten(manifest: Mapping[str, Any], live: Mapping[str, Any], fields: Sequence[Held]) -> tuple[str, ...]:
    """Say of each of these fields whose live value is another one what applying the manifest would do to it."""
    kind, namespace, name = identity(manifest)
    place = f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
    return tuple(
        f"{place}: {_words(each.path)} is {_shown(kind, there)}, set by {each.manager!r}"
        f"{f' ({each.since})' if each.since else ''}, and {_shown(kind, here)} is declared"
        for each in fields
        for here, there in [(_at(manifest, each.path), _at(live, each.path))]
        if there is not None and not _agrees(here, there)
    )


def inherited(fields: Sequence[Mapping[str, Any]], manager: str) -> list[Mapping[str, Any]]:
    """Return `managedFields` with the fields of all other states transferred to this state.

    The latest set that another state applied becomes this state's own, so that a later change removes what it no longer
    declares. Sets that were not applied are dropped: nothing removes their fields anyway. The last one is kept: to the
    API server, an empty list means that a client that it does not know set all fields.

    Args:
        fields: as they are.
        manager: the field manager of this state.

    """
    of_others = [each for each in fields if is_field_manager(each["manager"]) and each["manager"] != manager]
    kept = [each for each in fields if each not in of_others]
    if any(each["manager"] == manager and each["operation"] == "Apply" for each in kept):
        return kept
    applied = [each for each in of_others if each["operation"] == "Apply"]
    candidates = applied or ([] if kept else of_others)
    latest = sorted(candidates, key=lambda each: str(each.get("time", "")))[-1:]
    return [*kept, *({**each, "manager": manager} for each in latest)]


def of_other_states(metadata: Mapping[str, Any], manager: str) -> bool:
    """Whether another state than the one with this field manager has set fields of a live object."""
    fields = metadata.get("managedFields") or ()
    return any(is_field_manager(each["manager"]) and each["manager"] != manager for each in fields)


def _ours(manager: str) -> bool:
    """Whether it is a state of ours, or the engine's provider under one of its own names."""
    return is_field_manager(manager) or manager.startswith("pulumi-")


def _owned(fields: Mapping[str, Any], declared: object, path: Path) -> Iterator[Path]:
    """The paths in a manager's set of fields that are declared; of what is declared as a whole, that whole."""
    for key, below in fields.items():
        step = _step(key)
        if step is None or _at(declared, (step,)) is None:
            continue
        if not below:
            yield (*path, step)
        else:
            yield from _owned(below, _at(declared, (step,)), (*path, step))


def _step(key: str) -> Step | None:
    """A key of `fieldsV1`; None of one that holds no value of its own: `.`, and `v:`, which is its own value."""
    what, _, rest = key.partition(":")
    if what == "f":
        return rest
    if what == "i":
        return int(rest)
    return tuple(sorted(json.loads(rest).items())) if what == "k" else None


def _at(data: Any, path: Path) -> Any:
    """The value at a path; None where there is none."""
    for step in path:
        if isinstance(step, str):
            data = data.get(step) if isinstance(data, Mapping) else None
        elif not isinstance(data, list):
            return None
        elif isinstance(step, int):
            data = data[step] if step < len(data) else None
        else:
            same = (each for each in data if isinstance(each, Mapping) and dict(step).items() <= each.items())
            data = next(same, None)
    return data


def _agrees(here: Any, there: Any) -> bool:
    """Whether a live value is what is declared, and perhaps more: the API server fills in defaults."""
    if isinstance(here, Mapping):
        return isinstance(there, Mapping) and all(_agrees(each, there.get(key)) for key, each in here.items())
    if isinstance(here, list):
        return isinstance(there, list) and len(here) == len(there) and all(map(_agrees, here, there))
    if str(here) == str(there):
        return True
    try:
        return amount(str(here)) == amount(str(there))
    except ValueError:
        return False


def _words(path: Path) -> str:
    words = ""
    for step in path:
        if isinstance(step, str):
            words += f".{step}" if "." not in step and "/" not in step else f'["{step}"]'
        elif isinstance(step, int):
            words += f"[{step}]"
        else:
            words += f"[{', '.join(f'{key}={value}' for key, value in step)}]"
    return words.lstrip(".")


def _shown(kind: str, value: Any) -> str:
    """A value for people; of a Secret none."""
    if kind == "Secret":
        return "a secret value"
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= _MOST else f"{text[: _MOST - 1]}…"
