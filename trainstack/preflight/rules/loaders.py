"""Data loaders: that they come where runs and trials wait for what they bring."""

from collections.abc import Iterator
from dataclasses import replace

from trainstack.kueue.admission_simulator import simulate
from trainstack.kueue.from_objects import declared_model
from trainstack.kueue.model import Admitted, Model, Workload
from trainstack.kueue.workloads import declared_workloads, read_workload
from trainstack.preflight.rule import Check, Rule, Violation
from trainstack.preflight.rule_context import Scene
from trainstack.runs.manifests.data_loader import temporary_loader

_REMEDY = "let cluster.loader.resources request 0, or let cluster.loader.queue be one with quota for loaders alone"


@Rule(
    id="loader-shut-out",
    severity="error",
    may_be=("unknown",),
    summary=(
        "Pods that wait for data may hold all quota of the queue of the [loader](runs.md#data) that copies this data."
    ),
    details=(
        "Neither would ever continue. A loader that requests nothing, which is the default, is admitted anyway, "
        "except behind waiting runs in a `StrictFIFO` queue. The finding is `unknown` if the loader of a tenant has "
        "to request something."
    ),
    example=(
        "Trials of `cpu: 1`, without `parallelism`, in a queue of 8, and a `cluster.loader` that requests `cpu: 1`."
    ),
    remedy=(
        "Let the loader request 0, or give it a queue of its own (`cluster.loader.queue`). Where the cluster's "
        "owner allows neither, set a `parallelism` that leaves room, or let the run depend (`dependsOn`) on a "
        "`DataLoader` that holds the data."
    ),
)
def loader_shut_out(scene: Scene) -> Iterator[Violation]:
    model = declared_model(scene.declared)
    workloads = {each.path: each for each in declared_workloads(scene.declared, model)}
    strict = {one.name for one in scene.settings.queues.cluster_queues if one.queueing_strategy == "StrictFIFO"}
    for path, volume, count in _waiting(scene):
        if path not in workloads:
            continue
        workload = workloads[path]
        loader = _loader(scene, model, workload.namespace, volume)
        there = _admitted(workload, model, count)
        verdict = simulate(loader, model, admitted=there)
        behind = verdict.cluster_queue in strict and len(there) < count
        if there and (verdict.outcome == "waits" or behind):
            ends = "it ends, which waits" if count == 1 else f"{len(there)} of {count} trials end, which wait"
            message = f"the loader of its data may wait in queue {loader.queue} until {ends} for that data"
            yield Violation(path, message, _REMEDY)
        elif verdict.outcome == "unknown" and any(loader.pod_sets[0].requests.values()):
            message = (
                f"the loader of its data needs quota of queue {loader.queue}; whether any is left is not known here"
            )
            yield Violation(path, message, _REMEDY, "unknown")


def _waiting(scene: Scene) -> Iterator[tuple[str, str, int]]:
    """What waits for such data in its pods: its path, the data's volume, and how many of it there may be at once."""
    trials = {
        sweep.name: min(len(sweep.expansion.sets), sweep.parallelism or len(sweep.expansion.sets))
        for sweep in scene.settings.sweeps.sweeps
        if sweep.form == "jobs" and sweep.expansion is not None
    }
    for path, run in scene.runs():
        if run.managed and run.data is not None and run.data.prepare is not None:
            yield path, run.data.volume, trials.get(run.name, 1)


def _loader(scene: Scene, model: Model, namespace: str, volume: str) -> Workload:
    """The loader as Kueue will see it."""
    said = temporary_loader(scene.settings, namespace, volume, "/mnt")
    return read_workload(*scene.declared.queued(said), model, name=said.name, path="cluster.loader")


def _admitted(workload: Workload, model: Model, count: int) -> list[Admitted]:
    """As many of a workload, up to so many, as an idle cluster admits."""
    found: list[Admitted] = []
    while len(found) < count:
        verdict = simulate(workload, model, admitted=found)
        if verdict.outcome not in ("fits", "fits by borrowing"):
            break
        one = replace(workload, name=f"{workload.name}-{len(found)}")
        found.append(Admitted(workload=one, cluster_queue=verdict.cluster_queue, usage=verdict.usage))
    return found


RULES: tuple[Check[Scene], ...] = (loader_shut_out,)
