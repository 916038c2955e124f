"""`trainstack sweep next`: the sets to try next, written into the space for review."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from trainstack.cli.console import err, fail, out, show_json
from trainstack.cli.session import JsonOption, Session, StackOption, checkout
from trainstack.cli.sweep_expand import expand_all, sets_of, write
from trainstack.cli.sweep_read import SweepArgument, read_results, sweep_of
from trainstack.onboarding.editing import Entry, with_added
from trainstack.settings.errors import SettingsError
from trainstack.settings.loading.files import read_text
from trainstack.settings.loading.templates import format_value
from trainstack.settings.search_space.hyperparams import SPACE_FILE, ParameterSet, folder
from trainstack.settings.search_space.spaces import LoadedSpace, load_space
from trainstack.sweeps.search.expand import SpaceError
from trainstack.sweeps.search.results import TrialResult, from_json


def next_sets(
    name: SweepArgument,
    stack: StackOption = "dev",
    *,
    results: Annotated[
        Path | None,
        typer.Option(
            "--results",
            metavar="FILE",
            help="What `trainstack sweep results NAME --json` printed, -: stdin; without it the results are read from "
            "the environment.",
        ),
    ] = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=100, help="How many sets.")] = 4,
    as_json: JsonOption = False,
) -> None:
    """Propose the next sets of a sweep from its results, and add them to its space and to hyperparams.yml.

    Nothing is launched: look at the change, commit it, and `up` launches the new trials. Proposals come of Optuna's
    tree-structured Parzen estimator; before ten trials have a result they are drawn at random.

    Examples:

      trainstack sweep next digits-search -s dev --count 8

      trainstack sweep next digits-search --results results.json
    """
    root = checkout()
    try:
        loaded = load_space(root, name)
    except SettingsError as error:
        fail(str(error))
    told = _live(stack, name) if results is None else _written(results, name)
    added = add_next(root, name, loaded, told, count)
    if as_json:
        show_json([each.model_dump(by_alias=True) for each in added])
        return
    for each in added:
        values = ", ".join(f"{key} {format_value(value)}" for key, value in each.parameters.items())
        out.print(f"{each.number}  {each.id}  {values}", markup=False)
    err.print(f"{len(added)} sets added to {folder(name)}: look at them, commit, and `up` launches them")


def _live(stack: str, name: str) -> Sequence[TrialResult]:
    session = Session.open(stack)
    return read_results(session, sweep_of(session, name))


def _written(file: Path, name: str) -> Sequence[TrialResult]:
    try:
        return from_json(sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8"), name)
    except OSError as error:
        return fail(f"{file}: {error.strerror or error}; give what `trainstack sweep results {name} --json` prints")
    except ValueError as error:
        return fail(f"{file}: {error}; give what `trainstack sweep results {name} --json` prints")


def add_next(
    root: Path, name: str, loaded: LoadedSpace, results: Sequence[TrialResult], count: int
) -> tuple[ParameterSet, ...]:
    """Add so many proposals to the space's file and expand it anew; ends the command where there are not so many."""
    from trainstack.sweeps.search.propose import propose  # noqa: PLC0415 (Optuna takes a moment)

    before = sets_of(loaded)
    try:
        proposed = propose(loaded.space, before, results, count)
    except SpaceError as error:
        fail(f"{loaded.where(error.path)}: {error}")
    file = root / folder(name) / SPACE_FILE
    entries = [Entry(("sets",), each) for each in proposed]
    write(file, with_added(read_text(file), entries))
    expand_all(root, (name,))
    known = {each.id for each in before}
    return tuple(each for each in sets_of(load_space(root, name)) if each.id not in known)
