from pathlib import Path
from typing import Annotated

import typer

from trainstack.cli.output.console import err, fail, out, show_json, step, write_files
from trainstack.cli.session import JsonOption, Session, StackOption
from trainstack.cli.sweep_read import SweepArgument, read_results, sweep_of
from trainstack.files.project import output_file, project_file
from trainstack.settings.sections.sweeps import Sweep
from trainstack.sweeps.search.importance import importance
from trainstack.sweeps.search.ranking import rank
from trainstack.sweeps.search.results import TrialResult

PAGE = "report.html"


def report(
    name: SweepArgument,
    stack: StackOption,
    *,
    to: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The folder to write to (default: results/NAME/).", file_okay=False),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a report of a sweep: report.html, which needs no network, and its charts as PNGs.

    Contains learning curves, parallel coordinates, the objective by parameter, the importance of parameters, the best
    trial, all trials, and the last log lines of failed ones.

    Examples:
      trainstack sweep report digits-search -s dev
      trainstack sweep report digits-search -s dev --to /tmp/report
    """
    session = Session.open(stack)
    sweep = sweep_of(session, name)
    trial_results = read_results(session, sweep)
    with step("drawing", "3 s"):
        contents_by_name = _draw(sweep, trial_results)
    try:
        files = {_report_path(session, name, to, file): content for file, content in contents_by_name.items()}
        for file in files:
            file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"cannot write {error.filename}: {error.strerror}; name another folder with --to")
    write_files(files)
    if as_json:
        show_json({"sweep": name, "files": list(map(str, files))})
        return
    for file in files:
        out.print(str(file))
    if len(files) == 1:
        err.print("no trial has reported metrics that can be drawn yet", style="yellow")


def _report_path(session: Session, name: str, to: Path | None, file: str) -> Path:
    """Return the place of a file of the report. Raises FileError if a link leads out of the project."""
    return project_file(session.root, session.results / name / file) if to is None else output_file(to / file)


def _draw(sweep: Sweep, results: tuple[TrialResult, ...]) -> dict[str, bytes]:
    from trainstack.reports import sweep_page  # noqa: PLC0415 (matplotlib takes a second to load)

    ranking = rank(results, sweep.space.objective)
    page_sweep = sweep_page.SweepResults(
        name=sweep.name,
        space=sweep.space,
        results=results,
        ranking=ranking,
        importance=importance(sweep.space, ranking),
    )
    return {PAGE: sweep_page.html(page_sweep).encode(), **sweep_page.pngs(page_sweep)}
