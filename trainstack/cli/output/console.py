"""Output of the commands: results on stdout, progress and errors on stderr."""

import json
import re
import sys
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from rich.console import Console, ConsoleOptions, JustifyMethod, OverflowMethod, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from trainstack.errors import ExitCode, describe_os_error
from trainstack.files.project import write_output
from trainstack.printable import clean, clean_colored

if TYPE_CHECKING:
    from rich.live import Live


class _CleanConsole(Console):
    """A console that prints text without markup such as `:cat:` or `[bold]`, and without effect on the terminal."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, highlight=False, emoji=False, markup=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """Clean strings before their width is measured."""
        return super().render_str(clean(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Clean the segments of everything but strings. Only Rich moves the cursor, by its control segments."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text == "\n" or segment.text.isprintable():
                yield segment
            else:
                yield Segment(clean(segment.text), segment.style)


def _console(*, stderr: bool = False, width: int | None = None) -> Console:
    return _CleanConsole(stderr=stderr, width=width, soft_wrap=width is None)


out = _console()
"""Results, which scripts may read."""
err = _console(stderr=True)
"""Progress and errors."""

FILE_WIDTH = 240
"""Columns of output to a file or pipe."""
_NOT_ASCII = re.compile(r"[^\n\r\t -~]")
_MAX_TABLE_WIDTH = 10_000
"""Maximum columns of a table in a file or pipe."""


def show(renderable: RenderableType, *, width: int = FILE_WIDTH) -> None:
    """Print a table or the like at the terminal's width; in a file or pipe, tables are neither cut nor wrapped."""
    if out.is_terminal:
        out.print(renderable, soft_wrap=False)
        return
    needed_width = _console(width=_MAX_TABLE_WIDTH).measure(renderable).maximum if isinstance(renderable, Table) else 0
    console = _console(width=max(width, needed_width))
    with console.capture() as capture:
        console.print(renderable)
    # Rich pads the last column, too.
    write("".join(f"{line.rstrip()}\n" for line in capture.get().removesuffix("\n").split("\n")))


def show_tables(tables: Iterable[Table]) -> None:
    """Print tables with an empty line between them."""
    for index, table in enumerate(tables):
        if index:
            out.print()
        show(table)


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
        table.add_column(make_text(name.upper()), justify=justify, no_wrap=not wraps, overflow=overflow)
    for row in rows:
        table.add_row(*(make_text(cell) if isinstance(cell, str) else cell for cell in row))
    return table


_SUBJECT_WIDTH = 32
"""Maximum columns of a subject, so that its facts have room."""
_LABEL_WIDTH = 7
"""Minimum columns of a label, so that consecutive tables are aligned."""
Facts = Sequence[tuple[str | Text, str]]
"""Texts with labels, such as `why` and `remedy`; a label may be empty."""


def make_fact_table(head: Sequence[str], records: Iterable[tuple[Sequence[Text], Facts]]) -> Table:
    """Return a table of subjects, each with its facts on lines of their own. Long texts are wrapped, none is cut.

    `records`: the cells of each subject, below the names in `head`, and its facts. Empty names are not shown.
    """
    rows = list(records)
    label_width = max((len(str(label)) for _, facts in rows for label, _ in facts), default=0)
    label_width = max(label_width, _LABEL_WIDTH) if label_width else 0
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=any(head))
    for name in head:
        table.add_column(make_text(name.upper()), max_width=_SUBJECT_WIDTH, overflow="fold")
    table.add_column()
    for cells, facts in rows:
        table.add_row(*cells, _facts_grid(facts, label_width))
    return table


def _facts_grid(facts: Facts, label_width: int) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    if label_width:
        grid.add_column(width=label_width)
    grid.add_column(overflow="fold")
    for label, text in facts:
        cells = [make_text(label) if isinstance(label, str) else label] if label_width else []
        grid.add_row(*cells, make_text(text))
    return grid


def make_text(text: str, style: str = "") -> Text:
    return Text(clean(text), style=style)


def fail(message: str, code: ExitCode = ExitCode.FAILED) -> NoReturn:
    """Print an error and exit."""
    err.print(f"error: {message}", style="red")
    raise typer.Exit(code)


def ensure_confirmable(*, yes: bool) -> None:
    """Exit unless a question can be answered or need not be asked. Call this before anything is read or written."""
    if not yes and not is_interactive():
        fail("this command asks for confirmation, but there is no terminal; add --yes to confirm", ExitCode.USAGE)


def is_interactive() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def confirm(question: str, *, yes: bool) -> None:
    """Ask on stderr unless `yes`; exits if the answer is no."""
    if not yes:
        typer.confirm(clean(question), abort=True, err=True)


def print_with_prefix(prefix: str, text: str, style: str = "") -> None:
    """Print a line of a log; if it has several lines for a terminal, such as a progress bar's, each with the prefix."""
    for line in clean(text).split("\n"):
        out.print(Text.assemble((prefix, style), line))


def report(line: str) -> None:
    err.print(f"  {line}")


def report_in(live: "Live", line: str) -> None:
    """Show a message in a live view, or on stderr if nothing is redrawn, as in a pipe or on a dumb terminal."""
    if out.is_interactive:
        live.update(make_text(line, "yellow"), refresh=True)
    else:
        report(line)


def write(text: str) -> None:
    """Write text to stdout unformatted, without what controls a terminal."""
    sys.stdout.write(clean(text))
    sys.stdout.flush()


def copy_output(text: str) -> None:
    """Write what a program of the project prints to stdout, with its colors."""
    sys.stdout.write(clean_colored(text))
    sys.stdout.flush()


def copy_errors(text: str) -> None:
    sys.stderr.write(clean_colored(text))
    sys.stderr.flush()


def show_json(value: Any) -> None:
    """Print a result as JSON; times as RFC 3339."""
    write_json(json.dumps(value, indent=2, sort_keys=True, default=datetime.isoformat) + "\n")


def write_json(text: str) -> None:
    """Write JSON to stdout; a character that is not visible is written as JSON's own escape."""
    sys.stdout.write(_NOT_ASCII.sub(lambda match: json.dumps(match.group())[1:-1], text))


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
            fail(f"cannot write {describe_os_error(error, str(path))}")


def show_written(files: Mapping[Path, bytes]) -> None:
    for path in files:
        err.print(f"written: {path}")


def age(since: datetime, now: datetime) -> str:
    """Format the time between two moments as `duration` does."""
    return duration((now - since).total_seconds())


def duration(seconds: float) -> str:
    """Format a duration with at most two units: `3d4h`, `2h5m`, `1m10s`, `7s`."""
    whole_seconds = max(0, round(seconds))
    units = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
    for (unit, size), (below, part) in zip(units, (*units[1:], ("", 0)), strict=True):
        if whole_seconds >= size and part:
            remainder = whole_seconds % size // part
            return f"{whole_seconds // size}{unit}" + (f"{remainder}{below}" if remainder else "")
    return f"{whole_seconds}s"


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
