"""GPU-hours, cost, and the usage of each flavor over time."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from trainstack.forecast.schedule import Schedule, Span, Timeline
from trainstack.kueue.model import FlavorResource, Model, Workload
from trainstack.kueue.verdict import PodSetAdmission
from trainstack.preflight.gpu_resources import gpu_share
from trainstack.settings.sections.plan import Plan

HOUR = 3600
_IN_GIB = ("memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class FlavorUsage:
    """The usage of a flavor and resource over time, in the units of `display_amount`."""

    flavor: str
    resource: str
    quota: float
    """The sum of the nominal quotas of all queues and cohorts."""
    steps: tuple[tuple[float, float], ...]
    """Pairs of a time in seconds and the usage from then on."""
    peak: float
    mean: float
    """The mean from the start of the forecast to the last known end."""


def run_gpus(timeline: Timeline, model: Model) -> float:
    """Return the GPUs of a run, with slices as fractions; the requested ones if it is never admitted."""
    workload = timeline.task.workload
    requested = tuple(PodSetAdmission(pods.name, pods.count, {}) for pods in workload.pod_sets)
    return _gpus(workload, timeline.spans[0].assignments if timeline.spans else requested, model)


def gpu_hours(timeline: Timeline, model: Model) -> float | None:
    """Return the GPU-hours of a run, or None if its end is unknown."""
    if timeline.end is None:
        return None
    workload = timeline.task.workload
    return sum(hours * _gpus(workload, span.assignments, model) for span, hours in _spans_with_hours(timeline.spans))


def run_cost(timeline: Timeline, plan: Plan) -> float | None:
    """Return the cost of a run in the plan's currency, or None if its end or all prices are unknown."""
    if timeline.end is None or not plan.prices or not timeline.task.is_queued:
        return None
    prices = {price.name: price.per_hour for price in plan.prices}
    return sum(
        hours * display_amount(resource, amount) * prices.get(flavor, {}).get(resource, 0.0)
        for span, hours in _spans_with_hours(timeline.spans)
        for (flavor, resource), amount in span.usage.items()
    )


def flavor_usages(schedule: Schedule, model: Model) -> Iterator[FlavorUsage]:
    """Yield the usage of each flavor and resource in the schedule, sorted by both."""
    changes: dict[FlavorResource, dict[float, int]] = defaultdict(lambda: defaultdict(int))
    for timeline in schedule.timelines:
        for span in timeline.spans:
            for flavor_resource, number in span.usage.items():
                changes[flavor_resource][max(0.0, span.admitted)] += number
                if span.ended is not None:
                    changes[flavor_resource][span.ended] -= number
    for flavor_resource in sorted(changes):
        flavor, resource = flavor_resource
        steps: list[tuple[float, float]] = []
        used_amount = 0
        for second in sorted(changes[flavor_resource]):
            used_amount += changes[flavor_resource][second]
            if not steps or steps[-1][1] != display_amount(resource, used_amount):
                steps.append((round(second, 3), display_amount(resource, used_amount)))
        yield FlavorUsage(
            flavor=flavor,
            resource=resource,
            quota=display_amount(resource, _nominal_quota(model, flavor_resource)),
            steps=tuple(steps),
            peak=max((used_amount for _, used_amount in steps), default=0.0),
            mean=_mean_usage(steps, schedule.makespan),
        )


def _nominal_quota(model: Model, flavor_resource: FlavorResource) -> int:
    quotas = [queue.quotas for queue in (model.cluster_queues or {}).values()]
    quotas += [cohort.quotas for cohort in model.cohorts.values()]
    return sum(
        quotas_by_resource[flavor_resource].nominal
        for quotas_by_resource in quotas
        if flavor_resource in quotas_by_resource
    )


def display_amount(resource: str, number: int) -> float:
    """Return the amount in cores, in GiB of memory or storage, or as a count."""
    if resource == "cpu":
        return number / 1000
    return number / 2**30 if resource in _IN_GIB else float(number)


def _gpus(workload: Workload, assignments: Iterable[PodSetAdmission], model: Model) -> float:
    """Return the sum of the GPUs; node selector and flavor labels determine the share of a slice."""
    assignments_by_pod_set = {pods.pod_set: pods for pods in assignments}
    flavors = model.flavors or {}
    total = Fraction(0)
    for pods in workload.pod_sets:
        assignment = assignments_by_pod_set[pods.name]
        for resource, number in pods.per_pod.items():
            flavor = flavors.get(assignment.flavors.get(resource, ""))
            labels = {**pods.selector, **(flavor.labels if flavor is not None else {})}
            total += assignment.count * number * gpu_share(resource, labels)
    return float(total)


def _spans_with_hours(spans: Iterable[Span]) -> Iterator[tuple[Span, float]]:
    for span in spans:
        if span.started is not None and span.ended is not None:
            yield span, (span.ended - span.started) / HOUR


def _mean_usage(steps: list[tuple[float, float]], end_of_plan: float) -> float:
    if end_of_plan <= 0:
        return 0.0
    ends = [*(start for start, _ in steps[1:]), end_of_plan]
    area = sum(
        amount * (min(end, end_of_plan) - start)
        for (start, amount), end in zip(steps, ends, strict=True)
        if start < end_of_plan
    )
    return area / end_of_plan
