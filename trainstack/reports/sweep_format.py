"""A sweep in sentences, and its trials as rows of a table."""

from collections import Counter
from collections.abc import Mapping, Sequence

from trainstack.settings.search_space.constraints import Value
from trainstack.settings.search_space.space import Objective, Space
from trainstack.sweeps.search.ranking import Ranked, Ranking, on_test_data
from trainstack.sweeps.search.results import State, TrialResult

UNKNOWN = "-"
STATES: tuple[State, ...] = ("succeeded", "running", "queued", "waiting", "failed", "stopped")
"""In the order in which people ask for them."""


def counted(results: Sequence[TrialResult]) -> str:
    """How many trials are in which state."""
    counts = Counter(each.state for each in results)
    said = [f"{counts[state]} {state}" for state in STATES if counts[state]]
    return f"{len(results)} trial{'' if len(results) == 1 else 's'}: {', '.join(said) or 'none'}"


def compared_by(objective: Objective) -> str:
    """By what trials are compared."""
    most = "greatest" if objective.direction == "maximize" else "least"
    which = {"best": f"the {most} of its epochs", "last": "that of its last epoch"}
    own = which.get(str(objective.epoch), f"that of epoch {objective.epoch}")
    return f"compared by {objective.metric}: a trial's is {own}, and the {most} of all is the best"


def best_in_words(best: Ranked, objective: Objective) -> str:
    """Which trial is the best, and with what."""
    epoch = f" in epoch {best.epoch}" if best.epoch is not None else ""
    return (
        f"the best is trial {best.result.number} ({best.result.run_id}): {objective.metric} {best.value:.6g}{epoch}, "
        f"with {parameters_of(best.result.parameters)}"
    )


def test_in_words(best: Ranked) -> str:
    """What the best tells of the test data; empty where it tells nothing."""
    told = ", ".join(f"{name} {value:.6g}" for name, value in sorted(on_test_data(best).items()))
    return f"on the test data, where no other trial is looked at: {told}" if told else ""


def parameters_of(parameters: Mapping[str, Value]) -> str:
    """A set in one line."""
    return ", ".join(f"{name} {text_of(value)}" for name, value in parameters.items()) or "no parameter"


def text_of(value: Value) -> str:
    """A parameter's value, as the files have it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def seconds_of(result: TrialResult) -> float | None:
    """From the start of its first attempt to its end; None where it has not ended."""
    if result.started is None or result.finished is None:
        return None
    return (result.finished - result.started).total_seconds()


def head(space: Space, objective: Objective) -> tuple[str, ...]:
    """The columns of a table of trials."""
    return ("trial", "place", *space.parameters, objective.metric, "epoch", "seconds", "state")


def rows(space: Space, ranking: Ranking) -> list[tuple[str, ...]]:
    """The rows below `head`: the best first, then those that do not count."""
    ranked = [_row(space, each.result, each) for each in ranking.ranked]
    return ranked + [_row(space, each.result, None) for each in ranking.unranked]


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
