"""Compare a rendered object with the object of a file, field by field."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainstack.objects.labels import MANAGED_BY, OWNER, QUEUE
from trainstack.settings.values.pod_patch import canonical_amount

_QUANTITY_KEYS = ("requests", "limits", "capacity", "default", "hard")
"""Maps whose values are quantities; `1024Mi` and `1Gi` are the same."""
_QUANTITIES = ("nominalQuota", "borrowingLimit", "lendingLimit", "weight", "sizeLimit")
_ABSENT = object()
_OWNER_PATH = f"metadata.labels.{MANAGED_BY}"
"""The label that a chart sets too. Its value is that of the tool that manages the object from now on."""
_IN_METADATA = re.compile(r"(?P<pods>.*\.)?metadata\.(?P<field>label|annotation)s\.(?P<key>.+)")
_IN_CONTAINER = re.compile(r".*\bcontainers\[[0-9]+\]\.", re.IGNORECASE)


@dataclass(frozen=True, order=True)
class LostField:
    """A field of a file that the rendered object lacks, or has with another value."""

    path: str
    value: Any
    rendered: Any
    """The value of the rendered object; None if it lacks the field."""

    def __str__(self) -> str:
        shown = "is missing" if self.rendered is None else f"is {_shorten(self.rendered)}"
        return f"{self.path}: {_shorten(self.value)} {shown}"


@dataclass(frozen=True)
class AddedField:
    """A field that only the rendered object has, or that it leaves to Kueue."""

    path: str
    reason: str
    """Why it is added; empty if it is not among the documented additions."""

    @property
    def summary(self) -> str:
        """The path without the place of the pods, of which an object may have several."""
        match = _IN_METADATA.fullmatch(self.path)
        if match is None:
            return _IN_CONTAINER.sub("", self.path)
        return f"{match['field']} {match['key']}{' of pods' if match['pods'] else ''}"


@dataclass(frozen=True)
class Comparison:
    """The differences between an object of a file and the rendered one."""

    lost: tuple[LostField, ...]
    added: tuple[AddedField, ...]

    @property
    def is_complete(self) -> bool:
        """Whether the rendered object has every field, and nothing but the documented additions."""
        return not self.lost and all(field.reason for field in self.added)


NO_DIFFERENCES = Comparison((), ())
_FIND = "status, logs and the launch rules find the launch by them"
_ADDITIONS: Sequence[tuple[str, str]] = (
    (r"metadata\.labels\.(app\.kubernetes\.io/managed-by|trainstack\.dev/stack)", "the stack that owns the object"),
    (r"metadata\.labels\.trainstack\.dev/section", "the section that declares the object"),
    (r"(.*\.)?metadata\.labels\.trainstack\.dev/(run|workload|launch|role|sweep|set)", _FIND),
    (r"metadata\.labels\.kueue\.x-k8s\.io/(queue-name|priority-class)", "the queue and priority in the settings"),
    (r"metadata\.annotations\.pulumi\.com/skipAwait", "the engine does not wait until the object is ready"),
    (r"metadata\.annotations\.pulumi\.com/patchForce", "`adopt` takes over the object's fields"),
    (r"(.*\.)?metadata\.annotations\.kubectl\.kubernetes\.io/default-container", "the main container, by `container`"),
    (r"metadata\.annotations\.trainstack\.dev/object", "the paths of the pods of this kind"),
    (r"metadata\.annotations\.trainstack\.dev/[a-z-]+", "read by the guards"),
    (r".*\.fieldRef\.apiVersion|.*\.resourceFieldRef\.divisor", "the default of the API"),
    (r"spec\.claimRef\.(apiVersion|kind)", "the kind of what a volume is reserved for"),
    (r"metadata\.namespace", "the namespace, which the file left to the kubectl context"),
)
"""The documented additions: patterns of paths, with the reasons."""
_DEFAULTED = "the default of the API"
_ADDITIONS_OF_TRIALS: Sequence[tuple[str, str]] = (
    (r".*\.env\[[0-9]+\]\.(name|value)", "JOB_ID, the number of the trial"),
    *_ADDITIONS,
)


def compare(
    source: Mapping[str, Any],
    rendered: Mapping[str, Any],
    defaults: Mapping[str, Any] | None = None,
    additions: Sequence[tuple[str, str]] = _ADDITIONS,
) -> Comparison:
    """Compare an object of a file with the rendered object.

    `defaults`: the object with the API's defaults. `additions`: the documented ones.
    """
    lost, added, changed = list[LostField](), list[str](), list[AddedField]()
    for path, value, rendered_value in _differences(source, rendered, ""):
        if value is _ABSENT:
            added += _leaf_paths(path, rendered_value)
        elif _is_left_to_kueue(path, rendered):
            changed.append(AddedField(f"{path} (left out)", "Kueue sets it"))
        elif path == _OWNER_PATH and rendered_value == OWNER:
            changed.append(AddedField(path, _reason(path, _ABSENT, rendered_value, additions)))
        else:
            lost.append(LostField(path, value, None if rendered_value is _ABSENT else rendered_value))
    default_paths = {} if defaults is None else dict(_leaves(defaults, ""))
    rendered_leaves = dict(_leaves(rendered, "")) if default_paths else {}
    changed += (
        AddedField(path, _reason(path, default_paths.get(path, _ABSENT), rendered_leaves.get(path), additions))
        for path in added
    )
    return Comparison(
        tuple(sorted(lost, key=lambda field: field.path)), tuple(sorted(changed, key=lambda field: field.path))
    )


def compare_trial(source: Mapping[str, Any], rendered: Mapping[str, Any]) -> Comparison:
    """Compare an object of a file with the launch of a trial, which may have another name."""
    name = source["metadata"]["name"]
    renamed = {**rendered, "metadata": {**rendered["metadata"], "name": name}}
    comparison = compare(source, renamed, additions=_ADDITIONS_OF_TRIALS)
    if rendered["metadata"]["name"] == name:
        return comparison
    renaming = AddedField("metadata.name", "the name of the trial: the sweep's with the trial's number")
    return Comparison(comparison.lost, (renaming, *comparison.added))


def _reason(path: str, default: object, rendered: object, additions: Sequence[tuple[str, str]]) -> str:
    if default is not _ABSENT and default == rendered:
        return _DEFAULTED
    return next((reason for pattern, reason in additions if re.fullmatch(pattern, path)), "")


def _is_left_to_kueue(path: str, rendered: Mapping[str, Any]) -> bool:
    """Return whether Kueue sets the field."""
    is_queued = QUEUE in (rendered["metadata"].get("labels") or {})
    return is_queued and path in ("spec.suspend", "spec.runPolicy.suspend")


def _differences(source: Any, rendered: Any, path: str, key: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the path and both values of each difference; `_ABSENT` for a missing value."""
    if isinstance(source, Mapping) and isinstance(rendered, Mapping):
        for name in {**source, **rendered}:
            source_value, rendered_value = (_value(fields, name) for fields in (source, rendered))
            child_path = f"{path}.{name}" if path else str(name)
            child_key = str(name) if key not in _QUANTITY_KEYS else key
            yield from _differences(source_value, rendered_value, child_path, child_key)
    elif isinstance(source, list) and isinstance(rendered, list):
        for index in range(max(len(source), len(rendered))):
            source_item, rendered_item = (
                elements[index] if index < len(elements) else _ABSENT for elements in (source, rendered)
            )
            yield from _differences(source_item, rendered_item, f"{path}[{index}]", key)
    elif not _is_equal(source, rendered, key):
        yield path, source, rendered


def _value(fields: Mapping[str, Any], key: str) -> Any:
    """Return a value; a null is a missing value for the API."""
    value = fields.get(key)
    return _ABSENT if value is None else value


def _is_equal(source: Any, rendered: Any, key: str) -> bool:
    if type(source) is type(rendered) and source == rendered:
        return True
    if source is _ABSENT or rendered is _ABSENT or not (key in _QUANTITY_KEYS or key in _QUANTITIES):
        return False
    return bool(canonical_amount(source) == canonical_amount(rendered))


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, child in value.items():
            yield from _leaves(child, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value:
        for index, child in enumerate(value):
            yield from _leaves(child, f"{path}[{index}]")
    else:
        yield path, value


def _leaf_paths(path: str, value: Any) -> list[str]:
    return [leaf for leaf, _ in _leaves(value, path)]


def _shorten(value: Any, limit: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
