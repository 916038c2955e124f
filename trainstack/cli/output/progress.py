"""Progress bars; in a log, a line every few seconds."""

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

from trainstack.cli.output.console import err

LINE_SECONDS = 5.0
UPDATE_SECONDS = 0.1
"""Rich computes the rate at each update, which takes as long as the transfer of a small file."""

Advance = Callable[[int], None]
"""Adds bytes or items to the progress."""


@contextmanager
def bar(description: str, total: int, completed_bytes: int = 0) -> Iterator[Advance]:
    """Show the bytes of `total` that are transferred, the rate and the time left; starts at `done` bytes."""
    columns = (DownloadColumn(), TransferSpeedColumn())
    with _progress(description, total, completed_bytes, columns, lambda number: decimal(int(number))) as advance:
        yield advance


@contextmanager
def count(description: str, total: int) -> Iterator[Advance]:
    with _progress(description, total, 0, (MofNCompleteColumn(),), lambda number: f"{number:.0f}") as advance:
        yield advance


@contextmanager
def _progress(
    description: str,
    total: int,
    completed: int,
    columns: Sequence[ProgressColumn],
    format_amount: Callable[[float], str],
) -> Iterator[Advance]:
    with Progress(
        TextColumn("  {task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        *columns,
        TimeRemainingColumn(),
        console=err,
        disable=not err.is_terminal,
    ) as progress:
        task = progress.add_task(description, total=total, completed=completed)
        printed = updated = time.monotonic()
        pending_amount = 0

        def advance(count: int) -> None:
            nonlocal printed, updated, pending_amount
            pending_amount += count
            now = time.monotonic()
            if now - updated < UPDATE_SECONDS:
                return
            progress.advance(task, pending_amount)
            updated, pending_amount = now, 0
            # A log gets lines instead of a bar that is redrawn.
            if not err.is_terminal and now - printed > LINE_SECONDS:
                printed = now
                err.print(_line(progress.tasks[0], format_amount))

        yield advance
        progress.advance(task, pending_amount)


def _line(task: Task, format_amount: Callable[[float], str]) -> str:
    line = f"  {task.description}: {format_amount(task.completed)} of {format_amount(task.total or 0)}"
    if task.speed:
        line += f", {format_amount(task.speed)}/s"
    return line if task.time_remaining is None else f"{line}, {task.time_remaining:.0f} s left"
