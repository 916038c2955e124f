"""A plan as rows: for tables, pictures and programs."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from trainstack.forecast.figures import Use, cost, gpu_hours, gpus, uses
from trainstack.forecast.forecast import Forecast
from trainstack.forecast.reasons import note
from trainstack.forecast.schedule import Course, Span
from trainstack.forecast.tasks import Source

_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time in which a run has its quota; seconds from the plan's beginning."""

    admitted: float
    started: float | None
    """None: no node had room."""
    ended: float | None
    """None: no end is known."""
    flavors: tuple[str, ...]
    evicted_by: str
    """Empty where it ran to its end."""


@dataclass(frozen=True, slots=True)
class Row:
    """A run. Times are seconds from the plan's beginning; None is what is not known, or never comes."""

    name: str
    namespace: str
    queue: str
    """Empty where Kueue does not hold it."""
    cluster_queue: str
    """Empty where it is never admitted."""
    declared: bool
    """A run of this environment; else one of somebody else's, that the cluster holds."""
    priority: int
    duration: float | None
    source: Source
    submitted: float | None
    start: float | None
    end: float | None
    wait: float | None
    evictions: int
    pods: int
    gpus: float
    """At once; a slice counts by its share."""
    gpu_hours: float | None
    cost: float | None
    flavors: tuple[str, ...]
    stretches: tuple[Stretch, ...]
    note: str


@dataclass(frozen=True, slots=True)
class Report:
    """A whole plan."""

    environment: str
    makespan: float
    """The last end that is known, in seconds."""
    endless: int
    """Runs of which no end is known."""
    gpu_hours: float
    """Of the runs with an end, together."""
    cost: float | None
    """Likewise; None where there are no prices."""
    currency: str
    rows: tuple[Row, ...]
    """In the order of their starts; last those that never start."""
    uses: tuple[Use, ...]
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        found: dict[str, Any] = asdict(self)
        found["runs"] = found.pop("rows")
        return found


def report(forecast: Forecast) -> Report:
    """The rows of a plan."""
    simulator, schedule = forecast.simulator, forecast.schedule
    rows = [_row(course, forecast, note(course, schedule, simulator)) for course in schedule.courses]
    rows.sort(key=lambda row: (row.start is None, row.start or 0.0))
    costs = [row.cost for row in rows if row.cost is not None]
    plan = forecast.settings.plan
    return Report(
        environment=forecast.settings.stack,
        makespan=_rounded(schedule.makespan),
        endless=len(schedule.open),
        gpu_hours=round(sum(row.gpu_hours or 0.0 for row in rows), _DIGITS),
        cost=round(sum(costs), 2) if plan.prices else None,
        currency=plan.currency,
        rows=tuple(rows),
        uses=tuple(uses(schedule, forecast.model)),
        notes=(*forecast.notes, *_unpriced(forecast)),
    )


def _row(course: Course, forecast: Forecast, said: str) -> Row:
    workload, task = course.task.workload, course.task
    hours, price = gpu_hours(course, forecast.model), cost(course, forecast.settings.plan)
    return Row(
        name=workload.name,
        namespace=workload.namespace,
        queue=workload.queue,
        cluster_queue=next((span.cluster_queue for span in course.spans), ""),
        declared=task.declared,
        priority=workload.priority,
        duration=task.duration.seconds,
        source=task.duration.source,
        submitted=_known(course.submitted),
        start=_known(course.start),
        end=_known(course.end),
        wait=_known(course.wait),
        evictions=course.evictions,
        pods=sum(pods.count for pods in workload.pod_sets),
        gpus=round(gpus(course, forecast.model), _DIGITS),
        gpu_hours=None if hours is None else round(hours, _DIGITS),
        cost=None if price is None else round(price, 2),
        flavors=tuple(dict.fromkeys(flavor for span in course.spans for flavor in _flavors(span))),
        stretches=tuple(_stretch(span) for span in course.spans),
        note=said,
    )


def _stretch(span: Span) -> Stretch:
    return Stretch(
        admitted=_rounded(span.admitted),
        started=_known(span.started),
        ended=_known(span.ended),
        flavors=_flavors(span),
        evicted_by=span.evicted_by,
    )


def _flavors(span: Span) -> tuple[str, ...]:
    return tuple(dict.fromkeys(flavor for flavor, _ in span.usage))


def _unpriced(forecast: Forecast) -> Iterable[str]:
    """Prices of flavors that there are none of, and flavors in use without a price."""
    plan, flavors = forecast.settings.plan, forecast.model.flavors
    if not plan.prices:
        return
    priced = {each.name for each in plan.prices}
    used = {flavor for course in forecast.schedule.courses for span in course.spans for flavor in _flavors(span)}
    for name in sorted(used - priced):
        yield f"flavor {name} has no price (trainstack:plan: prices), so it costs nothing here"
    for name in sorted(priced - flavors.keys() if flavors is not None else ()):
        yield f"plan.prices[{name}] names no flavor of this environment"


def _known(seconds: float | None) -> float | None:
    return None if seconds is None else _rounded(seconds)


def _rounded(seconds: float) -> float:
    return round(seconds, _DIGITS)
