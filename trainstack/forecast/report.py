"""A forecast as rows, for tables, charts and JSON."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from trainstack.forecast.costs import FlavorUsage, flavor_usages, gpu_hours, run_cost, run_gpus
from trainstack.forecast.forecast import Forecast
from trainstack.forecast.notes import note_on_run
from trainstack.forecast.schedule import Span, Timeline
from trainstack.forecast.tasks import DurationSource
from trainstack.forecast.variation import Range, Variation, is_order_sensitive
from trainstack.kueue.admission_simulator import AdmissionSimulator
from trainstack.kueue.verdict import Verdict

_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time in which a run holds its quota, in seconds from the start of the forecast."""

    admitted: float
    started: float | None
    """None if no node has room."""
    ended: float | None
    """None if unknown."""
    flavors: tuple[str, ...]
    evicted_by: str
    """Empty if the run ended."""


@dataclass(frozen=True, slots=True)
class ForecastRow:
    """A run. Times are seconds from the start of the forecast; None for unknown or never."""

    name: str
    namespace: str
    queue: str
    """Empty if the run is not queued."""
    cluster_queue: str
    """Empty if the run is never admitted."""
    declared: bool
    """Whether the environment declares the run; False for a Workload that exists only in the cluster."""
    priority: int
    duration: float | None
    source: DurationSource
    submitted: float | None
    start: float | None
    end: float | None
    is_undecided: bool
    """Whether it is unknown if the run is ever admitted, as in a tenant's project, which has no cluster queues."""
    end_range: Range | None
    """The earliest and latest end if durations differ by a tenth; None if unknown."""
    open: bool
    """Whether the end varies more than the durations do; only in a forecast that is open itself."""
    wait: float | None
    evictions: int
    pods: int
    gpus: float
    """Slices count as fractions."""
    gpu_hours: float | None
    cost: float | None
    flavors: tuple[str, ...]
    stretches: tuple[Stretch, ...]
    never_fits: bool
    """Whether its queue would not admit the run on an idle cluster either."""
    note: str


@dataclass(frozen=True, slots=True)
class ForecastReport:
    environment: str
    release: str
    """The release of Kueue that admits the runs, such as `v0.20.7`; empty if unknown."""
    rules: str
    """The minor release by whose rules the times were calculated; empty for those that all modeled releases share."""
    not_compared: str
    """What the rules were not compared with: `v0.20`, or `v0.17 after v0.17.8`; empty if they were with the release."""
    makespan: float
    """The last known end."""
    makespan_range: Range | None
    """The earliest and latest last end if durations differ by a tenth; None if there are too many runs to vary."""
    open: bool
    """Whether the makespan varies more than the durations do, or other runs end: it depends on the runs' order."""
    never_fits: int
    """The number of runs that never fit."""
    endless: int
    """The number of other runs without a known end."""
    gpu_hours: float
    """The sum over the runs with a known end."""
    cost: float | None
    """The sum over the runs with a known end; None without prices."""
    currency: str
    rows: tuple[ForecastRow, ...]
    """Sorted by start; runs that never start are last."""
    uses: tuple[FlavorUsage, ...]
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        data: dict[str, Any] = asdict(self)
        data["runs"] = data.pop("rows")
        return data


def build_report(forecast: Forecast) -> ForecastReport:
    simulator, schedule = AdmissionSimulator(forecast.model), forecast.schedule
    variation = forecast.variation
    is_unsettled = variation is not None and (
        not variation.same_ends or is_order_sensitive(schedule.makespan, variation.makespan)
    )
    rows = []
    for timeline in schedule.timelines:
        is_stuck = timeline.start is None and timeline.task.is_queued
        verdict = simulator.idle_verdict(timeline.task.workload) if is_stuck else None
        note = note_on_run(timeline, schedule, forecast.model, verdict)
        rows.append(_build_row(timeline, forecast, note, verdict, is_unsettled=is_unsettled))
    never_fitting_count = sum(row.never_fits for row in rows)
    rows.sort(key=lambda row: (row.start is None, row.start or 0.0))
    costs = [row.cost for row in rows if row.cost is not None]
    plan = forecast.settings.plan
    return ForecastReport(
        environment=forecast.settings.stack,
        release=forecast.model.release.name,
        rules=forecast.model.release.minor,
        not_compared=forecast.model.release.not_compared,
        makespan=round(schedule.makespan, _DIGITS),
        makespan_range=None if variation is None else _round_range(variation.makespan),
        open=is_unsettled,
        never_fits=never_fitting_count,
        endless=len(schedule.endless_timelines) - never_fitting_count,
        gpu_hours=round(sum(row.gpu_hours or 0.0 for row in rows), _DIGITS),
        cost=round(sum(costs), 2) if plan.prices else None,
        currency=plan.currency,
        rows=tuple(rows),
        uses=tuple(flavor_usages(schedule, forecast.model)),
        notes=(*forecast.notes, *_price_notes(forecast)),
    )


def _build_row(
    timeline: Timeline, forecast: Forecast, note: str, idle_verdict: Verdict | None, *, is_unsettled: bool
) -> ForecastRow:
    task, end_range = timeline.task, _end_range(timeline, forecast.variation)
    workload = task.workload
    outcome = idle_verdict.outcome if idle_verdict else ""
    return ForecastRow(
        name=workload.name,
        namespace=workload.namespace,
        queue=workload.queue,
        cluster_queue=next((span.cluster_queue for span in timeline.spans), ""),
        declared=task.is_declared,
        priority=workload.priority,
        duration=task.duration.seconds,
        source=task.duration.source,
        submitted=_round(timeline.submitted),
        start=_round(timeline.start),
        end=_round(timeline.end),
        is_undecided=outcome == "unknown" and timeline.submitted is not None and not timeline.spans,
        end_range=None if end_range is None else _round_range(end_range),
        open=is_unsettled
        and end_range is not None
        and timeline.end is not None
        and is_order_sensitive(timeline.end, end_range),
        wait=_round(timeline.wait),
        evictions=timeline.evictions,
        pods=sum(pods.count for pods in workload.pod_sets),
        gpus=round(run_gpus(timeline, forecast.model), _DIGITS),
        gpu_hours=_round(gpu_hours(timeline, forecast.model)),
        cost=_round(run_cost(timeline, forecast.settings.plan), 2),
        flavors=tuple(dict.fromkeys(flavor for span in timeline.spans for flavor, _ in span.usage)),
        stretches=tuple(map(_stretch, timeline.spans)),
        never_fits=outcome == "never fits",
        note=note,
    )


def _end_range(timeline: Timeline, variation: Variation | None) -> Range | None:
    return None if variation is None else variation.ends.get(timeline.task.key)


def _round_range(seconds_range: Range) -> Range:
    return round(seconds_range[0], _DIGITS), round(seconds_range[1], _DIGITS)


def _stretch(span: Span) -> Stretch:
    return Stretch(
        admitted=round(span.admitted, _DIGITS),
        started=_round(span.started),
        ended=_round(span.ended),
        flavors=tuple(dict.fromkeys(flavor for flavor, _ in span.usage)),
        evicted_by=span.evicted_by,
    )


def _price_notes(forecast: Forecast) -> Iterator[str]:
    plan, flavors = forecast.settings.plan, forecast.model.flavors
    if not plan.prices:
        return
    priced_flavors = {price.name for price in plan.prices}
    timelines = forecast.schedule.timelines
    used_flavors = {flavor for timeline in timelines for span in timeline.spans for flavor, _ in span.usage}
    for name in sorted(used_flavors - priced_flavors):
        yield f"flavor {name} has no price in trainstack:plan: prices, and is counted as free"
    for name in sorted(priced_flavors - flavors.keys() if flavors is not None else ()):
        yield f"plan.prices[{name}]: the environment has no flavor {name}"


def _round(number: float | None, digits: int = _DIGITS) -> float | None:
    return None if number is None else round(number, digits)
