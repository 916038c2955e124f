"""Spaces and trials for tests."""

import json
import math
import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from trainstack.settings.search_space.constraints import Value
from trainstack.settings.search_space.space import Space
from trainstack.sweeps.search.expand import expand
from trainstack.sweeps.search.results import TrialResult

OBJECTIVE: dict[str, Any] = {"metric": "val_accuracy", "direction": "maximize"}
BEGIN = datetime(2026, 11, 21, 12, tzinfo=UTC)


def make_digits_space(**changes: Any) -> Space:
    """Return a grid of 4 by 3 sets, validated like a file."""
    document = {
        "method": "grid",
        "parameters": {"batch_size": {"values": [16, 32, 64, 128]}, "lr": {"values": [0.01, 0.05, 0.1]}},
        "objective": OBJECTIVE,
        **changes,
    }
    return Space.model_validate_json(json.dumps(document))


def make_mixed_space(trials: int = 200) -> Space:
    """Return a space with numbers, logarithmic scales, categories and a conditional parameter."""
    parameters = {
        "lr": {"logUniform": {"low": 1e-4, "high": 1.0}},
        "batch_size": {"values": [16, 32, 64, 128, 512]},
        "optimizer": {"categorical": ["sgd", "adam", "rmsprop with centred gradients", "lamb"]},
        "momentum": {"normal": {"mean": 0.9, "std": 0.05, "high": 1.0}, "when": {"optimizer": ["sgd"]}},
        "layers": {"int": {"low": 1, "high": 12}},
        "nesterov": {"categorical": [True, False]},
    }
    return make_digits_space(method="random", trials=trials, seed=3, parameters=parameters)


def make_trial(number: int = 1, values: tuple[float, ...] = (0.9,), **changes: Any) -> TrialResult:
    """Return a succeeded trial, with a value of the objective for each epoch and one for the test data."""
    lines = [{"epoch": epoch, "val_accuracy": value} for epoch, value in enumerate(values, 1)]
    fields: dict[str, Any] = {
        "number": number,
        "set_id": f"{number:010x}",
        "run_id": f"digits-{number:010x}",
        "parameters": {"batch_size": 32, "lr": 0.05},
        "state": "succeeded",
        "metrics": (*lines, {"epoch": len(values), "test_accuracy": 0.5 + number / 1000}),
        "started": BEGIN,
        "finished": BEGIN + timedelta(seconds=60 + number),
        "attempts": 1,
    }
    return TrialResult(**(fields | changes))


def quality(parameters: Mapping[str, Value]) -> float:
    """Return the quality of a set, from 0 to 1, which depends on lr, on the optimizer, and little on the batch size."""
    lr = float(parameters["lr"])
    good = {"adam": 0.06, "lamb": 0.05}.get(str(parameters.get("optimizer")), 0.0)
    return 0.9 * math.exp(-((math.log10(lr) + 1.3) ** 2) / 2) + good - 0.0001 * float(parameters["batch_size"])


def make_results(
    space: Space, epochs: int = 12, good: Callable[[Mapping[str, Value]], float] = quality
) -> list[TrialResult]:
    """Return a trial for each set, whose curve rises to the set's quality. The results are reproducible."""
    results = []
    for parameter_set in expand(space):
        chance = random.Random(parameter_set.id)
        end = good(parameter_set.parameters) + chance.gauss(0, 0.01)
        values = tuple(
            round(end * (1 - math.exp(-epoch / (1 + 3 * chance.random()))) + chance.gauss(0, 0.004), 6)
            for epoch in range(1, epochs + 1)
        )
        trial = make_trial(parameter_set.number, values, set_id=parameter_set.id, parameters=parameter_set.parameters)
        results.append(trial)
    return results


def fail(result: TrialResult, reason: str = "crashed (exit 1)", **changes: Any) -> TrialResult:
    """Return the same trial, failed after its third epoch."""
    lines = ("Traceback (most recent call last):", '  File "/opt/digits/train.py", line 3, in <module>', "ValueError")
    update = {"state": "failed", "reason": reason, "metrics": result.metrics[:3], "last_lines": lines}
    return result.model_copy(update={**update, **changes})
