"""The command `trainstack`: everything that people do with an environment day by day."""

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from io import TextIOWrapper
from typing import Any

import typer
from typer.core import TyperGroup

from trainstack.cli.console import fail
from trainstack.cli.foreseen import foreseen

_WHERE: Mapping[str, str] = {
    "up": "deploy",
    "destroy": "deploy",
    "teardown": "teardown",
    "env": "deploy",
    "doctor": "doctor",
    "check": "check",
    "explain": "explain",
    "plan": "plan",
    "render": "render",
    "rights": "rights",
    "image": "image",
    "pin": "pin",
    "status": "status",
    "wait": "runs",
    "logs": "logs",
    "events": "events",
    "upload": "files",
    "ls": "files",
    "fetch": "files",
    "compare": "compare",
    "add-team": "teams",
    "adopt": "adopt",
    "review": "review",
    "sweep": "sweep",
    "cluster": "cluster",
    "dev": "dev",
}
"""The modules of the commands, in the order in which the help has them."""


class _Loaded(Mapping[str, Any]):
    """The commands, each loaded when it is called: none waits for what another one needs."""

    def __getitem__(self, name: str) -> Any:
        """A function of its module, or the module's own commands."""
        return _loaded(name)

    def __iter__(self) -> Iterator[str]:
        """Their names."""
        return iter(_WHERE)

    def __len__(self) -> int:
        """How many there are."""
        return len(_WHERE)


@cache
def _loaded(name: str) -> Any:
    module = import_module(f"trainstack.cli.{_WHERE[name]}")
    alone = typer.Typer(add_completion=False)
    if hasattr(module, "app"):
        alone.add_typer(module.app, name=name)
    else:
        alone.command(name)(getattr(module, name.replace("-", "_")))
    return typer.main.get_group(alone).commands[name]


class _Commands(TyperGroup):
    def __init__(self, **given: Any) -> None:
        super().__init__(**{**given, "commands": _Loaded()})

    def invoke(self, ctx: Any) -> Any:
        """Run the command; a failure that is foreseen ends it with one message, whichever command it is."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            told = foreseen(error)
            if told is None:
                raise
            return fail(told)


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Training infrastructure as code: storage, queues, operators and training runs on Kubernetes.",
)


@app.callback()
def trainstack() -> None:
    """Training infrastructure as code: storage, queues, operators and training runs on Kubernetes."""


def main() -> None:
    """Run it."""
    # A name on the command line, or of a file, may hold bytes that are no text.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app()
