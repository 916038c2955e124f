"""The ranking of succeeded trials by the objective, and the reasons why other trials are not ranked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from trainstack.settings.search_space.space import Objective, of_test_data
from trainstack.sweeps.search.results import TrialResult, is_unread, number, objective_line, objective_value

Line = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Ranked:
    place: int
    """From 1; trials with equal values share a place, and the next place counts all of them."""
    result: TrialResult
    value: float
    """Of the objective."""
    line: Line
    """The line of its metrics with the value; the first of several equal lines."""

    @property
    def epoch(self) -> int | None:
        """The epoch of the value; None if the line does not contain it."""
        epoch = number(self.line.get("epoch"))
        return None if epoch is None else int(epoch)


@dataclass(frozen=True, kw_only=True)
class Unranked:
    result: TrialResult
    why: str


@dataclass(frozen=True)
class Ranking:
    objective: Objective
    ranked: tuple[Ranked, ...]
    """The best first; trials that share a place are ordered by number."""
    unranked: tuple[Unranked, ...]
    """By number."""

    @property
    def best(self) -> Ranked | None:
        """The best trial; None if no trial is ranked yet."""
        return self.ranked[0] if self.ranked else None

    @cached_property
    def ahead(self) -> tuple[Unranked, ...]:
        """Running and failed trials that once had a better value than the best ranked one."""
        sign = 1 if self.objective.direction == "maximize" else -1
        bound = sign * self.best.value if self.best else float("inf")
        values = ((each, objective_value(each.result.metrics, self.objective)) for each in self.unranked)
        return tuple(each for each, value in values if value is not None and sign * value > bound)

    def notes(self) -> list[str]:
        """Return notes on the choice of the best trial: ties, and trials that are not ranked."""
        notes = []
        same = [each.result.number for each in self.ranked[1:] if each.place == 1]
        if self.best and same:
            notes.append(
                f"{_trials(same)} {'has' if len(same) == 1 else 'have'} the same {self.objective.metric}, "
                f"{self.best.value:.6g}; the trial with the lowest number, {self.best.result.number}, is ranked first"
            )
        for each in self.ahead:
            value = objective_value(each.result.metrics, self.objective)
            notes.append(
                f"trial {each.result.number} has had a better {self.objective.metric}, {value:.6g}, but does not "
                f"count: {each.why}"
            )
        silent = [each for each in self.unranked if each.result.state == "succeeded"]
        return [
            *notes,
            *(
                f"{_trials([each.result.number for each in silent if each.why == why])} not ranked: {why}"
                for why in dict.fromkeys(each.why for each in silent)
            ),
        ]


def rank(results: Sequence[TrialResult], objective: Objective) -> Ranking:
    counted: list[tuple[float, Line, TrialResult]] = []
    unranked = []
    for result in sorted(results, key=lambda each: each.number):
        line = objective_line(result.metrics, objective)
        if result.state == "succeeded" and line is not None:
            counted.append((float(line[objective.metric]), line, result))
        else:
            unranked.append(Unranked(result=result, why=_why(result, objective)))
    # The sort is stable: equal values stay in the order of their numbers.
    counted.sort(key=lambda each: each[0], reverse=objective.direction == "maximize")
    ranked: list[Ranked] = []
    for index, (value, line, result) in enumerate(counted):
        place = ranked[-1].place if ranked and ranked[-1].value == value else index + 1
        ranked.append(Ranked(place=place, result=result, value=value, line=line))
    return Ranking(objective, tuple(ranked), tuple(unranked))


def thinned(metrics: Sequence[Line], objective: Objective, most: int) -> tuple[Line, ...]:
    """Return about `line_count` evenly spaced lines, including the last one and the one with the objective's value."""
    if len(metrics) <= most:
        return tuple(metrics)
    counts = objective_line(metrics, objective)
    stride = -(-len(metrics) // most)
    last = len(metrics) - 1
    return tuple(line for index, line in enumerate(metrics) if index % stride == 0 or index == last or line is counts)


def without_test(results: Sequence[TrialResult]) -> tuple[TrialResult, ...]:
    """Return the results without figures on the test data, which must not influence a comparison of trials."""

    def kept(line: Line) -> Line:
        return {name: value for name, value in line.items() if not of_test_data(name)}

    return tuple(each.model_copy(update={"metrics": tuple(map(kept, each.metrics))}) for each in results)


def on_test_data(best: Ranked) -> dict[str, float]:
    """Return the best trial's figures on the test data, the last value of each."""
    figures = {
        name: number(value) for line in best.result.metrics for name, value in line.items() if of_test_data(name)
    }
    return {name: value for name, value in figures.items() if value is not None}


def _why(result: TrialResult, objective: Objective) -> str:
    if result.state != "succeeded":
        words = {"waiting": "not launched yet", "queued": "queued", "running": "still running"}
        state = words.get(result.state, result.state)
        return f"{state}: {result.reason}" if result.reason else state
    return result.reason or _silence(result.metrics, objective)


def _silence(metrics: Sequence[Line], objective: Objective) -> str:
    """Return the reason why the metrics of a succeeded trial have no value of the objective."""
    name = objective.metric
    if not metrics and objective.metrics_format is not None:
        return "its log has no match of metricsFormat"
    if not metrics:
        return f"it wrote no metrics.jsonl to $TRAINSTACK_OUTPUT, and its log has no {name}=<number>"
    having = [line for line in metrics if name in line]
    if not having:
        known = sorted({key for line in metrics for key in line if not of_test_data(key)})
        near = get_close_matches(name, known, n=1)
        guess = f" (did you mean {near[0]}?)" if near else ""
        return f"no line of its metrics has {name}; they have {', '.join(known)}{guess}"
    if unread := [line[name] for line in having if is_unread(line[name])]:
        remedy = "print it with a decimal point, and without separators and units"
        more = f" and {len(unread) - 1} more" if len(unread) > 1 else ""
        return f"its {name} {unread[-1]!r}{more} was not read, because it is not a number: {remedy}"
    numbers = [line for line in having if number(line[name]) is not None]
    if not numbers:
        return f"its {name} was never a number, but {having[-1][name]!r}"
    epochs = [epoch for line in numbers if (epoch := number(line.get("epoch"))) is not None]
    of = f"of epochs {min(epochs):g} to {max(epochs):g}" if epochs else "without an `epoch`"
    return f"no line of its metrics has {name} for epoch {objective.epoch}; there are lines {of}"


def _trials(numbers: Sequence[int], most: int = 10) -> str:
    listed = ", ".join(map(str, numbers[:most]))
    more = f" and {len(numbers) - most} more" if len(numbers) > most else ""
    return f"trial{'s' if len(numbers) > 1 else ''} {listed}{more}"
