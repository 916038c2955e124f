import math
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from trainstack.cli.output.console import (
    FILE_WIDTH,
    fail,
    make_table,
    make_text,
    out,
    print_with_prefix,
    show,
    show_json,
    show_written,
    write_files,
)
from trainstack.cli.session import JsonOption, Session, StackOption, file_option
from trainstack.cli.sweep_read import SweepArgument, read_results, sweep_of
from trainstack.reports.sweep_export import as_csv, as_parquet, result_columns
from trainstack.reports.sweep_format import (
    describe_best_trial,
    describe_ranking,
    describe_test_metrics,
    describe_trial_states,
    format_parameters,
    table_head,
    table_rows,
)
from trainstack.settings.sections.sweeps import Sweep
from trainstack.sweeps.search.ranking import Ranking, rank, read_test_metrics, without_test_data
from trainstack.sweeps.search.results import TrialResult, to_json

_STYLES = {"succeeded": "green", "running": "cyan", "queued": "yellow", "failed": "red"}
_LINES = 10
"""Last log lines of a failed trial; `--json` and the report have more."""


def results(
    name: SweepArgument,
    stack: StackOption,
    *,
    csv: Annotated[Path | None, file_option("Write a row per trial as CSV.")] = None,
    parquet: Annotated[Path | None, file_option("Write a row per trial as Parquet.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show all trials of a sweep with parameters and metrics, the best first, and the last log lines of failed ones.

    --json has the metrics of all epochs; the table and the files have the ranked epoch. Metrics of test data (`test…`)
    are omitted, since trials are compared without them; `sweep best` shows those of the best trial.

    Examples:
      trainstack sweep results digits-search -s dev
      trainstack sweep results digits-search -s dev --csv trials.csv --parquet trials.parquet
      trainstack sweep results digits-search -s dev --json
    """
    session = Session.open(stack)
    sweep = sweep_of(session, name)
    trial_results = without_test_data(read_results(session, sweep))
    ranking = rank(trial_results, sweep.space.objective)
    files: dict[Path, bytes] = {}
    if csv is not None or parquet is not None:
        export_columns = result_columns(sweep.space, ranking)
        files |= {csv: as_csv(export_columns).encode()} if csv is not None else {}
        files |= {parquet: as_parquet(export_columns)} if parquet is not None else {}
        write_files(files)
    if as_json:
        show_json(replace_non_finite(to_json(name, sweep.space.objective, trial_results)))
        return
    _show_table(sweep, ranking)
    _show_sentences(describe_trial_states(trial_results), *ranking.notes())
    for result in trial_results:
        if result.state == "failed":
            _show_failed(result)
    show_written(files)


def best(
    name: SweepArgument,
    stack: StackOption,
    *,
    top: Annotated[int, typer.Option(min=1, metavar="N", help="Number of trials, the best first.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Show the best trial by the sweep's objective, and its metrics of test data.

    Ranks succeeded trials only. Also lists ties, and unranked trials with the reason.

    Examples:
      trainstack sweep best digits-search -s dev
      trainstack sweep best digits-search -s dev --top 5
      trainstack sweep best digits-search -s dev --json
    """
    session = Session.open(stack)
    sweep = sweep_of(session, name)
    ranking = rank(read_results(session, sweep), sweep.space.objective)
    if as_json:
        show_json(replace_non_finite(best_as_data(sweep, ranking, top)))
    else:
        _show_best(sweep, ranking, top, stack)
    if ranking.best is None:
        reasons = "; ".join(dict.fromkeys(trial.reason for trial in ranking.unranked))
        fail(f"no trial of {name} can be ranked: {reasons}")


def best_as_data(sweep: Sweep, ranking: Ranking, top: int) -> dict[str, Any]:
    return {
        "sweep": sweep.name,
        "objective": sweep.space.objective.model_dump(by_alias=True),
        "best": [
            {
                "place": trial.place,
                "number": trial.result.number,
                "set_id": trial.result.set_id,
                "run_id": trial.result.run_id,
                "parameters": trial.result.parameters,
                "value": trial.value,
                "epoch": trial.epoch,
            }
            for trial in ranking.ranked[:top]
        ],
        "test": read_test_metrics(ranking.best) if ranking.best else {},
        "notes": ranking.notes(),
        "unranked": [{"number": trial.result.number, "why": trial.reason} for trial in ranking.unranked],
    }


def replace_non_finite(value: Any) -> Any:
    """Replace infinities and NaN, which JSON does not have, by null."""
    if isinstance(value, dict):
        return {key: replace_non_finite(element) for key, element in value.items()}
    if isinstance(value, list | tuple):
        return [replace_non_finite(element) for element in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _show_best(sweep: Sweep, ranking: Ranking, top: int, stack: str) -> None:
    objective = sweep.space.objective
    if ranking.best is not None:
        _show_sentences(describe_best_trial(ranking.best, objective), describe_test_metrics(ranking.best))
        for trial in ranking.ranked[1:top]:
            out.print(
                f"place {trial.place}: trial {trial.result.number} ({trial.result.run_id}): {objective.metric} "
                f"{trial.value:.6g}, with {format_parameters(trial.result.parameters)}"
            )
        out.print(f"its record: trainstack fetch {ranking.best.result.run_id} -s {stack}")
    _show_sentences(describe_ranking(objective), *ranking.notes(), dim=True)


def _show_table(sweep: Sweep, ranking: Ranking) -> None:
    names = table_head(sweep.space, sweep.space.objective)
    cells: list[tuple[str | Text, ...]] = [
        (*row[:-1], make_text(row[-1], _STYLES.get(row[-1], ""))) for row in table_rows(sweep.space, ranking)
    ]
    show(make_table(names, cells, right={*names} - {"state"}), width=FILE_WIDTH)


def _show_failed(result: TrialResult) -> None:
    out.print(f"\ntrial {result.number} ({result.run_id}) failed: {result.reason}", style="red")
    out.print(f"  with {format_parameters(result.parameters)}")
    for line in result.last_lines[-_LINES:]:
        print_with_prefix("  | ", line)


def _show_sentences(*sentences: str, dim: bool = False) -> None:
    for sentence in filter(None, sentences):
        out.print(f"{sentence[0].upper()}{sentence[1:]}.", style="dim" if dim else None)
