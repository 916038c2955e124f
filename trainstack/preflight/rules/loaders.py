"""The rule about data loaders that cannot start while the pods that wait for their data occupy the quota."""

from collections.abc import Iterator
from dataclasses import replace

from trainstack.kueue.admission_simulator import simulate
from trainstack.kueue.from_objects import stack_model
from trainstack.kueue.model import AdmittedWorkload, Model, Workload
from trainstack.kueue.workloads import read_workload, run_workloads
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import RuleContext
from trainstack.runs.manifests.data_loader import temporary_loader


@Rule(
    id="loader-shut-out",
    may_be=("unknown",),
    summary="Pods that wait for data may hold all quota that the [loader](runs.md#data) of the data needs.",
    details=(
        "Neither would ever continue. A loader that requests nothing, the default, is always admitted, except behind "
        "waiting runs in a `StrictFIFO` queue."
    ),
    example="Trials of `cpu: 1` in a queue of 8, and a loader that requests `cpu: 1`.",
    remedy=(
        "Let `cluster.loader.resources` request 0, give the loader its own queue (`cluster.loader.queue`), limit "
        "`parallelism`, or depend on a `DataLoader`."
    ),
)
def loader_shut_out(context: RuleContext) -> Iterator[Violation]:
    model = stack_model(context.stack_objects)
    workloads = {workload.path: workload for workload in run_workloads(context.stack_objects, model)}
    queues = context.settings.queues.cluster_queues
    strict_queues = {queue.name for queue in queues if queue.queueing_strategy == "StrictFIFO"}
    for path, volume, count in _runs_waiting_for_data(context):
        if path not in workloads:
            continue
        workload = workloads[path]
        loader = _loader_workload(context, model, workload.namespace, volume)
        admitted = _admitted_copies(workload, model, count)
        verdict = simulate(loader, model, admitted=admitted)
        # The first copy that is not admitted blocks a StrictFIFO queue, and the loader with it.
        is_behind_waiting = verdict.cluster_queue in strict_queues and len(admitted) < count
        if admitted and (verdict.outcome == "waits" or is_behind_waiting):
            holders = "the run itself, which waits" if count == 1 else f"{len(admitted)} of {count} trials, which wait"
            message = f"the loader of its data may wait in queue {loader.queue} behind {holders} for that data"
            yield Violation(path, message)
        elif verdict.outcome == "unknown" and any(loader.pod_sets[0].requests.values()):
            message = f"the loader of its data needs quota of queue {loader.queue}; whether any is free is unknown"
            yield Violation(path, message, severity="unknown")


def _runs_waiting_for_data(context: RuleContext) -> Iterator[tuple[str, str, int]]:
    """Yield the runs whose pods wait for data: path, volume of the data, and how many copies may run at once."""
    trials = {
        sweep.name: min(len(sweep.expansion.sets), sweep.parallelism or len(sweep.expansion.sets))
        for sweep in context.settings.sweeps.sweeps
        if sweep.form == "jobs" and sweep.expansion is not None
    }
    for path, run in context.runs():
        if run.managed and run.data is not None and run.data.prepare is not None:
            yield path, run.data.volume, trials.get(run.name, 1)


def _loader_workload(context: RuleContext, model: Model, namespace: str, volume: str) -> Workload:
    spec = temporary_loader(context.settings, namespace, volume, "/mnt")
    return read_workload(*context.stack_objects.queued_objects(spec), model, name=spec.name, path="cluster.loader")


def _admitted_copies(workload: Workload, model: Model, count: int) -> list[AdmittedWorkload]:
    """Return the copies of a workload, `count` at most, that an idle cluster admits together."""
    admitted: list[AdmittedWorkload] = []
    while len(admitted) < count:
        verdict = simulate(workload, model, admitted=admitted)
        if verdict.outcome not in ("fits", "fits by borrowing"):
            break
        copy = replace(workload, name=f"{workload.name}-{len(admitted)}")
        admitted.append(AdmittedWorkload(workload=copy, cluster_queue=verdict.cluster_queue, usage=verdict.usage))
    return admitted
