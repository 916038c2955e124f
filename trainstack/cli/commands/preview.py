import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Any

import typer

from trainstack.cli.engine import deployment, ensure_backend, preview_variables, read_preview
from trainstack.cli.ensure_tools import ensure_tools
from trainstack.cli.output.console import fail, out, step, write_json
from trainstack.cli.output.preview_format import preview_errors, preview_lines
from trainstack.cli.same_cluster import ensure_same_cluster
from trainstack.cli.session import JsonOption, Session, StackOption
from trainstack.errors import ExitCode
from trainstack.live.client import reach


def preview(
    *,
    stack: StackOption,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Compare with the live objects, as `trainstack up` does.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what `trainstack up` would change, without changing anything.

    Refuses what `up` would refuse. --json prints the output of `pulumi preview --json`.

    Examples:
      trainstack preview -s dev
      trainstack preview -s dev --refresh
      trainstack preview -s dev --json
    """
    session = Session.open(stack)
    ensure_backend(session)
    reach(session.settings.cluster.context)
    ensure_tools(session, kubectl=False, local_cluster=False)
    state = deployment(session)
    ensure_same_cluster(session, state)
    options = ("--refresh",) if refresh else ()
    output = _run_preview(session, *options, has_state=state is not None, as_json=as_json)
    if not as_json:
        _show(output)


def show_preview(session: Session, *options: str, has_state: bool) -> None:
    """Show what `up` with these options would change. Exits if it would be refused or would fail."""
    _show(_run_preview(session, *options, has_state=has_state))


def _run_preview(session: Session, *options: str, has_state: bool, as_json: bool = False) -> Mapping[str, Any]:
    context: AbstractContextManager[Mapping[str, str]] = nullcontext({}) if has_state else preview_variables(session)
    with step(f"pulumi preview -s {session.stack}", "15 s"), context as variables:
        text, stderr, code = read_preview(session, *options, variables=variables)
    if as_json:
        write_json(text)
    try:
        output: dict[str, Any] = json.loads(text)
    except ValueError:
        output = {}
    if code is not None:
        reasons = preview_errors(output) or stderr.strip() or text.strip()
        refusal_heading = "this change is refused:\n" if code == ExitCode.REFUSED else ""
        fail(f"{refusal_heading}{reasons}", code)
    return output


def _show(output: Mapping[str, Any]) -> None:
    for line in preview_lines(output):
        out.print(line, style="yellow" if line.startswith("note: ") else None)
