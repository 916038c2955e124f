"""The results of a sweep's trials as plain data, and their form as JSON."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from math import isfinite
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from trainstack.errors import TrainstackError
from trainstack.settings.search_space.constraints import Value
from trainstack.settings.search_space.space import Objective

State = Literal["waiting", "queued", "running", "succeeded", "failed", "stopped"]
"""`waiting`: not launched yet, because of `parallelism`. `stopped`: by the target, or because its set was removed."""


class TrialResult(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    number: int
    set_id: str
    run_id: str
    parameters: dict[str, Value]
    state: State
    metrics: tuple[Mapping[str, Any], ...] = ()
    """The lines of its metrics.jsonl in order: the published one, or else that of the newest attempt."""
    reason: str = ""
    """Why the trial failed or was stopped."""
    last_lines: tuple[str, ...] = ()
    """The last lines that a failed trial printed."""
    started: datetime | None = None
    finished: datetime | None = None
    attempts: int = 0


_RESULTS_ADAPTER = TypeAdapter(tuple[TrialResult, ...])


def objective_line(metrics: Sequence[Mapping[str, Any]], objective: Objective) -> Mapping[str, Any] | None:
    """Return the line with the figure by which trials are compared, the first of several equal ones.

    None if no line has a number, or if a value that could not be read might be that figure.
    """
    name = objective.metric
    lines = [
        line for line in metrics if finite_number(line.get(name)) is not None or is_unparsed_number(line.get(name))
    ]
    if objective.epoch == "best":
        best_of = max if objective.direction == "maximize" else min
        if any(is_unparsed_number(line[name]) for line in lines):
            return None
        return best_of(lines, key=lambda line: float(line[name]), default=None)
    if objective.epoch == "last":
        line = lines[-1] if lines else None
    else:
        line = next((line for line in lines if line.get("epoch") == objective.epoch), None)
    return None if line is None or is_unparsed_number(line[name]) else line


def objective_value(metrics: Sequence[Mapping[str, Any]], objective: Objective) -> float | None:
    line = objective_line(metrics, objective)
    return None if line is None else float(line[objective.metric])


def to_json(sweep: str, objective: Objective, results: Sequence[TrialResult]) -> dict[str, Any]:
    """Return a sweep's results in the format of `trainstack sweep results --json`."""
    return {
        "sweep": sweep,
        "objective": objective.model_dump(by_alias=True),
        "trials": [
            {
                **result.model_dump(mode="json", exclude={"metrics"}),
                "metrics": [{key: _to_json_value(value) for key, value in line.items()} for line in result.metrics],
                "objective": objective_value(result.metrics, objective),
            }
            for result in results
        ],
    }


def from_json(text: str, sweep: str) -> tuple[TrialResult, ...]:
    """Parse the trials in the output of `to_json` for this sweep. Raises TrainstackError with the problem."""
    try:
        document = TypeAdapter(dict[str, Any]).validate_json(text)
        if document["sweep"] != sweep:
            raise TrainstackError(f"holds the results of the sweep {document['sweep']}, not of {sweep}")
        trials = [{key: value for key, value in trial.items() if key != "objective"} for trial in document["trials"]]
        return _RESULTS_ADAPTER.validate_python(trials)
    except KeyError as error:
        raise TrainstackError(f"has no `{error.args[0]}`") from None
    except (AttributeError, TypeError):
        raise TrainstackError("`trials` is not a list of maps") from None
    except ValidationError as error:
        first_error = error.errors(include_url=False)[0]
        raise TrainstackError(f"{'.'.join(map(str, first_error['loc'])) or 'the text'}: {first_error['msg']}") from None


def _to_json_value(value: object) -> object:
    """Return a value that JSON can represent: None instead of NaN and infinities."""
    return None if isinstance(value, float) and not isfinite(value) else value


def is_unparsed_number(value: object) -> bool:
    """Return whether a value is a text that begins like a number, such as `1,234.5`."""
    return isinstance(value, str) and re.match(r"\W{0,3}[\d½¼¾]", value) is not None


def finite_number(value: object) -> float | None:
    """Return the value as a number; None for booleans, NaN, infinities and other types."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value) if isfinite(value) else None
    except OverflowError:  # a whole number that is longer than any of the others
        return None
