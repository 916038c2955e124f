from dataclasses import replace
from typing import Annotated

import typer

from trainstack.cli.output.console import err, out, show_json
from trainstack.cli.releases import as_finding, downloads
from trainstack.cli.session import JsonOption, Session, StackOption, checkout
from trainstack.declared.declared import Declared
from trainstack.errors import ExitCode
from trainstack.kueue.format import as_data, lines
from trainstack.preflight.against_cluster import CLUSTER_UNREACHABLE
from trainstack.preflight.finding import Checked
from trainstack.preflight.preflight import examine, unloaded
from trainstack.settings.errors import SettingsError
from trainstack.settings.loading.load import load_with_places

_STYLES = {"error": "red", "warning": "yellow", "unknown": "dim"}


def check(
    *,
    stack: StackOption,
    cluster: Annotated[bool, typer.Option("--cluster", help="Also check the cluster, which is only read.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check an environment, and whether each of its runs can be admitted; exit with 4 if there is an error.

    Reads the files, and downloads the operators' releases that they name by address. With --cluster, also reads the
    cluster: kinds, operators, classes, queues, nodes and the current use of quota.

    Examples:
      trainstack check -s dev
      trainstack check -s dev --cluster
      trainstack check -s dev --json
    """
    checked = _check(stack, cluster=cluster)
    if as_json:
        verdicts = [as_data(verdict) for verdict in checked.verdicts]
        show_json({"findings": [finding.as_data() for finding in checked.findings], "verdicts": verdicts})
    else:
        _show(stack, checked)
    stopping = {finding.id for finding in checked.findings if finding.stops}
    if stopping:
        raise typer.Exit(ExitCode.UNREACHABLE if CLUSTER_UNREACHABLE.id in stopping else ExitCode.FINDINGS)


def _show(stack: str, checked: Checked) -> None:
    reported = [finding for finding in checked.findings if not finding.silenced]
    for finding in reported:
        out.print(str(finding), style=_STYLES[finding.severity])
    for line in lines(checked.verdicts):
        out.print(line)
    errors, silenced = sum(finding.stops for finding in reported), len(checked.findings) - len(reported)
    counts = f"{_counted(errors, 'error')}, {_counted(len(reported) - errors, 'other finding')}"
    err.print(f"{stack}: {counts if reported else 'no findings'}{f', {silenced} silenced' if silenced else ''}")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _check(stack: str, *, cluster: bool) -> Checked:
    root = checkout()
    try:
        loaded = load_with_places(root, stack)
    except SettingsError as error:
        return unloaded(error)
    settings, errors = downloads(loaded.settings)
    loaded = replace(loaded, settings=settings)
    found = examine(Declared(settings), root, loaded.places)
    undownloaded = [as_finding(error, loaded) for error in errors.values()]
    found = Checked(sorted([*found.findings, *undownloaded], key=lambda finding: finding.order), found.verdicts)
    if not cluster:
        return found
    from trainstack.cli.check_cluster import with_cluster  # noqa: PLC0415 (the cluster client is slow to load)

    return with_cluster(found, Session.open(stack), loaded)
