"""What a schedule costs and uses: GPU-hours, money, each flavor over time."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from trainstack.forecast.schedule import Course, Schedule, Span
from trainstack.kueue.model import FlavorResource, Model, Workload
from trainstack.kueue.verdict import Assigned
from trainstack.preflight.gpu_resources import share
from trainstack.settings.sections.forecast import Plan

HOUR = 3600
_IN_GIB = ("memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class Use:
    """One resource of one flavor over time, in its units as `in_units` gives them."""

    flavor: str
    resource: str
    quota: float
    """The nominal quota of all queues and cohorts together."""
    steps: tuple[tuple[float, float], ...]
    """From each of these seconds on so much is used."""
    peak: float
    mean: float
    """From the beginning to the last known end."""


def gpus(course: Course, model: Model) -> float:
    """How many GPUs a run has at once, slices by their share; of one that never runs, how many it asks for."""
    workload = course.task.workload
    whole = tuple(Assigned(pods.name, pods.count, {}) for pods in workload.pod_sets)
    return _gpus(workload, course.spans[0].assigned if course.spans else whole, model)


def gpu_hours(course: Course, model: Model) -> float | None:
    """GPU-hours over all its spans; None where no end is known."""
    if course.end is None:
        return None
    return sum(hours * _gpus(course.task.workload, span.assigned, model) for span, hours in _hours(course.spans))


def cost(course: Course, plan: Plan) -> float | None:
    """What a run costs, in the plan's currency; None where no end or no price is known."""
    if course.end is None or not plan.prices or not course.task.queued:
        return None
    prices = {each.name: each.per_hour for each in plan.prices}
    return sum(
        hours * in_units(resource, number) * prices.get(flavor, {}).get(resource, 0.0)
        for span, hours in _hours(course.spans)
        for (flavor, resource), number in span.usage.items()
    )


def uses(schedule: Schedule, model: Model) -> Iterator[Use]:
    """Every flavor and resource that a run of the schedule uses, sorted."""
    changes: dict[FlavorResource, dict[float, int]] = defaultdict(lambda: defaultdict(int))
    for course in schedule.courses:
        for span in course.spans:
            for what, number in span.usage.items():
                changes[what][max(0.0, span.admitted)] += number
                if span.ended is not None:
                    changes[what][span.ended] -= number
    for what in sorted(changes):
        flavor, resource = what
        steps: list[tuple[float, float]] = []
        used = 0
        for at in sorted(changes[what]):
            used += changes[what][at]
            if not steps or steps[-1][1] != in_units(resource, used):
                steps.append((round(at, 3), in_units(resource, used)))
        yield Use(
            flavor=flavor,
            resource=resource,
            quota=in_units(resource, quota(model, what)),
            steps=tuple(steps),
            peak=max((used for _, used in steps), default=0.0),
            mean=_mean(steps, schedule.makespan),
        )


def quota(model: Model, what: FlavorResource) -> int:
    """The nominal quota of all queues and cohorts."""
    quotas = [each.quotas for each in (model.cluster_queues or {}).values()]
    quotas += [each.quotas for each in model.cohorts.values()]
    return sum(each[what].nominal for each in quotas if what in each)


def in_units(resource: str, number: int) -> float:
    """Cores, GiB of memory and storage, pieces of all else."""
    if resource == "cpu":
        return number / 1000
    return number / 2**30 if resource in _IN_GIB else float(number)


def _gpus(workload: Workload, assigned: Iterable[Assigned], model: Model) -> float:
    """What nodes the pods ask for, or their flavors have, says how much of a GPU one piece is."""
    given = {each.pod_set: each for each in assigned}
    flavors = model.flavors or {}
    found = Fraction(0)
    for pods in workload.pod_sets:
        got = given[pods.name]
        for resource, number in pods.per_pod.items():
            flavor = flavors.get(got.flavors.get(resource, ""))
            labels = {**pods.selector, **(flavor.labels if flavor is not None else {})}
            found += got.count * number * share(resource, labels)
    return float(found)


def _hours(spans: Iterable[Span]) -> Iterator[tuple[Span, float]]:
    for span in spans:
        if span.started is not None and span.ended is not None:
            yield span, (span.ended - span.started) / HOUR


def _mean(steps: list[tuple[float, float]], until: float) -> float:
    if until <= 0:
        return 0.0
    ends = [*(at for at, _ in steps[1:]), until]
    area = sum(used * (min(end, until) - at) for (at, used), end in zip(steps, ends, strict=True) if at < until)
    return area / until
