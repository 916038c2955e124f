"""`trainstack check`: what is wrong with an environment, from its files and, if asked, on its cluster."""

from typing import Annotated

import typer

from trainstack.cli.console import err, out, show_json
from trainstack.cli.session import JsonOption, Session, StackOption, checkout
from trainstack.declared.declared import Declared
from trainstack.kueue.format import as_data, lines
from trainstack.preflight.finding import Checked
from trainstack.preflight.preflight import examine, unloaded
from trainstack.settings.errors import SettingsError
from trainstack.settings.loading.load import load_with_places

_STYLES = {"error": "red", "warning": "yellow", "unknown": "dim"}


def check(
    *,
    stack: StackOption = "dev",
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Hold it against its cluster too, which is only read.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Tell everything that is wrong with an environment, and whether each run will ever be admitted; fail on an error.

    From its files alone, and with --cluster also from what its cluster has: kinds, operators, classes, queues, nodes,
    and who uses the quota now.

    Examples:

      trainstack check -s dev

      trainstack check -s dev --cluster

      trainstack check -s dev --json
    """
    checked = _checked(stack, cluster=cluster)
    errors = sum(finding.stops for finding in checked.findings)
    if as_json:
        verdicts = [as_data(verdict) for verdict in checked.verdicts]
        show_json({"findings": [finding.as_data() for finding in checked.findings], "verdicts": verdicts})
    else:
        _show(stack, checked)
    if errors:
        raise typer.Exit(1)


def _show(stack: str, checked: Checked) -> None:
    shown = [finding for finding in checked.findings if not finding.silenced]
    for finding in shown:
        out.print(str(finding), style=_STYLES[finding.severity], markup=False)
    for line in lines(checked.verdicts):
        out.print(line, markup=False)
    errors, silenced = sum(finding.stops for finding in shown), len(checked.findings) - len(shown)
    counts = f"{_counted(errors, 'error')}, {_counted(len(shown) - errors, 'other finding')}"
    err.print(f"{stack}: {counts if shown else 'no findings'}{f', {silenced} silenced' if silenced else ''}")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _checked(stack: str, *, cluster: bool) -> Checked:
    """What the rules find, or why the files do not load, and the verdicts on the runs."""
    root = checkout()
    try:
        loaded = load_with_places(root, stack)
    except SettingsError as error:
        return unloaded(error)
    found = examine(Declared(loaded.settings), root, loaded.places)
    if not cluster:
        return found
    from trainstack.cli.check_cluster import with_cluster  # noqa: PLC0415 (the client takes as long to load as all the rest)

    return with_cluster(found, Session.open(stack), loaded)
