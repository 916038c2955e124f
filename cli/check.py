"""`trainstack check`: what is wrong with an environment, before anything is touched."""

from collections.abc import Sequence
from dataclasses import asdict

import typer

from checks.finding import Finding
from checks.preflight import check as preflight
from cli.console import err, out, show_json
from cli.session import JsonOption, StackOption, checkout
from settings.errors import SettingsError
from settings.load import load_with_places

_STYLES = {"error": "red", "warning": "yellow", "unknown": "dim"}


def check(*, stack: StackOption = "dev", as_json: JsonOption = False) -> None:
    """Tell everything that is wrong with an environment from its files alone; fail when there is an error.

    Examples:

      trainstack check -s dev

      trainstack check -s dev --json
    """
    findings = _findings(stack)
    errors = sum(finding.severity == "error" for finding in findings)
    if as_json:
        show_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            out.print(str(finding), style=_STYLES[finding.severity], markup=False)
        others = len(findings) - errors
        err.print(f"{stack}: {errors} errors, {others} other findings" if findings else f"{stack}: nothing found")
    if errors:
        raise typer.Exit(1)


def _findings(stack: str) -> Sequence[Finding]:
    """What the rules find, or why the files do not load."""
    root = checkout()
    try:
        loaded = load_with_places(root, stack)
    except SettingsError as error:
        return [
            Finding("settings", "error", each.path, each.message, each.remedy, each.where) for each in error.findings
        ]
    return preflight(loaded.settings, root, loaded.places)
