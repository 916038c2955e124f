"""How the commands speak: progress to people on stderr, results on stdout, and errors that end in one clear message."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NoReturn

import typer
from rich.console import Console, RenderableType
from rich.table import Table


def _console(*, stderr: bool = False, width: int | None = None) -> Console:
    """A console that prints data verbatim, without markup such as `:cat:` or `[bold]`."""
    return Console(stderr=stderr, width=width, soft_wrap=width is None, highlight=False, emoji=False, markup=False)


out = _console()
"""Results: what a script may read."""
err = _console(stderr=True)
"""Progress and errors: what a person reads."""


WIDE = 240
"""Columns of what goes into a file or to a program."""
_WIDEST = 10_000
"""Columns up to which a table there has a line for each row."""


def show(shown: RenderableType, *, width: int = WIDE) -> None:
    """Print a table or the like: as wide as the terminal. Where there is none, nothing of a table is cut or wrapped."""
    if out.is_terminal:
        out.print(shown)
        return
    whole = _console(width=_WIDEST)
    needed = whole.measure(shown).maximum if isinstance(shown, Table) else 0
    _console(width=max(width, needed)).print(shown)


def fail(message: str) -> NoReturn:
    """End the command with exit code 1 and a message that names the remedy."""
    err.print(f"error: {message}", style="red", markup=False)
    raise typer.Exit(1)


def show_json(value: Any) -> None:
    """Print a result for a program; times as RFC 3339."""
    sys.stdout.write(json.dumps(value, indent=2, sort_keys=True, default=datetime.isoformat) + "\n")


def age(since: datetime, now: datetime) -> str:
    """How long ago something was, as `duration` writes it."""
    return duration((now - since).total_seconds())


def duration(seconds: float) -> str:
    """A time span for people: `3d4h`, `2h5m`, `1m10s`, `7s`."""
    left = max(0, round(seconds))
    units = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
    for (unit, size), (below, part) in zip(units, (*units[1:], ("", 0)), strict=True):
        if left >= size and part:
            rest = left % size // part
            return f"{left // size}{unit}" + (f"{rest}{below}" if rest else "")
    return f"{left}s"


@contextmanager
def quiet_interrupt() -> Iterator[None]:
    """Ctrl-C ends what only looks without a word, with the exit code that shells give it."""
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


@contextmanager
def step(what: str, expected: str = "") -> Iterator[None]:
    """Say what is being done, how long it usually takes, and how long it took."""
    began = time.monotonic()
    err.print(f"• {what}" + (f" (about {expected})" if expected else ""), markup=False)
    yield
    err.print(f"  {what}: {time.monotonic() - began:.1f} s", style="dim", markup=False)
