"""The SDK's debug messages, which are dropped unless the engine displays or logs them.

The SDK sends about twenty messages per resource, each in a blocking call of the engine. Without `--debug` and
`--verbose`, the engine discards them, but it does not pass these options to programs.
"""

import os
import re
from pathlib import Path
from typing import Any

import pulumi

_ENGINE = "pulumi"
_OPTION = re.compile("--debug|--verbose|-[a-zA-Z]*[dv]")
"""`--debug`; `--verbose`, with which the engine also writes them to its log; and `-d` and `-v`, alone or with other
flags. It also matches `-sdev`: then the messages only cost time."""
_VARIABLES = ("PULUMI_OPTION_DEBUG", "PULUMI_OPTION_VERBOSE")
"""The variables with the same effect."""


def drop_undisplayed_messages() -> None:
    """Drop the SDK's debug messages from here on if the engine, an ancestor of this process, discards them."""
    arguments = engine_arguments(os.getppid())
    if arguments is not None and not any(map(os.environ.get, _VARIABLES)) and not any(map(_OPTION.match, arguments)):
        setattr(pulumi.log, "debug", _drop)  # noqa: B010 (the SDK has no switch, and mypy refuses an assignment)


def _drop(*_: Any, **__: Any) -> None:
    pass


def engine_arguments(process: int) -> list[str] | None:
    """Return the arguments of the first engine among a process and its ancestors; None if none is found."""
    while process > 1:
        folder = Path("/proc", str(process))
        try:
            program, *arguments = folder.joinpath("cmdline").read_bytes().decode(errors="replace").split("\0")
            # The name in parentheses may contain spaces and parentheses.
            parent = folder.joinpath("stat").read_text(errors="replace").rpartition(")")[2].split()[1]
        except OSError:
            return None  # no /proc, as on macOS
        if Path(program).name == _ENGINE:
            return arguments
        process = int(parent)
    return None
