"""Progress of long steps: a bar on a terminal, otherwise a line every 20 seconds."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

LINE_EVERY_SECONDS = 20.0
"""Interval of lines without a terminal, short enough to distinguish a slow step from a hung one."""


class Bar(Protocol):
    def total(self, count: int) -> None:
        """Set the number of units once it is known."""

    def advance(self) -> None:
        """Count one finished unit."""

    def note(self, text: str) -> None:
        """Show what the step does now, in a few words."""


def say(console: Console, text: str) -> None:
    """Print one line unchanged: no wrapping without a terminal, no markup, no colors for numbers."""
    console.print(text, soft_wrap=True, markup=False, highlight=False)


def duration(seconds: float) -> str:
    """Format seconds: `45 s`, `7 min`, `1 h 20 min`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


@contextmanager
def bar(console: Console, title: str) -> Iterator[Bar]:
    """Show the progress of one step until the block ends."""
    if console.is_terminal:
        columns = (
            TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TextColumn("{task.fields[note]}", style="dim", markup=False),
        )  # fmt: skip
        with Progress(*columns, console=console) as progress:
            yield _RichBar(progress, title)
    else:
        lines = _LineBar(console, title)
        try:
            yield lines
        finally:
            lines.close()


class _RichBar:
    def __init__(self, progress: Progress, title: str) -> None:
        self._progress = progress
        self._task = progress.add_task(title, total=None, note="")

    def total(self, count: int) -> None:
        self._progress.update(self._task, total=count)

    def advance(self) -> None:
        self._progress.advance(self._task)

    def note(self, text: str) -> None:
        self._progress.update(self._task, note=text)


class _LineBar:
    """Plain lines from a thread, so that a long silent step is visible too."""

    def __init__(self, console: Console, title: str) -> None:
        self._console, self._title = console, title
        self._count, self._total, self._note = 0, 0, ""
        self._started = time.monotonic()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._print, daemon=True)
        self._thread.start()

    def total(self, count: int) -> None:
        self._total = count

    def advance(self) -> None:
        self._count += 1

    def note(self, text: str) -> None:
        self._note = text

    def close(self) -> None:
        self._closed.set()
        self._thread.join()

    def _print(self) -> None:
        while not self._closed.wait(LINE_EVERY_SECONDS):
            count = f"{self._count} of {self._total}" if self._total else ""
            parts = (count, self._note, f"{duration(time.monotonic() - self._started)} elapsed")
            say(self._console, f"{self._title}: {', '.join(part for part in parts if part)}")
