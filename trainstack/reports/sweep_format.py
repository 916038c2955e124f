"""Sentences about a sweep, and its trials as rows of a table."""

from collections import Counter
from collections.abc import Mapping, Sequence

from trainstack.settings.search_space.constraints import Value
from trainstack.settings.search_space.space import Objective, Space
from trainstack.sweeps.search.ranking import Ranked, Ranking, on_test_data
from trainstack.sweeps.search.results import State, TrialResult

UNKNOWN = "-"
STATES: tuple[State, ...] = ("succeeded", "running", "queued", "waiting", "failed", "stopped")
"""The states of trials, in the order in which reports list them."""


def counted(results: Sequence[TrialResult]) -> str:
    """Return the number of trials in total and by state, as a phrase."""
    counts = Counter(result.state for result in results)
    parts = [f"{counts[state]} {state}" for state in STATES if counts[state]]
    return f"{len(results)} trial{'' if len(results) == 1 else 's'}: {', '.join(parts) or 'none'}"


def compared_by(objective: Objective) -> str:
    """Return a sentence on the metric, epoch and direction of the ranking."""
    highest, better = ("highest", "higher") if objective.direction == "maximize" else ("lowest", "lower")
    epochs = {"best": f"the {highest} of each trial's epochs", "last": "the value of each trial's last epoch"}
    value = epochs.get(str(objective.epoch), f"the value of epoch {objective.epoch}")
    return f"trials are ranked by {objective.metric}, {value}; {better} is better"


def best_in_words(best: Ranked, objective: Objective) -> str:
    epoch = f" in epoch {best.epoch}" if best.epoch is not None else ""
    return (
        f"the best is trial {best.result.number} ({best.result.run_id}): {objective.metric} {best.value:.6g}{epoch}, "
        f"with {parameters_of(best.result.parameters)}"
    )


def test_in_words(best: Ranked) -> str:
    """Return a sentence on the best trial's metrics on the test data, or an empty string without any."""
    metrics = ", ".join(f"{name} {value:.6g}" for name, value in sorted(on_test_data(best).items()))
    return f"on the test data, for this trial only: {metrics}" if metrics else ""


def parameters_of(parameters: Mapping[str, Value]) -> str:
    return ", ".join(f"{name} {text_of(value)}" for name, value in parameters.items()) or "no parameters"


def text_of(value: Value) -> str:
    """Return a parameter's value in the form of the settings' YAML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def seconds_of(result: TrialResult) -> float | None:
    """Return the seconds from the first attempt's start to the end, or None if the trial has not ended."""
    if result.started is None or result.finished is None:
        return None
    return (result.finished - result.started).total_seconds()


def head(space: Space, objective: Objective) -> tuple[str, ...]:
    return ("trial", "place", *space.parameters, objective.metric, "epoch", "seconds", "state")


def rows(space: Space, ranking: Ranking) -> list[tuple[str, ...]]:
    """Return the rows below `table_head`: the ranked trials, the best first, then the unranked ones."""
    ranked = [_row(space, trial.result, trial) for trial in ranking.ranked]
    return ranked + [_row(space, trial.result, None) for trial in ranking.unranked]


def _row(space: Space, result: TrialResult, ranked: Ranked | None) -> tuple[str, ...]:
    given, seconds = result.parameters, seconds_of(result)
    return (
        str(result.number),
        str(ranked.place) if ranked else UNKNOWN,
        *(text_of(given[name]) if name in given else UNKNOWN for name in space.parameters),
        f"{ranked.value:.6g}" if ranked else UNKNOWN,
        str(ranked.epoch) if ranked and ranked.epoch is not None else UNKNOWN,
        UNKNOWN if seconds is None else f"{seconds:.0f}",
        result.state,
    )
