"""How the commands speak: progress to people on stderr, results on stdout, and errors that end in one clear message."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NoReturn

import typer
from rich.console import Console

out = Console(soft_wrap=True, highlight=False)
"""Results: what a script may read."""
err = Console(stderr=True, soft_wrap=True, highlight=False)
"""Progress and errors: what a person reads."""


def fail(message: str) -> NoReturn:
    """End the command with exit code 1 and a message that names the remedy."""
    err.print(f"error: {message}", style="red", markup=False)
    raise typer.Exit(1)


def show_json(value: Any) -> None:
    """Print a result for a program; times as RFC 3339."""
    sys.stdout.write(json.dumps(value, indent=2, sort_keys=True, default=datetime.isoformat) + "\n")


@contextmanager
def step(what: str, expected: str = "") -> Iterator[None]:
    """Say what is being done, how long it usually takes, and how long it took."""
    began = time.monotonic()
    err.print(f"• {what}" + (f" (about {expected})" if expected else ""), markup=False)
    yield
    err.print(f"  {what}: {time.monotonic() - began:.1f} s", style="dim", markup=False)
