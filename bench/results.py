"""Results of benchmarks, and their form in files."""

import statistics
from collections.abc import Callable, Sequence

from pydantic import BaseModel, ConfigDict

from bench.case import Measure


class _Result(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Sample(_Result):
    """One measurement of one arm."""

    wall_seconds: float
    cpu_seconds: dict[str, float]
    """CPU seconds by the program of the process; `other` is the use of short processes."""
    peak_bytes: int | None = None
    """The most memory of all processes at once, shared pages counted once; None if the program reports its seconds."""
    api_writes: int | None = None
    """Accepted writes of the command's user in the audit log, without dry runs; None without a cluster."""
    api_dry_runs: int | None = None
    state_bytes: int | None = None

    @property
    def cpu(self) -> float:
        return sum(self.cpu_seconds.values())


class Summary(_Result):
    """Median, least and greatest of a figure."""

    median: float
    least: float
    greatest: float

    @staticmethod
    def of(values: Sequence[float]) -> "Summary":
        return Summary(median=statistics.median(values), least=min(values), greatest=max(values))


class ArmResult(_Result):
    """All measurements of one arm."""

    name: str
    samples: tuple[Sample, ...]

    def summary(self, measure: Measure) -> Summary:
        return Summary.of([sample.cpu if measure == "cpu" else sample.wall_seconds for sample in self.samples])

    def median(self, figure: Callable[[Sample], float | None]) -> float | None:
        """Return the median of a figure; None if a sample lacks it."""
        values = [value for sample in self.samples if (value := figure(sample)) is not None]
        return statistics.median(values) if len(values) == len(self.samples) else None

    @property
    def cpu_by_program(self) -> dict[str, float]:
        """Return the mean CPU seconds of each program, the greatest first."""
        names = {name for sample in self.samples for name in sample.cpu_seconds}
        means = {name: statistics.mean(sample.cpu_seconds.get(name, 0.0) for sample in self.samples) for name in names}
        return dict(sorted(means.items(), key=lambda item: (-item[1], item[0])))


class CaseResult(_Result):
    """The result of one case."""

    id: str
    title: str
    measure: Measure
    date: str
    """The date in ISO 8601, without a time."""
    commit: str
    machine: str
    load: float
    """The machine's load average over a minute when the case began."""
    arms: tuple[ArmResult, ...]

    @property
    def ratios(self) -> dict[str, float]:
        """Return the median of the first arm over that of each other one."""
        first, *others = self.arms
        own = first.summary(self.measure).median
        return {other.name: own / other.summary(self.measure).median for other in others}


class Results(_Result):
    """The results of one run, or those that are stored."""

    cases: tuple[CaseResult, ...] = ()

    def by_id(self) -> dict[str, CaseResult]:
        return {case.id: case for case in self.cases}

    def merged(self, newer: "Results", order: Sequence[str]) -> "Results":
        """Return all cases in this order, replaced by newer ones of the same id. Unknown ids are dropped."""
        found = self.by_id() | newer.by_id()
        return Results(cases=tuple(found[name] for name in order if name in found))
