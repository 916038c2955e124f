"""Sentences about a sweep, and its trials as rows of a table."""

from collections import Counter
from collections.abc import Mapping, Sequence

from trainstack.settings.search_space.constraints import Value
from trainstack.settings.search_space.space import Objective, Space
from trainstack.sweeps.search.ranking import RankedTrial, Ranking, read_test_metrics
from trainstack.sweeps.search.results import State, TrialResult

UNKNOWN = "-"
STATES: tuple[State, ...] = ("succeeded", "running", "queued", "waiting", "failed", "stopped")
"""The states of trials, in the order in which reports list them."""


def describe_trial_states(results: Sequence[TrialResult]) -> str:
    """Return the number of trials in total and by state, as a phrase."""
    counts = Counter(result.state for result in results)
    parts = [f"{counts[state]} {state}" for state in STATES if counts[state]]
    return f"{len(results)} trial{'' if len(results) == 1 else 's'}: {', '.join(parts) or 'none'}"


def describe_ranking(objective: Objective) -> str:
    """Return a sentence on the metric, epoch and direction of the ranking."""
    highest, better_direction = ("highest", "higher") if objective.direction == "maximize" else ("lowest", "lower")
    epochs = {"best": f"the {highest} of each trial's epochs", "last": "the value of each trial's last epoch"}
    value = epochs.get(str(objective.epoch), f"the value of epoch {objective.epoch}")
    return f"trials are ranked by {objective.metric}, {value}; {better_direction} is better"


def describe_best_trial(best: RankedTrial, objective: Objective) -> str:
    epoch = f" in epoch {best.epoch}" if best.epoch is not None else ""
    return (
        f"the best is trial {best.result.number} ({best.result.run_id}): {objective.metric} {best.value:.6g}{epoch}, "
        f"with {format_parameters(best.result.parameters)}"
    )


def describe_test_metrics(best: RankedTrial) -> str:
    """Return a sentence on the best trial's metrics on the test data, or an empty string without any."""
    metrics = ", ".join(f"{name} {value:.6g}" for name, value in sorted(read_test_metrics(best).items()))
    return f"on the test data, for this trial only: {metrics}" if metrics else ""


def format_parameters(parameters: Mapping[str, Value]) -> str:
    return ", ".join(f"{name} {format_value(value)}" for name, value in parameters.items()) or "no parameters"


def format_value(value: Value) -> str:
    """Return a parameter's value in the form of the settings' YAML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def trial_seconds(result: TrialResult) -> float | None:
    """Return the seconds from the first attempt's start to the end, or None if the trial has not ended."""
    if result.started is None or result.finished is None:
        return None
    return (result.finished - result.started).total_seconds()


def table_head(space: Space, objective: Objective) -> tuple[str, ...]:
    return ("trial", "place", *space.parameters, objective.metric, "epoch", "seconds", "state")


def table_rows(space: Space, ranking: Ranking) -> list[tuple[str, ...]]:
    """Return the rows below `table_head`: the ranked trials, the best first, then the unranked ones."""
    ranked = [_table_row(space, trial.result, trial) for trial in ranking.ranked]
    return ranked + [_table_row(space, trial.result, None) for trial in ranking.unranked]


def _table_row(space: Space, result: TrialResult, ranked: RankedTrial | None) -> tuple[str, ...]:
    parameters, seconds = result.parameters, trial_seconds(result)
    return (
        str(result.number),
        str(ranked.place) if ranked else UNKNOWN,
        *(format_value(parameters[name]) if name in parameters else UNKNOWN for name in space.parameters),
        f"{ranked.value:.6g}" if ranked else UNKNOWN,
        str(ranked.epoch) if ranked and ranked.epoch is not None else UNKNOWN,
        UNKNOWN if seconds is None else f"{seconds:.0f}",
        result.state,
    )
