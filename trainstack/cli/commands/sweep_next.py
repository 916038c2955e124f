import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from trainstack.cli.commands.sweep_expand import draw_sets, expand_sweeps, locate_space_errors
from trainstack.cli.output.console import err, fail, out, show_json
from trainstack.cli.session import JsonOption, Session, StackOption, checkout
from trainstack.cli.sweep_read import SweepArgument, read_results, sweep_of
from trainstack.errors import TrainstackError
from trainstack.files.project import ProjectEdit, edit_project
from trainstack.onboarding.yaml_additions import FileAddition, add_entries
from trainstack.settings.loading.sweep_files import load_space
from trainstack.settings.search_space.hyperparams import SPACE_FILE, sweep_folder
from trainstack.settings.search_space.space import ParameterSet
from trainstack.settings.search_space.templates import format_value
from trainstack.sweeps.search.results import TrialResult, from_json


def next_sets(
    name: SweepArgument,
    stack: StackOption,
    *,
    results: Annotated[
        Path | None,
        typer.Option(
            "--results",
            metavar="FILE",
            help="Output of `trainstack sweep results NAME --json`, -: stdin (default: read from the environment).",
        ),
    ] = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=100, help="Number of sets.")] = 4,
    as_json: JsonOption = False,
) -> None:
    """Propose the next parameter sets from a sweep's results; add them to its space and hyperparams.yml.

    Launches nothing: review and commit the change, then `up` launches the new trials. Uses Optuna's tree-structured
    Parzen estimator, and random sets before ten trials have a result.

    Examples:
      trainstack sweep next digits-search -s dev --count 8
      trainstack sweep next digits-search --results results.json
    """
    root = checkout()
    load_space(root, name)
    trial_results = _read_live_results(stack, name) if results is None else _read_results_file(results, name)
    with edit_project(root) as edit:
        added_sets = add_proposed_sets(root, name, trial_results, count, edit)
    if as_json:
        show_json([parameter_set.model_dump(by_alias=True) for parameter_set in added_sets])
        return
    for parameter_set in added_sets:
        values = ", ".join(f"{key} {format_value(value)}" for key, value in parameter_set.parameters.items())
        out.print(f"{parameter_set.number}  {parameter_set.id}  {values}")
    err.print(f"{len(added_sets)} sets added to {sweep_folder(name)}: review and commit them, then `up` launches them")


def _read_live_results(stack: str, name: str) -> Sequence[TrialResult]:
    session = Session.open(stack)
    return read_results(session, sweep_of(session, name))


def _read_results_file(file: Path, name: str) -> Sequence[TrialResult]:
    try:
        return from_json(sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8"), name)
    except (OSError, UnicodeDecodeError, TrainstackError) as error:
        reason = getattr(error, "strerror", None) or error
        return fail(f"{file}: {reason}; give the output of `trainstack sweep results {name} --json`")


def add_proposed_sets(
    root: Path, name: str, results: Sequence[TrialResult], count: int, edit: ProjectEdit
) -> tuple[ParameterSet, ...]:
    """Add proposals to the space's file and expand it again. Raises SpaceError if the space has fewer sets left."""
    from trainstack.sweeps.search.propose import propose  # noqa: PLC0415 (Optuna is slow to load)

    file = f"{sweep_folder(name)}/{SPACE_FILE}"
    text = edit.read(file) or ""
    loaded_space = load_space(root, name)
    old_sets = draw_sets(loaded_space)
    with locate_space_errors(loaded_space):
        proposals = propose(loaded_space.space, old_sets, results, count)
    edit.write({file: add_entries(text, [FileAddition(("sets",), values) for values in proposals])})
    expand_sweeps(root, (name,), edit)
    old_ids = {parameter_set.id for parameter_set in old_sets}
    return tuple(
        parameter_set for parameter_set in draw_sets(load_space(root, name)) if parameter_set.id not in old_ids
    )
