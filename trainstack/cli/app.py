"""The command `trainstack`."""

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from inspect import cleandoc
from io import TextIOWrapper
from typing import Any

import typer
from typer.core import TyperGroup

from trainstack.cli.console import fail
from trainstack.cli.expected_errors import expected_message

_MODULES: Mapping[str, str] = {
    "up": "deploy",
    "destroy": "deploy",
    "teardown": "teardown",
    "env": "env",
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
"""The module of each command, in the order of the help."""


class _Lazy(Mapping[str, Any]):
    """The commands; a command's module is imported when the command is looked up."""

    def __getitem__(self, name: str) -> Any:
        return _load(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


@cache
def _load(name: str) -> Any:
    module = import_module(f"trainstack.cli.{_MODULES[name]}")
    group = typer.Typer(add_completion=False)
    if hasattr(module, "app"):
        group.add_typer(module.app, name=name)
    else:
        group.command(name)(getattr(module, name.replace("-", "_")))
    command = typer.main.get_group(group).commands[name]
    for documented in (command, *getattr(command, "commands", {}).values()):
        paragraphs = cleandoc(documented.help or "").split("\n\n")
        # Rich keeps line breaks, which only the examples need.
        documented.help = "\n\n".join(
            text if text.startswith("Example") else text.replace("\n", " ") for text in paragraphs
        )
    return command


class _Commands(TyperGroup):
    def __init__(self, **arguments: Any) -> None:
        super().__init__(**{**arguments, "commands": _Lazy()})

    def invoke(self, ctx: Any) -> Any:
        """Run the command; report an expected error as one message, without a traceback."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            message = expected_message(error)
            if message is None:
                raise
            return fail(message)


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
    # Arguments and file names may contain bytes that are not valid UTF-8.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app()
