"""A sweep's results as columns for CSV and Parquet, with a row for each trial."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from trainstack.reports.sweep_format import trial_seconds
from trainstack.settings.search_space.constraints import Value
from trainstack.settings.search_space.space import MAX_INT64, MIN_INT64, Space, is_test_metric
from trainstack.sweeps.search.ranking import RankedTrial, Ranking
from trainstack.sweeps.search.results import TrialResult

Cell = Value | None


@dataclass(frozen=True)
class Column:
    """One value for each trial, in the order of their numbers."""

    name: str
    type: type[bool] | type[int] | type[float] | type[str]
    cells: tuple[Cell, ...]


def result_columns(space: Space, ranking: Ranking) -> list[Column]:
    """Return the outcome, `parameters.<name>` and `metrics.<name>` of each trial.

    The metrics are those of the epoch by which a trial is compared. Metrics on the test data are left out, because they
    must not influence the choice of a trial.
    """
    ranked = {trial.result.number: trial for trial in ranking.ranked}
    results = [trial.result for trial in ranking.ranked] + [trial.result for trial in ranking.unranked]
    results.sort(key=lambda result: result.number)
    outcomes = [_outcome_cells(result, ranked.get(result.number)) for result in results]
    metrics = [_metric_cells(ranked.get(result.number)) for result in results]
    names = dict.fromkeys(name for row in metrics for name in row)
    return [
        *(_typed_column(name, [row[name] for row in outcomes]) for name in (outcomes[0] if outcomes else ())),
        *(
            _typed_column(f"parameters.{name}", [result.parameters.get(name) for result in results])
            for name in space.parameters
        ),
        *(_typed_column(f"metrics.{name}", [row.get(name) for row in metrics]) for name in names),
    ]


def as_csv(columns: Sequence[Column]) -> str:
    """Return CSV with a header; missing values are empty."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(column.name for column in columns)
    writer.writerows(zip(*(map(_cell_text, column.cells) for column in columns), strict=True))
    return file.getvalue()


def as_parquet(columns: Sequence[Column]) -> bytes:
    """Return Parquet with one row group; missing values are null."""
    from arro3.core import Array, DataType, Table  # noqa: PLC0415 (11 MB of library that only this format needs)
    from arro3.io import write_parquet  # noqa: PLC0415 (as above)

    types = {bool: DataType.bool(), int: DataType.int64(), float: DataType.float64(), str: DataType.string()}
    file = io.BytesIO()
    write_parquet(
        Table.from_pydict({column.name: Array(list(column.cells), types[column.type]) for column in columns}), file
    )
    return file.getvalue()


def _outcome_cells(result: TrialResult, ranked: RankedTrial | None) -> dict[str, Cell]:
    started, finished = (
        None if time is None else time.astimezone(UTC).isoformat().replace("+00:00", "Z")
        for time in (result.started, result.finished)
    )
    return {
        "number": result.number,
        "id": result.set_id,
        "run": result.run_id,
        "state": result.state,
        "reason": result.reason or None,
        "place": ranked.place if ranked else None,
        "objective": ranked.value if ranked else None,
        "epoch": ranked.epoch if ranked else None,
        "started": started,
        "finished": finished,
        "seconds": trial_seconds(result),
        "attempts": result.attempts,
    }


_EMPTY_COLUMN_TYPES: dict[str, Any] = dict.fromkeys(("number", "place", "epoch", "attempts"), int) | dict.fromkeys(
    ("objective", "seconds"), float
)
"""The types of columns without any value; the default is text."""


def _metric_cells(ranked: RankedTrial | None) -> dict[str, Cell]:
    if ranked is None:
        return {}
    return {
        name: value
        for name, value in ranked.line.items()
        if isinstance(value, bool | int | float | str) and not is_test_metric(name) and name != "epoch"
    }


def _typed_column(name: str, cells: Sequence[Cell]) -> Column:
    """Return a column of one type: a mixture of integers and floats becomes floats, other mixtures become text.

    A column with an integer of more than 64 bits, which a program may write to its metrics, also becomes text.
    """
    types = {type(cell) for cell in cells if cell is not None}
    if not types:
        return Column(name, _EMPTY_COLUMN_TYPES.get(name, str), tuple(cells))
    if all(MIN_INT64 <= cell <= MAX_INT64 for cell in cells if isinstance(cell, int)):
        if len(types) == 1:
            return Column(name, types.pop(), tuple(cells))
        if types == {int, float}:
            return Column(name, float, tuple(None if cell is None else float(cell) for cell in cells))
    return Column(name, str, tuple(None if cell is None else _cell_text(cell) for cell in cells))


def _cell_text(cell: Cell) -> str:
    if cell is None:
        return ""
    return cell if isinstance(cell, str) else json.dumps(cell)
