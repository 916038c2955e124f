import sys
from pathlib import Path
from typing import Annotated

import typer

from trainstack.cli.console import fail, out, show_json
from trainstack.cli.session import JsonOption, StackOption, checkout
from trainstack.platform.operators.release import ReleaseError
from trainstack.review.declared import as_yaml, declared
from trainstack.settings.loading.load import explain as explain_settings
from trainstack.stacks.plan_change import commit


def render(
    *,
    stack: StackOption,
    root: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Read the files of another checkout, without running any of its code."),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show the file and line that set each value.")] = False,
    without_releases: Annotated[
        bool, typer.Option("--without-releases", help="Leave out the objects of the operators' releases.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Print the objects that an environment declares, in the order of their creation.

    Needs neither the engine nor a cluster.

    Examples:
      trainstack render -s dev
      trainstack render -s dev --explain
      trainstack render -s dev --root ../other-checkout --without-releases
    """
    folder = root if root is not None else checkout()
    try:
        if explain:
            _explain(folder, stack, as_json=as_json)
            return
        objects = declared(folder, stack, commit=commit(folder), releases=not without_releases, cached=root is None)
    except ReleaseError as error:
        fail(f"{error}. Or leave the releases out: --without-releases")
    if as_json:
        show_json(objects)
    else:
        sys.stdout.write(as_yaml(objects))


def _explain(folder: Path, stack: str, *, as_json: bool) -> None:
    values = explain_settings(folder, stack)
    if as_json:
        show_json([{"path": path, "value": value, "file": at.file, "line": at.line} for path, value, at in values])
        return
    for path, value, at in values:
        out.print(f"{path} = {value!r}  ({at})")
