"""The ranking of succeeded trials by the objective, and the reasons why other trials are not ranked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from trainstack.settings.search_space.space import Objective, is_test_metric
from trainstack.sweeps.search.results import (
    TrialResult,
    finite_number,
    is_unparsed_number,
    objective_line,
    objective_value,
)

Line = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class RankedTrial:
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
        epoch = finite_number(self.line.get("epoch"))
        return None if epoch is None else int(epoch)


@dataclass(frozen=True, kw_only=True)
class UnrankedTrial:
    result: TrialResult
    reason: str


@dataclass(frozen=True)
class Ranking:
    objective: Objective
    ranked: tuple[RankedTrial, ...]
    """The best first; trials that share a place are ordered by number."""
    unranked: tuple[UnrankedTrial, ...]
    """By number."""

    @property
    def best(self) -> RankedTrial | None:
        """The best trial; None if no trial is ranked yet."""
        return self.ranked[0] if self.ranked else None

    @cached_property
    def unranked_leaders(self) -> tuple[UnrankedTrial, ...]:
        """Running and failed trials that once had a better value than the best ranked one."""
        sign = 1 if self.objective.direction == "maximize" else -1
        bound = sign * self.best.value if self.best else float("inf")
        values = ((trial, objective_value(trial.result.metrics, self.objective)) for trial in self.unranked)
        return tuple(trial for trial, value in values if value is not None and sign * value > bound)

    def notes(self) -> list[str]:
        """Return notes on the choice of the best trial: ties, and trials that are not ranked."""
        notes = []
        tied_numbers = [trial.result.number for trial in self.ranked[1:] if trial.place == 1]
        if self.best and tied_numbers:
            notes.append(
                f"{_list_trials(tied_numbers)} {'has' if len(tied_numbers) == 1 else 'have'} the same "
                f"{self.objective.metric}, {self.best.value:.6g}; the trial with the lowest number, "
                f"{self.best.result.number}, is ranked first"
            )
        for trial in self.unranked_leaders:
            value = objective_value(trial.result.metrics, self.objective)
            notes.append(
                f"trial {trial.result.number} has had a better {self.objective.metric}, {value:.6g}, but does not "
                f"count: {trial.reason}"
            )
        without_value = [trial for trial in self.unranked if trial.result.state == "succeeded"]
        return [
            *notes,
            *(
                f"{_list_trials([trial.result.number for trial in without_value if trial.reason == reason])} not "
                f"ranked: {reason}"
                for reason in dict.fromkeys(trial.reason for trial in without_value)
            ),
        ]


def rank(results: Sequence[TrialResult], objective: Objective) -> Ranking:
    measured: list[tuple[float, Line, TrialResult]] = []
    unranked = []
    for result in sorted(results, key=lambda result: result.number):
        line = objective_line(result.metrics, objective)
        if result.state == "succeeded" and line is not None:
            measured.append((float(line[objective.metric]), line, result))
        else:
            unranked.append(UnrankedTrial(result=result, reason=_unranked_reason(result, objective)))
    # The sort is stable: equal values stay in the order of their numbers.
    measured.sort(key=lambda entry: entry[0], reverse=objective.direction == "maximize")
    ranked: list[RankedTrial] = []
    for index, (value, line, result) in enumerate(measured):
        place = ranked[-1].place if ranked and ranked[-1].value == value else index + 1
        ranked.append(RankedTrial(place=place, result=result, value=value, line=line))
    return Ranking(objective, tuple(ranked), tuple(unranked))


def thin_metrics(metrics: Sequence[Line], objective: Objective, line_count: int) -> tuple[Line, ...]:
    """Return about `line_count` evenly spaced lines, including the last one and the one with the objective's value."""
    if len(metrics) <= line_count:
        return tuple(metrics)
    decisive_line = objective_line(metrics, objective)
    stride = -(-len(metrics) // line_count)
    last_index = len(metrics) - 1
    return tuple(
        line
        for index, line in enumerate(metrics)
        if index % stride == 0 or index == last_index or line is decisive_line
    )


def without_test_data(results: Sequence[TrialResult]) -> tuple[TrialResult, ...]:
    """Return the results without figures on the test data, which must not influence a comparison of trials."""

    def drop_test_values(line: Line) -> Line:
        return {name: value for name, value in line.items() if not is_test_metric(name)}

    return tuple(
        result.model_copy(update={"metrics": tuple(map(drop_test_values, result.metrics))}) for result in results
    )


def read_test_metrics(best: RankedTrial) -> dict[str, float]:
    """Return the best trial's figures on the test data, the last value of each."""
    figures = {
        name: finite_number(value)
        for line in best.result.metrics
        for name, value in line.items()
        if is_test_metric(name)
    }
    return {name: value for name, value in figures.items() if value is not None}


def _unranked_reason(result: TrialResult, objective: Objective) -> str:
    if result.state != "succeeded":
        state_texts = {"waiting": "not launched yet", "queued": "queued", "running": "still running"}
        state = state_texts.get(result.state, result.state)
        return f"{state}: {result.reason}" if result.reason else state
    return result.reason or _missing_value_reason(result.metrics, objective)


def _missing_value_reason(metrics: Sequence[Line], objective: Objective) -> str:
    """Return the reason why the metrics of a succeeded trial have no value of the objective."""
    name = objective.metric
    if not metrics and objective.metrics_format is not None:
        return "its log has no match of metricsFormat"
    if not metrics:
        return f"it wrote no metrics.jsonl to $TRAINSTACK_OUTPUT, and its log has no {name}=<number>"
    lines_with_metric = [line for line in metrics if name in line]
    if not lines_with_metric:
        metric_names = sorted({key for line in metrics for key in line if not is_test_metric(key)})
        close_matches = get_close_matches(name, metric_names, n=1)
        hint = f" (did you mean {close_matches[0]}?)" if close_matches else ""
        return f"no line of its metrics has {name}; they have {', '.join(metric_names)}{hint}"
    if unread_values := [line[name] for line in lines_with_metric if is_unparsed_number(line[name])]:
        remedy = "print it with a decimal point, and without separators and units"
        more = f" and {len(unread_values) - 1} more" if len(unread_values) > 1 else ""
        return f"its {name} {unread_values[-1]!r}{more} was not read, because it is not a number: {remedy}"
    lines_with_number = [line for line in lines_with_metric if finite_number(line[name]) is not None]
    if not lines_with_number:
        return f"its {name} was never a number, but {lines_with_metric[-1][name]!r}"
    epochs = [epoch for line in lines_with_number if (epoch := finite_number(line.get("epoch"))) is not None]
    epoch_range = f"of epochs {min(epochs):g} to {max(epochs):g}" if epochs else "without an `epoch`"
    return f"no line of its metrics has {name} for epoch {objective.epoch}; there are lines {epoch_range}"


def _list_trials(numbers: Sequence[int], limit: int = 10) -> str:
    listed = ", ".join(map(str, numbers[:limit]))
    more = f" and {len(numbers) - limit} more" if len(numbers) > limit else ""
    return f"trial{'s' if len(numbers) > 1 else ''} {listed}{more}"
