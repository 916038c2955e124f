"""A snapshot of a cluster's queues as they will be after `up` has applied the environment's own objects."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from trainstack.kueue.from_objects import admission_objects, read_queue_state
from trainstack.kueue.managed_jobs import configuration_after_install
from trainstack.kueue.model import QueueState
from trainstack.objects.labels import RUN, is_field_manager
from trainstack.objects.ownership import identity
from trainstack.stack_objects.stack_objects import StackObjects

Body = Mapping[str, Any]
Lists = Mapping[str, Iterable[Body] | None]
"""Objects by kind; None for a kind that could not be read or was not requested."""
_DECISIVE_KINDS = {"AdmissionCheck", "Cohort", "LimitRange", "Namespace", "Workload"}
"""Kinds without which the available quota, the admitted namespaces or the requests of pods are unknown."""


def queue_state_after_up(
    lists: Lists,
    stack_objects: StackObjects,
    *,
    ignored_runs: Collection[tuple[str, str]] = (),
    has_autoscaler: bool = False,
    kueue_configuration: Body | None = None,
    release: str = "",
) -> QueueState:
    """Return the queues and workloads after `up` has applied the environment's objects.

    The declared objects replace the live ones, since `up` creates or updates them. `ignored_runs`: runs whose Workloads
    are ignored, because a run does not compete with itself: namespace, and run id (from pods' labels) or object name.
    `has_autoscaler`: whether an autoscaler adds nodes. `kueue_configuration`: of the running Kueue, if known.
    `release`: its release, unless the environment installs Kueue; empty if unknown.
    """
    unread_kinds = {kind for kind, bodies in lists.items() if bodies is None} | (
        {"Topology", "RuntimeClass"} - lists.keys()
    )
    if unread_kinds & _DECISIVE_KINDS:
        unread_kinds.add("ClusterQueue")
    live_objects = [
        body for bodies in lists.values() for body in bodies or () if not _is_workload_of(body, ignored_runs)
    ]
    if (install := stack_objects.settings.operators.kueue) is not None:
        kueue_configuration, release = (
            configuration_after_install(kueue_configuration, install.configuration),
            install.manifest.version,
        )
    merged_objects = list(merge_declared_objects(live_objects, admission_objects(stack_objects)))
    queue_state = read_queue_state(
        merged_objects, unread_kinds=unread_kinds, kueue_configuration=kueue_configuration, release=release
    )
    checks = queue_state.model.active_checks
    if checks is not None:
        # As without a cluster: whether their controllers accept them is known only after `up`.
        checks = {**checks, **dict.fromkeys(_names_changed_by_up("AdmissionCheck", live_objects, merged_objects), True)}
    model = replace(
        queue_state.model,
        has_autoscaler=has_autoscaler,
        active_checks=checks,
        assumes_defaults=kueue_configuration is None,
    )
    return replace(queue_state, model=model)


def _names_changed_by_up(kind: str, live: Iterable[Body], merged: Iterable[Body]) -> list[str]:
    """Return the names of the objects of a kind that `up` creates or changes."""
    specs = {identity(body): body.get("spec") for body in live}
    return [
        body["metadata"]["name"]
        for body in merged
        if body["kind"] == kind and (identity(body) not in specs or body.get("spec") != specs[identity(body)])
    ]


def merge_declared_objects(live_objects: Iterable[Body], declared_bodies: Iterable[Body]) -> Iterator[Body]:
    """Yield live objects with the declared fields applied; fields and labels of other managers are kept."""
    unmatched = {identity(body): body for body in declared_bodies}
    for body in live_objects:
        declared_body = unmatched.pop(identity(body), None)
        yield body if declared_body is None else _merge(body, declared_body)
    yield from unmatched.values()


def _merge(live: Body, declared_body: Body) -> Body:
    labels = {**(live["metadata"].get("labels") or {}), **(declared_body["metadata"].get("labels") or {})}
    unowned_spec = {key: value for key, value in (live.get("spec") or {}).items() if not _is_owned(live, key)}
    spec = {**unowned_spec, **(declared_body.get("spec") or {})}
    merged_body = {
        **live,
        **declared_body,
        "metadata": {**live["metadata"], **declared_body["metadata"], "labels": labels},
        "spec": spec,
    }
    if spec != live.get("spec"):
        # The status describes the spec before the change.
        merged_body.pop("status", None)
    return merged_body


def _is_owned(live: Body, key: str) -> bool:
    """Whether only our field managers have set a field, so that server-side apply removes it if it is not declared."""
    fields = live["metadata"].get("managedFields") or ()
    managers = [entry["manager"] for entry in fields if f"f:{key}" in entry.get("fieldsV1", {}).get("f:spec", {})]
    return bool(managers) and all(map(is_field_manager, managers))


def _is_workload_of(body: Body, runs: Collection[tuple[str, str]]) -> bool:
    if body["kind"] != "Workload":
        return False
    metadata = body["metadata"]
    pods = (pod_set["template"].get("metadata") or {} for pod_set in (body.get("spec") or {}).get("podSets") or ())
    names = {(pod.get("labels") or {}).get(RUN) for pod in pods}
    names |= {owner["name"] for owner in metadata.get("ownerReferences") or ()}
    return any((metadata["namespace"], name) in runs for name in names)
