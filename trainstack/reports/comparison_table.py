"""A comparison as rows of a table, and as JSON."""

import math
from typing import Any

from trainstack.reports.comparison import Comparison, ComparisonRow

HEAD = ("run", "replicas", "epochs", "steps each", "s/epoch", "speed-up", "accuracy", "loss")
_UNKNOWN = "-"


def table_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    return [_table_row(row, is_baseline=row is comparison.baseline) for row in comparison.rows]


def _table_row(row: ComparisonRow, *, is_baseline: bool) -> tuple[str, ...]:
    run = row.run
    return (
        run.run_id,
        str(run.world_size),
        str(len(run.epochs)) if run.epochs else _UNKNOWN,
        _format_steps(run.steps),
        _format_number(run.seconds_per_epoch, ".3g"),
        "baseline" if is_baseline else f"{row.speed_up:.2f}" if row.speed_up else _UNKNOWN,
        _format_number(run.accuracy, ".4f"),
        _format_number(run.loss, ".4f"),
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
                "steps_counted": row.run.step_unit,
                "steps_ratio": row.steps_ratio,
                "seconds_per_epoch": row.run.seconds_per_epoch,
                "speed_up": row.speed_up,
                "test_accuracy": _finite_or_none(row.run.test_accuracy),
                "accuracy": _finite_or_none(row.run.accuracy),
                "accuracy_difference": row.accuracy_difference,
                "loss": _finite_or_none(row.run.loss),
            }
            for row in comparison.rows
        ],
        "warnings": list(comparison.warnings),
        "notes": list(comparison.notes),
    }


def _format_steps(steps: dict[int, int | None]) -> str:
    known_steps = {value for value in steps.values() if value is not None}
    if not known_steps:
        return _UNKNOWN
    low, high = min(known_steps), max(known_steps)
    unknown_count = list(steps.values()).count(None)
    return (f"{low}" if low == high else f"{low} to {high}") + (
        f" ({unknown_count} not known)" if unknown_count else ""
    )


def _format_number(value: float | None, format_spec: str) -> str:
    return _UNKNOWN if value is None else format(value, format_spec)


def _finite_or_none(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
