from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from trainstack.cli.output.console import err, fail, out, show_json, step
from trainstack.cli.session import JsonOption, checkout
from trainstack.errors import ExitCode
from trainstack.files.project import ProjectEdit, edit_project
from trainstack.settings.errors import SettingsError
from trainstack.settings.loading.sweep_files import LoadedSpace, list_sweeps, load_space, read_sets
from trainstack.settings.search_space.hyperparams import SETS_FILE, format_sets, sweep_folder
from trainstack.settings.search_space.space import ParameterSet
from trainstack.sweeps.search.expand import SpaceError
from trainstack.sweeps.search.expand import expand as expand_space

_SETS_PER_SECOND = 500
"""Approximate rate of drawing; longer draws are reported as a step."""


def expand(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Sweeps (default: all).")] = None,
    *,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail if a file is not current.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write the parameter sets of search spaces: sweeps/NAME/space.yaml to sweeps/NAME/hyperparams.yml.

    The result is the same on every machine.

    Examples:
      trainstack sweep expand digits-search
      trainstack sweep expand digits-search --json
      trainstack sweep expand --check
    """
    root = checkout()
    with nullcontext() if check else edit_project(root) as edit:
        expansions = expand_sweeps(root, names or list_sweeps(root), edit)
    if as_json:
        show_json(expansions)
    else:
        for expansion in expansions:
            out.print(_describe_expansion(expansion))
        if not expansions:
            err.print(f"no {sweep_folder('<name>')}/space.yaml in this checkout: nothing to expand")
    stale_sweeps = [expansion["sweep"] for expansion in expansions if not expansion["current"]]
    if check and stale_sweeps:
        command = f"trainstack sweep expand {' '.join(stale_sweeps)}"
        fail(f"not current: {', '.join(stale_sweeps)}; run `{command}`", ExitCode.FINDINGS)


def expand_sweeps(root: Path, names: Iterable[str], edit: ProjectEdit | None) -> list[dict[str, Any]]:
    """Expand sweeps, write the files with `edit`, and return the changes.

    If a space has errors, exit with all of them before writing a file.
    """
    texts: dict[str, str] = {}
    expansions: list[dict[str, Any]] = []
    faults: list[str] = []
    for name in dict.fromkeys(names):
        try:
            loaded_space = load_space(root, name)
            sets = draw_sets(loaded_space)
        except (SettingsError, SpaceError) as error:
            faults.append(str(error))
            continue
        text = format_sets(name, loaded_space.space, sets)
        expansions.append(_expansion(root, name, text, sets))
        if not expansions[-1]["current"]:
            texts[expansions[-1]["file"]] = text
    if faults:
        fail("\n".join(faults))
    if edit is not None:
        edit.write(texts)
    return expansions


def _expansion(root: Path, name: str, text: str, sets: tuple[ParameterSet, ...]) -> dict[str, Any]:
    old_sets, old_text = read_sets(root, name, [])
    old_ids = {parameter_set.id for parameter_set in old_sets.sets} if old_sets else set()
    ids = [parameter_set.id for parameter_set in sets]
    return {
        "sweep": name,
        "file": f"{sweep_folder(name)}/{SETS_FILE}",
        "sets": [parameter_set.model_dump(by_alias=True) for parameter_set in sets],
        "new": [id_ for id_ in ids if id_ not in old_ids],
        "gone": sorted(old_ids.difference(ids)),
        "current": text == old_text,
    }


def draw_sets(loaded_space: LoadedSpace) -> tuple[ParameterSet, ...]:
    """Return the sets of a space. Raises SpaceError with file and line if it does not have as many as it requires."""
    trials = loaded_space.space.trials or 0
    expected = f"{trials // _SETS_PER_SECOND + 1} s"
    with (
        locate_space_errors(loaded_space),
        step(f"drawing {trials} sets", expected) if trials > _SETS_PER_SECOND else nullcontext(),
    ):
        return expand_space(loaded_space.space)


@contextmanager
def locate_space_errors(loaded_space: LoadedSpace) -> Iterator[None]:
    """Add the file and line to a SpaceError."""
    try:
        yield
    except SpaceError as error:
        raise SpaceError(error.path, f"{loaded_space.place_of(error.path)}: {error}") from None


def _describe_expansion(expansion: dict[str, Any]) -> str:
    new_count, removed_count = len(expansion["new"]), len(expansion["gone"])
    changes = ", ".join([f"{new_count} new"] * bool(new_count) + [f"{removed_count} removed"] * bool(removed_count))
    state = "current" if expansion["current"] else changes or "same sets, different order or format"
    return f"{expansion['file']}: {len(expansion['sets'])} sets ({state})"
