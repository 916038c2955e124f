"""A comparison as rows of a table, and as JSON."""

import math
from typing import Any

from trainstack.reports.comparison import Comparison, Row

HEAD = ("run", "replicas", "epochs", "steps each", "s/epoch", "speed-up", "accuracy", "loss")
_UNKNOWN = "-"


def cells(comparison: Comparison) -> list[tuple[str, ...]]:
    return [_cells(row, baseline=row is comparison.baseline) for row in comparison.rows]


def _cells(row: Row, *, baseline: bool) -> tuple[str, ...]:
    run = row.run
    return (
        run.run_id,
        str(run.world_size),
        str(len(run.epochs)) if run.epochs else _UNKNOWN,
        _per_replica(run.steps),
        _number(run.seconds_per_epoch, ".3g"),
        "baseline" if baseline else f"{row.speed_up:.2f}" if row.speed_up else _UNKNOWN,
        _number(run.accuracy, ".4f"),
        _number(run.loss, ".4f"),
    )


def as_json(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison as JSON; unknown and infinite values and NaN are null."""
    return {
        "baseline": comparison.baseline.run.run_id,
        "runs": [
            {
                "run": row.run.run_id,
                "source": row.run.source,
                "finished": row.run.finished,
                "world_size": row.run.world_size,
                "epochs": len(row.run.epochs),
                "steps": {str(rank): steps for rank, steps in row.run.steps.items()},
                "steps_counted": row.run.counted,
                "steps_ratio": row.steps_ratio,
                "seconds_per_epoch": row.run.seconds_per_epoch,
                "speed_up": row.speed_up,
                "test_accuracy": _finite(row.run.test_accuracy),
                "accuracy": _finite(row.run.accuracy),
                "accuracy_difference": row.accuracy_difference,
                "loss": _finite(row.run.loss),
            }
            for row in comparison.rows
        ],
        "warnings": list(comparison.warnings),
        "notes": list(comparison.notes),
    }


def _per_replica(steps: dict[int, int | None]) -> str:
    known = {value for value in steps.values() if value is not None}
    if not known:
        return _UNKNOWN
    low, high = min(known), max(known)
    unknown = list(steps.values()).count(None)
    return (f"{low}" if low == high else f"{low} to {high}") + (f" ({unknown} not known)" if unknown else "")


def _number(value: float | None, form: str) -> str:
    return _UNKNOWN if value is None else format(value, form)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
