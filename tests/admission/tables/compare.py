"""What the port answers to Kueue's questions, and where it differs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.admission.tables.cases import Body, Case, amounts, named, workload_of
from trainstack.kueue.cycle import QueueHead, process_heads
from trainstack.kueue.diagnosis import inadmissibility_reasons
from trainstack.kueue.flavor_assigner import Assignment, Mode, assign_flavors
from trainstack.kueue.model import AdmittedWorkload, FlavorResource, Model, Workload
from trainstack.kueue.nomination import attempt_admission
from trainstack.kueue.pending_queue import PendingQueue
from trainstack.kueue.preemption import preemption_targets
from trainstack.kueue.preemption_context import PreemptionContext
from trainstack.kueue.snapshot import QueueSnapshot, Snapshot
from trainstack.kueue.unmodeled_features import unmodeled_features

_MODES = {Mode.NO_FIT: "NoFit", Mode.FIT: "Fit"}


@dataclass(frozen=True, slots=True)
class Answer:
    difference: str
    """How the port's answer differs from Kueue's; empty if they are equal."""
    unknown: frozenset[str] = frozenset()
    """What the port does not calculate, so that its verdict would be `unknown`."""


def compared(case: Case) -> Answer:
    return {"assignment": _assignment, "targets": _targets, "head": _head, "cycle": _cycle}[case.question](case)


def _assignment(case: Case) -> Answer:
    value = case.value
    flavors = [named(body, "ResourceFlavor") for body in value["flavors"]]
    objects = [body for body in case.objects if body["kind"] != "ResourceFlavor"]
    model = replace(case, objects=tuple(objects)).state(flavors).model
    snapshot = Snapshot(model)
    for queue, usage in value["usage"].items():
        if usage:
            snapshot.tree.add(queue, amounts(usage))
    workload = workload_of(value["workload"], model)
    if not isinstance(workload, Workload):
        return Answer("the workload is not read as pending")
    cq = snapshot.cluster_queues[value["queue"]]
    unknown = _unknown(model, workload, cq)
    answers = {
        (one["flavor"], one["resource"], one["quantity"]): (Mode(one["mode"]), one["level"]) for one in value["oracle"]
    }

    # Kueue takes a pod set's resources in a random order, and ends with one that does not fit: of the others it may ask
    # nothing, and their answer may not matter.
    for missing in (Mode.NO_CANDIDATES, Mode.PREEMPT, Mode.RECLAIM):

        def oracle(fr: FlavorResource, number: int, missing: Mode = missing) -> tuple[Mode, int]:
            return answers.get((*fr, number), (missing, 0))

        tried = tuple(one or {} for one in value.get("tried") or ())
        found = assign_flavors(workload, cq, oracle, counts=value["counts"], tried_flavors=tried)
        different = _unequal(_described(found), _expected(value["result"]))
        if different:
            return Answer(different, unknown)
    return Answer("", unknown)


def _unknown(model: Model, workload: Workload, cq: QueueSnapshot) -> frozenset[str]:
    return frozenset(reason.message for reason in unmodeled_features(model, workload, cq))


def _described(found: Assignment) -> dict[str, Any]:
    return {
        "mode": _MODES.get(found.mode, "Preempt"),
        "level": found.level,
        "usage": {fr: number for fr, number in found.usage.items() if number},
        "podSets": [
            {
                "name": pods.name,
                "count": pods.count,
                "flavors": {
                    resource: (choice.flavor, _MODES.get(choice.mode, "Preempt"), pods.tried_flavors.get(resource))
                    for resource, choice in pods.flavors.items()
                },
            }
            for pods in found.pod_sets
        ],
    }


def _expected(result: Body) -> dict[str, Any]:
    return {
        "mode": result["mode"],
        "level": result["level"],
        "usage": {fr: number for fr, number in amounts(result["usage"]).items() if number},
        "podSets": [
            {
                "name": pods["name"],
                "count": pods["count"],
                "flavors": {
                    resource: (choice["name"], choice["mode"], choice["tried"])
                    for resource, choice in (pods["flavors"] or {}).items()
                },
            }
            for pods in result["podSets"]
        ],
    }


def _targets(case: Case) -> Answer:
    value = case.value
    state = case.state([named(body, "Workload") for body in value["admitted"]])
    if len(state.admitted) != len(value["admitted"]):
        return Answer("not all admitted workloads are read")
    workload = workload_of(value["workload"], state.model)
    if isinstance(workload, AdmittedWorkload):
        workload = workload.workload
    if workload is None:
        return Answer("the workload is not read")
    snapshot = Snapshot(state.model, state.admitted)
    contested = {(one["flavor"], one["resource"]) for one in value["contested"]}
    cq = snapshot.cluster_queues[value["queue"]]
    found = preemption_targets(snapshot, PreemptionContext(workload, cq, contested, amounts(value["usage"])))
    different = _unequal(
        {"targets": sorted(target.workload.key for target in found)},
        {"targets": sorted(target["name"] for target in value["targets"])},
    )
    undecided = frozenset({snapshot.undecided} - {""})
    return Answer(different, _unknown(state.model, workload, cq) | undecided)


def _head(case: Case) -> Answer:
    value = case.value
    queue = {"kind": "ClusterQueue", "metadata": {"name": "queue"}, "spec": {}}
    state = replace(case, objects=(queue,)).state([named(body, "Workload") for body in value["pending"]])
    pending = PendingQueue(Snapshot(state.model).cluster_queues["queue"])
    # The sticky one first, so that it is the head when it becomes sticky.
    workloads = sorted(state.pending, key=lambda workload: workload.key != value["sticky"])
    for number, workload in enumerate(workloads):
        pending.add(workload, number)
        if workload.key == value["sticky"] and (item := pending.head()):
            pending.make_sticky(item)
    head = pending.head()
    if head is None or len(workloads) != len(value["pending"]):
        return Answer("not all pending workloads are read")
    # Kueue leaves the order of equal priorities and times undefined.
    chosen = next(workload for workload in workloads if workload.key == value["head"])
    same = (head.workload.priority, head.workload.created) == (chosen.priority, chosen.created)
    return Answer("" if same else _unequal({"head": head.workload.key}, {"head": chosen.key}))


def _cycle(case: Case) -> Answer:
    value = case.value
    others = [
        *(named(body, "Workload") for body in value["admitted"]),
        *(named(body, "Namespace") for body in value["namespaces"]),
        *(named(body, "LimitRange") for body in value["limitRanges"]),
        *(named(body, "LocalQueue") for body in value["localQueues"]),
    ]
    state = case.state(others)
    if len(state.admitted) != len(value["admitted"]):
        return Answer("not all admitted workloads are read")
    model, snapshot = state.model, Snapshot(state.model, state.admitted)
    heads: list[QueueHead] = []
    found: dict[str, tuple[str, tuple[Any, ...]]] = {}
    unknown: frozenset[str] = frozenset()
    for name, bodies in (value["pending"] or {}).items():
        if name not in snapshot.cluster_queues:
            continue
        pending = PendingQueue(snapshot.cluster_queues[name])
        held = set((value["inadmissible"] or {}).get(name) or ())
        workloads = [workload_of(body, model) for body in bodies]
        for number, workload in enumerate(workloads):
            if isinstance(workload, Workload) and workload.key not in held:
                pending.add(workload, number)
        item = pending.head()
        if item is None:
            continue
        unknown |= _unknown(model, item.workload, pending.cq)
        closed = any(inadmissibility_reasons(model, item.workload, pending.cq.spec, snapshot))
        found[item.workload.key] = "inadmissible" if closed else "", ()
        if not closed:
            heads.append(QueueHead(item, pending, attempt_admission(snapshot, pending.cq, item.workload)))
    result = process_heads(snapshot, heads)
    for head in result.admitted_heads:
        found[head.entry.workload.key] = (
            "admitted",
            tuple(
                (pods.name, pods.count, {resource: choice.flavor for resource, choice in pods.flavors.items()})
                for pods in head.attempt.assignment.pod_sets
            ),
        )
    for head in result.preempting_heads:
        targets = sorted(target.workload.key for target in head.attempt.targets)
        found[head.entry.workload.key] = "preempts", tuple(targets)
    return Answer(_unequal(found, {head["name"]: _decided(head) for head in case.heads}), unknown)


def _decided(head: Body) -> tuple[str, tuple[Any, ...]]:
    if head["status"] == "assumed":
        return "admitted", tuple(
            (
                pods["name"],
                pods["count"],
                {resource: choice["name"] for resource, choice in (pods["flavors"] or {}).items()},
            )
            for pods in head["assignment"]["podSets"]
        )
    if head["preempts"]:
        return "preempts", tuple(sorted(head["targets"]))
    if not head["assignment"]["podSets"]:
        return "inadmissible", ()
    return "", ()


def _unequal(port: Mapping[str, Any], kueue: Mapping[str, Any]) -> str:
    keys = [key for key in {**port, **kueue} if port.get(key) != kueue.get(key)]
    return "; ".join(f"{key}: port {port.get(key)!r}, Kueue {kueue.get(key)!r}" for key in keys)
