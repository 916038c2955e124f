"""Output of the commands: results on stdout, progress and errors on stderr."""

import json
import sys
import time
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

import typer
from rich.console import Console, JustifyMethod, OverflowMethod, RenderableType
from rich.table import Table
from rich.text import Text

from trainstack.errors import ExitCode, TrainstackError
from trainstack.files.project import write_output


def _console(*, stderr: bool = False, width: int | None = None) -> Console:
    """Create a console that prints data verbatim, without markup such as `:cat:` or `[bold]`."""
    return Console(stderr=stderr, width=width, soft_wrap=width is None, highlight=False, emoji=False, markup=False)


out = _console()
"""Results, which scripts may read."""
err = _console(stderr=True)
"""Progress and errors."""

WIDE = 240
"""Columns of output to a file or pipe."""
_WIDEST = 10_000
"""Maximum columns of a table in a file or pipe."""


def show(renderable: RenderableType, *, width: int = WIDE) -> None:
    """Print a table or the like at the terminal's width; in a file or pipe, tables are neither cut nor wrapped."""
    if out.is_terminal:
        out.print(renderable)
        return
    needed = _console(width=_WIDEST).measure(renderable).maximum if isinstance(renderable, Table) else 0
    _console(width=max(width, needed)).print(renderable)


def make_table(
    head: Iterable[str],
    rows: Iterable[Iterable[str | Text]],
    *,
    right: Container[str] = (),
    fold: Container[str] = (),
    collapse: bool = False,
) -> Table:
    """Return a table without borders; columns in `fold` are wrapped if there is too little room, others are cut."""
    table = Table(box=None, pad_edge=False, collapse_padding=collapse)
    for name in head:
        wraps = name in fold
        justify: JustifyMethod = "right" if name in right else "left"
        overflow: OverflowMethod = "fold" if wraps else "ellipsis"
        table.add_column(Text(name.upper()), justify=justify, no_wrap=not wraps, overflow=overflow)
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return table


def fail(message: str, code: ExitCode = ExitCode.FAILED) -> NoReturn:
    """Print an error and exit."""
    err.print(f"error: {message}", style="red")
    raise typer.Exit(code)


def expected_message(error: Exception) -> str | None:
    """Return the message of an expected error; None for any other, which is a bug and keeps its traceback."""
    if isinstance(error, OSError) and error.filename is not None:
        path = error.filename.decode(errors="replace") if isinstance(error.filename, bytes) else error.filename
        return f"{path}: {error.strerror or error}"
    return str(error) if isinstance(error, TrainstackError) else None


def ensure_confirmable(*, yes: bool) -> None:
    """Exit unless a question can be answered or need not be asked. Call this before anything is read or written."""
    if not yes and not interactive():
        fail("this command asks for confirmation, but there is no terminal; add --yes to confirm", ExitCode.USAGE)


def interactive() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def confirm(question: str, *, yes: bool) -> None:
    """Ask on stderr unless `yes`; exits if the answer is no."""
    if not yes:
        typer.confirm(question, abort=True, err=True)


def report(line: str) -> None:
    err.print(f"  {line}")


def show_json(value: Any) -> None:
    """Print a result as JSON; times as RFC 3339."""
    sys.stdout.write(json.dumps(value, indent=2, sort_keys=True, default=datetime.isoformat) + "\n")


def show_steps(heading: str, steps: Iterable[str], *, dry_run: bool) -> None:
    """Print the next steps. `heading`: of a change that was made."""
    if dry_run:
        heading = "Nothing was written (--dry-run). To continue, run without it, then"
    err.print(f"{heading}:\n" + "\n".join(f"  {step}" for step in steps))


def write_files(files: Mapping[Path, bytes]) -> None:
    """Write the files; on an error, exit with the path and the reason."""
    for path, content in files.items():
        try:
            write_output(path, content)
        except OSError as error:
            fail(f"cannot write {path}: {error.strerror}")


def show_written(files: Mapping[Path, bytes]) -> None:
    for path in files:
        err.print(f"written: {path}")


def age(since: datetime, now: datetime) -> str:
    """Format the time between two moments as `duration` does."""
    return duration((now - since).total_seconds())


def duration(seconds: float) -> str:
    """Format a duration with at most two units: `3d4h`, `2h5m`, `1m10s`, `7s`."""
    left = max(0, round(seconds))
    units = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
    for (unit, size), (below, part) in zip(units, (*units[1:], ("", 0)), strict=True):
        if left >= size and part:
            rest = left % size // part
            return f"{left // size}{unit}" + (f"{rest}{below}" if rest else "")
    return f"{left}s"


@contextmanager
def quiet_interrupt() -> Iterator[None]:
    """Exit with the shell's code 130 on Ctrl-C, without a message; for commands that only read."""
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


@contextmanager
def step(description: str, expected: str = "") -> Iterator[None]:
    """Print a step with its expected duration, and how long it took."""
    start = time.monotonic()
    err.print(f"• {description}" + (f" (about {expected})" if expected else ""))
    yield
    err.print(f"  {description}: {time.monotonic() - start:.1f} s", style="dim")
