"""`trainstack sweep report`: a sweep as one page and its pictures."""

from pathlib import Path
from typing import Annotated

import typer

from trainstack.cli.console import err, fail, out, show_json, step
from trainstack.cli.session import JsonOption, Session, StackOption
from trainstack.cli.sweep_read import SweepArgument, read_results, sweep_of
from trainstack.settings.sections.sweeps import Sweep
from trainstack.sweeps.search.importance import importance
from trainstack.sweeps.search.ranking import rank
from trainstack.sweeps.search.results import TrialResult

PAGE = "report.html"


def report(
    name: SweepArgument,
    stack: StackOption = "dev",
    *,
    to: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The folder to write to; by default results/NAME/.", file_okay=False),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write report.html, one page that needs no network, and its pictures as PNGs.

    Learning curves, parallel coordinates, the objective against each parameter, and which parameters matter; the best
    trial, all trials, and what the failed ones printed last.

    Examples:

      trainstack sweep report digits-search -s dev

      trainstack sweep report digits-search -s dev --to /tmp/report
    """
    session = Session.open(stack)
    sweep = sweep_of(session, name)
    found = read_results(session, sweep)
    folder = to if to is not None else session.results / name
    with step("drawing", "3 s"):
        files = drawn(sweep, found)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, content in files.items():
            (folder / file).write_bytes(content)
    except OSError as error:
        fail(f"cannot write {error.filename}: {error.strerror}")
    if as_json:
        show_json({"sweep": name, "files": [str(folder / file) for file in files]})
        return
    for file in files:
        out.print(str(folder / file), markup=False)
    if len(files) == 1:
        err.print("no trial has told anything that could be drawn yet", style="yellow")


def drawn(sweep: Sweep, results: tuple[TrialResult, ...]) -> dict[str, bytes]:
    """The page and the pictures, by the names of their files."""
    from trainstack.reports import sweep_page  # noqa: PLC0415 (matplotlib takes a second to load, which no other command should)

    ranking = rank(results, sweep.space.objective)
    reported = sweep_page.Sweep(
        name=sweep.name,
        space=sweep.space,
        results=results,
        ranking=ranking,
        importance=importance(sweep.space, ranking),
    )
    return {PAGE: sweep_page.html(reported).encode(), **sweep_page.pngs(reported)}
