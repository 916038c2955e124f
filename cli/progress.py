"""A bar of bytes for people at a terminal, and for a log a line every few seconds."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.filesize import decimal
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    Task,
    TaskProgressColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from cli.console import err

LINE_SECONDS = 5.0

Advance = Callable[[int], None]
"""Tells the bar of so many bytes more."""


@contextmanager
def bar(what: str, total: int, done: int = 0) -> Iterator[Advance]:
    """Show how much of `total` bytes is done, at what rate, and how long the rest takes; `done` was so before."""
    columns = (BarColumn(), TaskProgressColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress("  {task.description}", *columns, console=err, disable=not err.is_terminal) as progress:
        task = progress.add_task(what, total=total, completed=done)
        said = time.monotonic()

        def advance(count: int) -> None:
            nonlocal said
            progress.advance(task, count)
            if not err.is_terminal and time.monotonic() - said > LINE_SECONDS:
                said = time.monotonic()
                err.print(_line(progress.tasks[0]), markup=False)

        yield advance


def _line(task: Task) -> str:
    line = f"  {task.description}: {decimal(int(task.completed))} of {decimal(int(task.total or 0))}"
    if task.speed:
        line += f", {decimal(int(task.speed))}/s"
    return line if task.time_remaining is None else f"{line}, {task.time_remaining:.0f} s left"
