"""A sweep's results as columns, for CSV and Parquet: a row a trial."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from trainstack.reports.sweep_format import seconds_of
from trainstack.settings.search_space.constraints import Value
from trainstack.settings.search_space.space import GREATEST_WHOLE, LEAST_WHOLE, Space, of_test_data
from trainstack.sweeps.search.ranking import Ranked, Ranking
from trainstack.sweeps.search.results import TrialResult

Cell = Value | None


@dataclass(frozen=True)
class Column:
    """One fact of every trial, in the order of their numbers; None where a trial has none."""

    name: str
    type: type[bool] | type[int] | type[float] | type[str]
    """Of every cell."""
    cells: tuple[Cell, ...]


def columns(space: Space, ranking: Ranking) -> list[Column]:
    """All that there is to say of each trial: its set, how it went, and the figures of the line that counts.

    Parameters are named `parameters.<name>`, figures `metrics.<name>`. Those of the test data are not in it: trials are
    compared without them.
    """
    ranked = {each.result.number: each for each in ranking.ranked}
    results = sorted(
        [*(each.result for each in ranking.ranked), *(each.result for each in ranking.unranked)],
        key=lambda each: each.number,
    )
    facts = [_facts(each, ranked.get(each.number)) for each in results]
    figures = [_figures(ranked.get(each.number)) for each in results]
    names = dict.fromkeys(name for each in figures for name in each)
    return [
        *(_column(name, [each[name] for each in facts]) for name in (facts[0] if facts else ())),
        *(_column(f"parameters.{name}", [each.parameters.get(name) for each in results]) for name in space.parameters),
        *(_column(f"metrics.{name}", [each.get(name) for each in figures]) for name in names),
    ]


def as_csv(found: Sequence[Column]) -> str:
    """With a line of names; what a trial has not is empty."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(column.name for column in found)
    writer.writerows(zip(*(map(_written, column.cells) for column in found), strict=True))
    return file.getvalue()


def as_parquet(found: Sequence[Column]) -> bytes:
    """One row group; what a trial has not is null."""
    from arro3.core import Array, DataType, Table  # noqa: PLC0415 (11 MB of library, for those who ask for this)
    from arro3.io import write_parquet  # noqa: PLC0415 (as above)

    types = {bool: DataType.bool(), int: DataType.int64(), float: DataType.float64(), str: DataType.string()}
    file = io.BytesIO()
    write_parquet(Table.from_pydict({each.name: Array(list(each.cells), types[each.type]) for each in found}), file)
    return file.getvalue()


def _facts(result: TrialResult, ranked: Ranked | None) -> dict[str, Cell]:
    began, ended = (
        None if each is None else each.astimezone(UTC).isoformat().replace("+00:00", "Z")
        for each in (result.started, result.finished)
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
        "started": began,
        "finished": ended,
        "seconds": seconds_of(result),
        "attempts": result.attempts,
    }


_TYPES: dict[str, Any] = {
    "number": int,
    "place": int,
    "epoch": int,
    "attempts": int,
    "objective": float,
    "seconds": float,
}
"""Of facts that may be missing in all trials."""


def _figures(ranked: Ranked | None) -> dict[str, Cell]:
    """The figures of the line that counts."""
    if ranked is None:
        return {}
    return {
        name: value
        for name, value in ranked.line.items()
        if isinstance(value, bool | int | float | str) and not of_test_data(name) and name != "epoch"
    }


def _column(name: str, cells: Sequence[Cell]) -> Column:
    """With one type for all cells: numbers of both kinds are written as floats, whatever else is mixed as text.

    A whole number of more than 64 bits, which a program may write to its metrics, makes its column text too.
    """
    there = {type(each) for each in cells if each is not None}
    if not there:
        return Column(name, _TYPES.get(name, str), tuple(cells))
    held = all(LEAST_WHOLE <= each <= GREATEST_WHOLE for each in cells if isinstance(each, int))
    if len(there) == 1 and held:
        (one,) = there
        return Column(name, one, tuple(cells))
    if there == {int, float} and held:
        return Column(name, float, tuple(None if each is None else float(each) for each in cells))
    return Column(name, str, tuple(None if each is None else _written(each) for each in cells))


def _written(cell: Cell) -> str:
    """As the files of a sweep have it."""
    if cell is None:
        return ""
    return cell if isinstance(cell, str) else json.dumps(cell)
