"""Notes on a forecast: why a run has no start or no end, and which behavior of Kueue is not simulated."""

from collections.abc import Iterator, Sequence

from trainstack.forecast.schedule import Schedule, Timeline
from trainstack.kueue.hold_up import hold_up_message
from trainstack.kueue.model import LocalQueue, Model
from trainstack.kueue.verdict import Verdict
from trainstack.objects.ownership import format_names

_MOST_NAMES = 3


def note_on_run(timeline: Timeline, schedule: Schedule, model: Model, idle_verdict: Verdict | None) -> str:
    """Return the note on a run without a full stop, or an empty string if nothing is unusual.

    `idle_verdict`: the verdict on a queued run that never starts, on an idle cluster; else None.
    """
    if timeline.submitted is None:
        return _reason_not_submitted(timeline, schedule)
    if not timeline.spans:
        return _reason_not_admitted(timeline, schedule, model, idle_verdict)
    if timeline.start is None:
        return _reason_not_started(timeline)
    return "; ".join(_unusual_facts(timeline))


def _unusual_facts(timeline: Timeline) -> Iterator[str]:
    task, last_span = timeline.task, timeline.spans[-1]
    if task.duration.seconds is None:
        yield "no end is known: neither expectedDurationSeconds nor activeDeadlineSeconds is set"
    elif last_span.evicted_by:
        yield f"preempted by {last_span.evicted_by} and not admitted again"
    elif task.duration.source == "deadline":
        yield "ends at its deadline at the latest"
    if timeline.end is not None and timeline.evictions:
        frequency = "once" if timeline.evictions == 1 else f"{timeline.evictions} times"
        preemptors = join_names([span.evicted_by for span in timeline.spans[:-1]])
        yield f"preempted {frequency}, by {preemptors}, and {'resumes later' if task.is_resumable else 'starts again'}"
    first_refusals = [refusal for pods in task.workload.pod_sets for refusal in pods.first_refusals]
    if first_refusals and task.elapsed is None:
        yield f"{first_refusals[0]}: Kueue may admit it later, when other workloads end"
    for name in sorted({pods.runtime_class for pods in task.workload.pod_sets} - {""}):
        yield f"the overhead of runtime class {name} is unknown and not counted"
    if not task.is_queued:
        yield "not queued by Kueue: starts at once"


def _reason_not_started(timeline: Timeline) -> str:
    pod_refusals = [refusal for pods in timeline.task.workload.pod_sets for refusal in pods.pod_refusals]
    if pod_refusals:
        return f"{pod_refusals[0]}: the API server refuses its pods, and it holds its quota"
    return "admitted, but no node has room for its pods"


def _reason_not_submitted(timeline: Timeline, schedule: Schedule) -> str:
    task = timeline.task
    endless_keys = {endless_timeline.task.key for endless_timeline in schedule.endless_timelines}
    dependencies = [key for key in task.dependencies if key in endless_keys]
    if task.slots is not None and not dependencies:
        return f"waits for a slot of sweep {task.sweep}, whose running trials have no known end"
    return f"waits for {join_names(dependencies)}, whose end is unknown"


def _reason_not_admitted(timeline: Timeline, schedule: Schedule, model: Model, verdict: Verdict | None) -> str:
    if verdict is not None and not verdict.fits:
        return f"{verdict.outcome}: {verdict.reasons[0].message}" if verdict.reasons else verdict.outcome
    hold_up = timeline.hold_up
    if hold_up is not None and not (hold_up.is_own_queue and hold_up.is_strict and not hold_up.preempts):
        return hold_up_message(hold_up, never_fits=False)
    holding_keys = [
        endless_timeline.task.key
        for endless_timeline in schedule.endless_timelines
        if endless_timeline.spans and not endless_timeline.spans[-1].evicted_by
    ]
    if holding_keys:
        return f"waits for quota of {join_names(holding_keys)}, whose end is unknown"
    return f"blocked in a StrictFIFO queue by {_blocking_key(timeline, schedule, model)}, which never fits"


def _blocking_key(blocked_timeline: Timeline, schedule: Schedule, model: Model) -> str:
    """Return the key of the first workload of the same cluster queue that is never admitted."""
    local_queues = model.local_queues or {}

    def local_queue_of(timeline: Timeline) -> LocalQueue | None:
        return local_queues.get((timeline.task.workload.namespace, timeline.task.workload.queue))

    local_queue = local_queue_of(blocked_timeline)
    waiting_workloads = [
        other_timeline.task.workload
        for other_timeline in schedule.timelines
        if not other_timeline.spans
        and other_timeline.submitted is not None
        and local_queue is not None
        and (other_queue := local_queue_of(other_timeline)) is not None
        and other_queue.cluster_queue == local_queue.cluster_queue
    ]
    return min(waiting_workloads, key=lambda workload: (-workload.priority, workload.created)).key


def simulation_limits(model: Model) -> Iterator[str]:
    """Yield a note on each feature in use that is not simulated, so that order and placement may differ."""
    queues = (model.cluster_queues or {}).values()
    usage_based_queues = sorted(queue.name for queue in queues if queue.usage_based)
    if model.admission_fair_sharing and usage_based_queues:
        yield (
            "Kueue's admission fair sharing orders workloads by the past usage of their local queues, which is not"
            f" simulated: cluster queue {join_names(usage_based_queues)}"
        )
    if model.fair_sharing and len(model.cohorts) > 1:
        yield "between cohorts of equal shares, Kueue's fair sharing preempts from either; the plan selects one"
    if model.fair_sharing and "fair sharing" in model.release.disputed_features:
        yield f"fair sharing differs between patch releases of Kueue {model.release.minor}: this one's is not simulated"
    used_flavors = {name for queue in queues for group in queue.groups for name in group.flavors}
    topologies = sorted(
        name for name, flavor in (model.flavors or {}).items() if flavor.topology and name in used_flavors
    )
    if topologies:
        yield f"the placement of pods in a topology is not simulated: flavor {join_names(topologies)}"
    dispatching_queues = sorted(queue.name for queue in queues if model.dispatches(queue))
    if dispatching_queues:
        names = join_names(dispatching_queues)
        yield f"the quota of MultiKueue's worker clusters is not simulated: cluster queue {names}"
    if not model.gates.is_enabled("PrioritySortingWithinCohort"):
        yield "Kueue runs with feature gate PrioritySortingWithinCohort=false: preempted runs may be admitted later"
    for gate in model.gates.unmodeled_gates():
        yield f"Kueue runs with {gate}"


def join_names(keys: Sequence[str], max_names: int = _MOST_NAMES) -> str:
    """Join the first `max_names` distinct names, and the number of further ones."""
    return format_names([*dict.fromkeys(keys)], max_names)
