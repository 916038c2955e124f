"""Manifests as the workloads of an environment, and the comparison of their launches with them."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from trainstack.settings.loading.load import load
from trainstack.settings.values.quantities import canonical_quantity
from trainstack.stack_objects.inputs import Inputs
from trainstack.stack_objects.stack_objects import StackObjects

Manifest = dict[str, Any]
Steps = tuple[str | int, ...]
NAME, NAMESPACE, QUEUE = "corpus", "research", "user-queue"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
_ADDED_LABELS = frozenset(
    {
        *("app.kubernetes.io/managed-by", "trainstack.dev/stack", "trainstack.dev/workload", "trainstack.dev/run"),
        *("trainstack.dev/launch", "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"),
    }
)
_ADDED_POD_LABELS = frozenset({f"trainstack.dev/{key}" for key in ("workload", "run", "launch", "role")})
_ADDED_ANNOTATIONS = frozenset({"pulumi.com/skipAwait", "trainstack.dev/object"})
_DEFAULTS: Mapping[Steps, str] = {
    ("fieldRef", "apiVersion"): "v1",
    ("resourceFieldRef", "divisor"): "0",
}
"""The defaults that the API server would add."""
_AMOUNTS = frozenset({"requests", "limits", "divisor", "sizeLimit", "overhead"})
"""The fields of pods with amounts, which the API server changes to their canonical form."""


def render(folder: Path, text: str, **settings: Any) -> Manifest:
    """Return the launch of a run whose `workload.yaml` is this manifest. Raises SettingsError and WorkloadError.

    `settings`: those of the run.
    """
    file = folder / "workloads" / NAME / "workload.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    run = {"name": NAME, "namespace": NAMESPACE, **settings}
    sections = {"environment": {"namespaces": [{"name": NAMESPACE}]}, "workloads": {"runs": [run]}}
    config = {f"trainstack:{name}": section for name, section in sections.items()}
    (folder / "Pulumi.test.yaml").write_text(json.dumps({"config": config}), encoding="utf-8")
    (planned_run,) = StackObjects(load(folder, "test"), Inputs(wrapper="print()", commit="abc")).runs
    return planned_run.manifest


def differences(original: Manifest, rendered: Manifest, *, queued: bool) -> list[str]:
    """Return the differences between a manifest and its launch, except for what decision 0032 lists.

    A field without a value is the same as none, as is an empty status. `queued`: whether the launch has a queue.
    """
    # The API server gives a Job without labels those of its template.
    takes_labels = original["kind"] == "Job" and not original["metadata"].get("labels")
    template = original["spec"]["template"] if takes_labels else {}
    template_labels = (template.get("metadata") or {}).get("labels") or {}
    return [
        f"{'.'.join(map(str, path))}: {before} became {after}"
        for path, before, after in _changes((), original, rendered)
        if not _is_listed(path, before, after, template_labels, queued=queued)
    ]


def _changes(path: Steps, before: Any, after: Any) -> Iterator[tuple[Steps, Any, Any]]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in (*before, *(key for key in after if key not in before)):
            yield from _changes((*path, key), before.get(key), after.get(key))
    elif before is None and isinstance(after, Mapping) and path[-1] in ("metadata", "labels", "annotations"):
        yield from _changes(path, {}, after)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (item, other) in enumerate(zip(before, after, strict=True)):
            yield from _changes((*path, index), item, other)
    elif before != after or type(before) is not type(after):
        yield path, before, after


def _is_listed(path: Steps, before: Any, after: Any, template_labels: Mapping[str, str], *, queued: bool) -> bool:
    match path:
        case ("metadata", "name" | "namespace"):
            listed = after is not None
        case ("metadata", "generateName"):
            listed = True
        case ("metadata", "labels", label):
            listed = after is not None and (label in _ADDED_LABELS or template_labels.get(str(label)) == after)
        case ("metadata", "annotations", annotation):
            listed = annotation in _ADDED_ANNOTATIONS and after is not None
        case (*_, "metadata", "labels", label) if label in _ADDED_POD_LABELS:
            listed = before is None
        case ("spec", "suspend") | ("spec", "runPolicy", "suspend"):
            listed = queued and not after
        case ("status",):
            listed = before == {}
        case _:
            listed = _is_form_of_api(path, before, after)
    return listed


def _is_form_of_api(path: Steps, before: Any, after: Any) -> bool:
    """Return whether a value of a pod is the default or the canonical form that the API server would store."""
    if before is None:
        return after is not None and _DEFAULTS.get(path[-2:]) == after
    with suppress(ValueError):
        return bool(_AMOUNTS.intersection(path)) and canonical_quantity(before) == after
    return False
