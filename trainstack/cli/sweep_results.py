"""`trainstack sweep results` and `sweep best`: what the trials were, what they reached, and which is the best."""

import math
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from trainstack.cli.console import WIDE, err, fail, out, show, show_json
from trainstack.cli.session import JsonOption, Session, StackOption
from trainstack.cli.sweep_read import SweepArgument, read_results, sweep_of
from trainstack.reports.sweep_export import as_csv, as_parquet, columns
from trainstack.reports.sweep_format import (
    best_in_words,
    compared_by,
    counted,
    head,
    parameters_of,
    rows,
    test_in_words,
)
from trainstack.settings.sections.sweeps import Sweep
from trainstack.sweeps.search.ranking import Ranking, on_test_data, rank, without_test
from trainstack.sweeps.search.results import TrialResult, to_json

_STYLES = {"succeeded": "green", "running": "cyan", "queued": "yellow", "failed": "red"}
_LINES = 10
"""Of what a failed trial printed last; `--json` and the report have more."""


def results(
    name: SweepArgument,
    stack: StackOption = "dev",
    *,
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a row for each trial as CSV.", dir_okay=False)
    ] = None,
    parquet: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the same as Parquet.", dir_okay=False)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Gather every trial's parameters and metrics, the best first; failed ones with what they printed last.

    --json has all epochs; the table and the files the one that counts. Figures of the test data (`test…`) are left
    out: trials are compared without them, and `sweep best` tells those of the best.

    Examples:

      trainstack sweep results digits-search -s dev

      trainstack sweep results digits-search -s dev --csv trials.csv --parquet trials.parquet

      trainstack sweep results digits-search -s dev --json
    """
    session = Session.open(stack)
    sweep = sweep_of(session, name)
    found = without_test(read_results(session, sweep))
    ranking = rank(found, sweep.space.objective)
    _write(sweep, ranking, csv, parquet)
    if as_json:
        show_json(finite(to_json(name, sweep.space.objective, found)))
        return
    _table(sweep, ranking)
    _say(counted(found), *ranking.notes())
    for each in found:
        if each.state == "failed":
            _failed(each)
    for file in filter(None, (csv, parquet)):
        err.print(f"written: {file}", markup=False)


def best(
    name: SweepArgument,
    stack: StackOption = "dev",
    *,
    top: Annotated[int, typer.Option(min=1, metavar="N", help="How many trials, the best first.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Name the best trial by the sweep's objective, and look at the test data for this one alone.

    Only trials that have succeeded count. Equal values are told, and which trials are not ranked and why.

    Examples:

      trainstack sweep best digits-search -s dev

      trainstack sweep best digits-search -s dev --top 5

      trainstack sweep best digits-search -s dev --json
    """
    session = Session.open(stack)
    sweep = sweep_of(session, name)
    ranking = rank(read_results(session, sweep), sweep.space.objective)
    if as_json:
        show_json(finite(best_as_data(sweep, ranking, top)))
    else:
        _show_best(sweep, ranking, top, stack)
    if ranking.best is None:
        whys = "; ".join(dict.fromkeys(each.why for each in ranking.unranked))
        fail(f"no trial of {name} can be ranked: {whys}")


def best_as_data(sweep: Sweep, ranking: Ranking, top: int) -> dict[str, Any]:
    """The best for programs: of the first its figures of the test data too."""
    return {
        "sweep": sweep.name,
        "objective": sweep.space.objective.model_dump(by_alias=True),
        "best": [
            {
                "place": each.place,
                "number": each.result.number,
                "set_id": each.result.set_id,
                "run_id": each.result.run_id,
                "parameters": each.result.parameters,
                "value": each.value,
                "epoch": each.epoch,
            }
            for each in ranking.ranked[:top]
        ],
        "test": on_test_data(ranking.best) if ranking.best else {},
        "notes": ranking.notes(),
        "unranked": [{"number": each.result.number, "why": each.why} for each in ranking.unranked],
    }


def finite(value: Any) -> Any:
    """The same, with null for what is no finite number, which JSON has no word for."""
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _write(sweep: Sweep, ranking: Ranking, csv: Path | None, parquet: Path | None) -> None:
    if csv is None and parquet is None:
        return
    found = columns(sweep.space, ranking)
    # All of them whole before the first is written.
    files = {
        **({csv: as_csv(found).encode()} if csv is not None else {}),
        **({parquet: as_parquet(found)} if parquet is not None else {}),
    }
    try:
        for file, content in files.items():
            file.write_bytes(content)
    except OSError as error:
        fail(f"cannot write {error.filename}: {error.strerror}")


def _show_best(sweep: Sweep, ranking: Ranking, top: int, stack: str) -> None:
    objective = sweep.space.objective
    if ranking.best is not None:
        _say(best_in_words(ranking.best, objective), test_in_words(ranking.best))
        for each in ranking.ranked[1:top]:
            value = f"{objective.metric} {each.value:.6g}"
            out.print(
                f"place {each.place}: trial {each.result.number} ({each.result.run_id}): {value}, with "
                f"{parameters_of(each.result.parameters)}",
                markup=False,
            )
        out.print(f"its record: trainstack fetch {ranking.best.result.run_id} -s {stack}", markup=False)
    _say(compared_by(objective), *ranking.notes(), dim=True)


def _table(sweep: Sweep, ranking: Ranking) -> None:
    names = head(sweep.space, sweep.space.objective)
    table = Table(box=None, pad_edge=False)
    for each in names:
        table.add_column(Text(each.upper()), justify="left" if each == "state" else "right", no_wrap=True)
    for row in rows(sweep.space, ranking):
        table.add_row(*map(Text, row[:-1]), Text(row[-1], style=_STYLES.get(row[-1], "")))
    show(table, width=WIDE)


def _failed(result: TrialResult) -> None:
    out.print(f"\ntrial {result.number} ({result.run_id}) failed: {result.reason}", style="red", markup=False)
    out.print(f"  with {parameters_of(result.parameters)}", markup=False)
    for line in result.last_lines[-_LINES:]:
        out.print(f"  | {line}", markup=False)


def _say(*sentences: str, dim: bool = False) -> None:
    for each in filter(None, sentences):
        out.print(f"{each[0].upper()}{each[1:]}.", style="dim" if dim else None, markup=False)
