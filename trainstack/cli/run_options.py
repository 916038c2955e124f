"""Arguments and options of the commands that follow or show runs."""

from typing import Annotated

import typer

from trainstack.cli.output.console import fail
from trainstack.errors import ExitCode

_RUN = "A run id or a prefix of one, a workload, an object, or a trial such as search-3"

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help=f"{_RUN}.")]

OptionalRun = Annotated[str | None, typer.Argument(metavar="[RUN]", help=f"{_RUN} (default: all runs).")]

WatchOption = Annotated[bool, typer.Option("--watch", "-w", help="Keep watching until all runs have ended.")]


def ensure_one_output(*, watch: bool, as_json: bool) -> None:
    if watch and as_json:
        fail("--watch and --json cannot be combined; omit one of them", ExitCode.USAGE)
