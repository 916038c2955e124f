"""What the port answers to Kueue's questions, and where it differs."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.admission.tables.cases import Body, Case, amounts, named, workload_of
from trainstack.kueue.cycle import Head, process_heads
from trainstack.kueue.diagnosis import inadmissible
from trainstack.kueue.flavor_assigner import Assignment, Mode, assign
from trainstack.kueue.model import Admitted, FlavorResource, Workload
from trainstack.kueue.nomination import attempt
from trainstack.kueue.pending_queue import PendingQueue
from trainstack.kueue.preemption import preemption_targets
from trainstack.kueue.preemption_context import Context
from trainstack.kueue.snapshot import Snapshot

_MODES = {Mode.NO_FIT: "NoFit", Mode.FIT: "Fit"}


def difference(case: Case) -> str:
    """Return how the port's answer differs from Kueue's; empty if they are equal."""
    answer = {"assignment": _assignment, "targets": _targets, "cycle": _cycle}[case.question]
    return answer(case)


def _assignment(case: Case) -> str:
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
        return "the workload is not read as pending"
    answers = {
        (one["flavor"], one["resource"], one["quantity"]): (Mode(one["mode"]), one["level"]) for one in value["oracle"]
    }

    def oracle(fr: FlavorResource, number: int) -> tuple[Mode, int]:
        return answers[(*fr, number)]

    try:
        found = assign(
            workload,
            snapshot.cluster_queues[value["queue"]],
            oracle,
            counts=value["counts"],
            tried=tuple(one or {} for one in value.get("tried") or ()),
        )
    except KeyError as error:
        return f"the port simulates preemption for {error}, Kueue for {sorted(answers)}"
    return _unequal(described(found), expected(value["result"]))


def described(found: Assignment) -> dict[str, Any]:
    return {
        "mode": _MODES.get(found.mode, "Preempt"),
        "level": found.level,
        "usage": {fr: number for fr, number in found.usage.items() if number},
        "podSets": [
            {
                "name": pods.name,
                "count": pods.count,
                "flavors": {
                    resource: (given.flavor, _MODES.get(given.mode, "Preempt"), pods.tried.get(resource))
                    for resource, given in pods.flavors.items()
                },
            }
            for pods in found.pod_sets
        ],
    }


def expected(result: Body) -> dict[str, Any]:
    return {
        "mode": result["mode"],
        "level": result["level"],
        "usage": {fr: number for fr, number in amounts(result["usage"]).items() if number},
        "podSets": [
            {
                "name": pods["name"],
                "count": pods["count"],
                "flavors": {
                    resource: (given["name"], given["mode"], given["tried"])
                    for resource, given in (pods["flavors"] or {}).items()
                },
            }
            for pods in result["podSets"]
        ],
    }


def _targets(case: Case) -> str:
    value = case.value
    state = case.state([named(body, "Workload") for body in value["admitted"]])
    if len(state.admitted) != len(value["admitted"]):
        return "not all admitted workloads are read"
    workload = workload_of(value["workload"], state.model)
    if isinstance(workload, Admitted):
        workload = workload.workload
    if workload is None:
        return "the workload is not read"
    snapshot = Snapshot(state.model, state.admitted)
    contested = {(one["flavor"], one["resource"]) for one in value["contested"]}
    cq = snapshot.cluster_queues[value["queue"]]
    found = preemption_targets(snapshot, Context(workload, cq, contested, amounts(value["usage"])))
    return _unequal(
        {"targets": sorted(target.workload.key for target in found)},
        {"targets": sorted(target["name"] for target in value["targets"])},
    )


def _cycle(case: Case) -> str:
    value = case.value
    others = [
        *(named(body, "Workload") for body in value["admitted"]),
        *(named(body, "Namespace") for body in value["namespaces"]),
        *(named(body, "LimitRange") for body in value["limitRanges"]),
        *(named(body, "LocalQueue") for body in value["localQueues"]),
    ]
    state = case.state(others)
    if len(state.admitted) != len(value["admitted"]):
        return "not all admitted workloads are read"
    model, snapshot = state.model, Snapshot(state.model, state.admitted)
    heads, found = [], {}
    for name, bodies in (value["pending"] or {}).items():
        if name not in snapshot.cluster_queues:
            continue
        pending = PendingQueue(snapshot.cluster_queues[name])
        held = set((value["inadmissible"] or {}).get(name) or ())
        for number, body in enumerate(bodies):
            workload = workload_of(body, model)
            if not isinstance(workload, Workload):
                return f"{body['metadata']['name']} is not read as pending"
            if workload.key not in held:
                pending.add(workload, number)
        item = pending.head()
        if item is None:
            continue
        if any(inadmissible(model, item.workload, pending.cq.spec, snapshot)):
            found[item.workload.key] = "inadmissible", ()
            continue
        heads.append(Head(item, pending, attempt(snapshot, pending.cq, item.workload)))
        found[item.workload.key] = "", ()
    result = process_heads(snapshot, heads)
    for head in result.admitted:
        found[head.item.workload.key] = "admitted", tuple(
            (pods.name, pods.count, {resource: given.flavor for resource, given in pods.flavors.items()})
            for pods in head.attempt.assignment.pod_sets
        )
    for head in result.preempting:
        targets = sorted(target.workload.key for target in head.attempt.targets)
        found[head.item.workload.key] = "preempts", tuple(targets)
    return _unequal(found, {head["name"]: _decided(head) for head in case.heads})


def _decided(head: Body) -> tuple[str, tuple[Any, ...]]:
    if head["status"] == "assumed":
        return "admitted", tuple(
            (pods["name"], pods["count"], {resource: given["name"] for resource, given in (pods["flavors"] or {}).items()})
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
