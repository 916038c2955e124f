"""`trainstack sweep expand`: the sets of a space, as the file that is committed."""

from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from trainstack.cli.console import err, fail, out, show_json, step
from trainstack.cli.session import JsonOption, checkout
from trainstack.settings.errors import SettingsError
from trainstack.settings.search_space.hyperparams import SETS_FILE, folder, text_of
from trainstack.settings.search_space.space import ParameterSet, Space
from trainstack.settings.search_space.spaces import LoadedSpace, load_space, read_sets, sweeps
from trainstack.sweeps.search.expand import SpaceError
from trainstack.sweeps.search.expand import expand as expanded

_A_SECOND = 500
"""Sets that are drawn in about so much time; of more it is said that they are."""


def expand(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Sweeps; none: all.")] = None,
    *,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail where a file is not current.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make sweeps/NAME/hyperparams.yml of sweeps/NAME/space.yaml: the same on every machine.

    Examples:

      trainstack sweep expand digits-search

      trainstack sweep expand digits-search --json

      trainstack sweep expand --check
    """
    root = checkout()
    told = expand_all(root, names or sweeps(root), check=check)
    if as_json:
        show_json(told)
    else:
        for each in told:
            out.print(_line(each), markup=False)
        if not told:
            err.print(f"no {folder('<name>')}/space.yaml here: nothing to expand")
    stale = [each["sweep"] for each in told if not each["current"]]
    if check and stale:
        fail(f"not current: {', '.join(stale)}; run `trainstack sweep expand {' '.join(stale)}`")


def expand_all(root: Path, names: Iterable[str], *, check: bool = False) -> list[dict[str, Any]]:
    """Expand sweeps, and tell what that changes.

    Ends the command where a space is wrong, with the faults of all of them and before a file is written.
    """
    made: dict[str, tuple[Space, tuple[ParameterSet, ...]]] = {}
    faults: list[str] = []
    for name in dict.fromkeys(names):
        try:
            loaded = load_space(root, name)
            made[name] = loaded.space, _drawn(loaded)
        except (SettingsError, _DrawError) as error:
            faults.append(str(error))
    if faults:
        fail("\n".join(faults))
    return [_expanded(root, name, space, sets, check=check) for name, (space, sets) in made.items()]


def _expanded(root: Path, name: str, space: Space, sets: tuple[ParameterSet, ...], *, check: bool) -> dict[str, Any]:
    text = text_of(name, space, sets)
    before, text_before = read_sets(root, name, [])
    if text != text_before and not check:
        write(root / folder(name) / SETS_FILE, text)
    known = {each.id for each in before.sets} if before else set()
    ids = {each.id for each in sets}
    return {
        "sweep": name,
        "file": f"{folder(name)}/{SETS_FILE}",
        "sets": [each.model_dump(by_alias=True) for each in sets],
        "new": [each.id for each in sets if each.id not in known],
        "gone": sorted(known - ids),
        "current": text == text_before,
    }


def write(file: Path, text: str) -> None:
    """Write a file that is there whole, or as it was."""
    partial = file.with_name(f".{file.name}.partial")
    partial.write_text(text, encoding="utf-8", newline="")
    partial.replace(file)


def sets_of(loaded: LoadedSpace) -> tuple[ParameterSet, ...]:
    """The sets of a space; ends the command, with file and line, where it does not have those that it asks for."""
    try:
        return _drawn(loaded)
    except _DrawError as error:
        return fail(str(error))


class _DrawError(Exception):
    """A space that does not have the sets that it asks for, with file and line."""


def _drawn(loaded: LoadedSpace) -> tuple[ParameterSet, ...]:
    drawn = loaded.space.trials or 0
    told = step(f"drawing {drawn} sets", f"{drawn // _A_SECOND + 1} s") if drawn > _A_SECOND else nullcontext()
    try:
        with told:
            return expanded(loaded.space)
    except SpaceError as error:
        raise _DrawError(f"{loaded.where(error.path)}: {error}") from None


def _line(told: dict[str, Any]) -> str:
    new, gone = len(told["new"]), len(told["gone"])
    changed = ", ".join([f"{new} new"] * bool(new) + [f"{gone} gone"] * bool(gone))
    state = "current" if told["current"] else changed or "the same sets, in another order or form"
    return f"{told['file']}: {len(told['sets'])} sets ({state})"
