"""A cluster's quota and who uses it, as it will be once an environment's own objects are what it declares."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from trainstack.declared.declared import Declared
from trainstack.kueue.from_objects import declared_objects, read_snapshot
from trainstack.kueue.model import Snapshot
from trainstack.objects.labels import RUN, is_field_manager

Body = Mapping[str, Any]
Lists = Mapping[str, Iterable[Body] | None]
"""Objects by kind; None of a kind that may not be read, or that was not asked for."""
_DECISIVE = {"AdmissionCheck", "Cohort", "LimitRange", "Namespace", "Workload"}
"""Kinds without which it is not known what a queue has left, whom it admits, or what pods request."""


def snapshot(
    lists: Lists,
    declared: Declared,
    *,
    without: Collection[tuple[str, str]] = (),
    grows: bool = False,
    kueue: Body | None = None,
) -> Snapshot:
    """What a run of the environment would meet.

    Args:
        lists: what was read of the cluster, each object with its kind.
        declared: the environment; its objects count as they are declared, since `up` creates or updates them.
        without: runs whose Workloads are passed over, since a run does not compete with itself: by namespace and run
            id, or the name of the object. The id is in the labels of its pods, whatever its object is called.
        grows: whether nodes are made on demand.
        kueue: the running Kueue's Configuration; None where it is not known.

    """
    unread = {kind for kind, bodies in lists.items() if bodies is None}
    if unread & _DECISIVE:
        unread.add("ClusterQueue")
    found = [each for bodies in lists.values() for each in bodies or () if not _is_of(each, without)]
    made = read_snapshot(laid_over(found, declared_objects(declared)), unread=unread, kueue=kueue)
    return replace(made, model=replace(made.model, grows=grows))


def laid_over(live: Iterable[Body], declared: Iterable[Body]) -> Iterator[Body]:
    """Live objects as they will be: what is declared of them wins, fields and labels that others have set stay."""
    wanted = {_key(each): each for each in declared}
    for each in live:
        own = wanted.pop(_key(each), None)
        yield each if own is None else _merged(each, own)
    yield from wanted.values()


def _merged(live: Body, own: Body) -> Body:
    labels = {**(live["metadata"].get("labels") or {}), **(own["metadata"].get("labels") or {})}
    stays = {key: value for key, value in (live.get("spec") or {}).items() if not _goes(live, key)}
    spec = {**stays, **(own.get("spec") or {})}
    metadata = {**live["metadata"], **own["metadata"], "labels": labels}
    laid = {**live, **own, "metadata": metadata, "spec": spec}
    if spec != live.get("spec"):
        # What a controller has said of it is about what it was.
        laid.pop("status", None)
    return laid


def _goes(live: Body, key: str) -> bool:
    """Whether a field goes once the environment does not say it any more: nobody else has set it."""
    fields = live["metadata"].get("managedFields") or ()
    held = [each["manager"] for each in fields if f"f:{key}" in each.get("fieldsV1", {}).get("f:spec", {})]
    return bool(held) and all(map(is_field_manager, held))


def _is_of(body: Body, runs: Collection[tuple[str, str]]) -> bool:
    """Whether it is a Workload of one of these."""
    if body["kind"] != "Workload":
        return False
    metadata = body["metadata"]
    pods = (each["template"].get("metadata") or {} for each in body["spec"]["podSets"])
    names = {(each.get("labels") or {}).get(RUN) for each in pods}
    names |= {each["name"] for each in metadata.get("ownerReferences") or ()}
    return any((metadata["namespace"], name) in runs for name in names)


def _key(body: Body) -> tuple[str, str, str]:
    metadata = body["metadata"]
    return body["kind"], metadata.get("namespace", ""), metadata["name"]
