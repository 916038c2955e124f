"""A bar of bytes, or of things, for people at a terminal, and for a log a line every few seconds."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.filesize import decimal
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from trainstack.cli.console import err

LINE_SECONDS = 5.0

Advance = Callable[[int], None]
"""Tells the bar of so many bytes, or things, more."""


@contextmanager
def bar(what: str, total: int, done: int = 0) -> Iterator[Advance]:
    """Show how much of `total` bytes is done, at what rate, and how long the rest takes; `done` was so before."""
    columns = (DownloadColumn(), TransferSpeedColumn())
    with _shown(what, total, done, columns, lambda number: decimal(int(number))) as advance:
        yield advance


@contextmanager
def count(what: str, total: int) -> Iterator[Advance]:
    """The same of `total` things."""
    with _shown(what, total, 0, (MofNCompleteColumn(),), lambda number: f"{number:.0f}") as advance:
        yield advance


@contextmanager
def _shown(
    what: str, total: int, done: int, columns: Sequence[ProgressColumn], say: Callable[[float], str]
) -> Iterator[Advance]:
    always = (BarColumn(), TaskProgressColumn())
    with Progress(
        TextColumn("  {task.description}", markup=False),
        *always,
        *columns,
        TimeRemainingColumn(),
        console=err,
        disable=not err.is_terminal,
    ) as progress:
        task = progress.add_task(what, total=total, completed=done)
        said = time.monotonic()

        def advance(count: int) -> None:
            nonlocal said
            progress.advance(task, count)
            if not err.is_terminal and time.monotonic() - said > LINE_SECONDS:
                said = time.monotonic()
                err.print(_line(progress.tasks[0], say), markup=False)

        yield advance


def _line(task: Task, say: Callable[[float], str]) -> str:
    line = f"  {task.description}: {say(task.completed)} of {say(task.total or 0)}"
    if task.speed:
        line += f", {say(task.speed)}/s"
    return line if task.time_remaining is None else f"{line}, {task.time_remaining:.0f} s left"
