import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from trainstack.cli.console import err, fail, out, step
from trainstack.cli.engine import export, initialize, read_preview
from trainstack.cli.preview_format import errors, lines
from trainstack.cli.same_cluster import ensure_same_cluster
from trainstack.cli.session import JsonOption, Session, StackOption
from trainstack.dev.toolchain import tools
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
    reach(session.settings.cluster.context)
    tools.ensure(tools.needed_groups(local_cluster=False))
    ensure_same_cluster(session)
    output = _read(session, refresh=refresh, as_json=as_json)
    if not as_json:
        _show(output)


def show_preview(session: Session) -> None:
    """Show what `up` would change. Exits if it would be refused or would fail."""
    _show(_read(session, refresh=True))


def _read(session: Session, *, refresh: bool, as_json: bool = False) -> Mapping[str, Any]:
    options = ("--refresh",) if refresh else ()
    with step(f"pulumi preview -s {session.stack}", "15 s"), _stack_to_preview(session) as variables:
        text, stderr, code = read_preview(session, *options, variables=variables)
    if as_json:
        sys.stdout.write(text)
    try:
        output: dict[str, Any] = json.loads(text)
    except ValueError:
        output = {}
    if code is not None:
        reasons = errors(output) or stderr.strip() or text.strip()
        refused = "this change is refused:\n" if code == ExitCode.REFUSED else ""
        fail(f"{refused}{reasons}", code)
    return output


def _show(output: Mapping[str, Any]) -> None:
    for line in lines(output):
        out.print(line, style="yellow" if line.startswith("note: ") else None)


@contextmanager
def _stack_to_preview(session: Session) -> Iterator[Mapping[str, str]]:
    """Yield the variables with which the engine finds the stack: a temporary one if it has no state."""
    if export(session) is not None:
        yield {}
        return
    err.print(f"  {session.stack} has no state yet: the preview uses a temporary one")
    file = session.root / f"Pulumi.{session.stack}.yaml"
    before = file.read_bytes()
    with tempfile.TemporaryDirectory(prefix="trainstack-") as folder:
        variables = {"PULUMI_BACKEND_URL": Path(folder).as_uri()}
        try:
            initialize(session, variables)
            yield variables
        finally:
            # The engine adds the salt of the passphrase.
            if file.read_bytes() != before:
                file.write_bytes(before)
