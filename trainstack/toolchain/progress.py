"""The progress of long steps: a bar on a terminal, otherwise a line every LINE_INTERVAL_SECONDS."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from trainstack.printable import clean

LINE_INTERVAL_SECONDS = 20.0
"""Interval of lines without a terminal, short enough to distinguish a slow step from a hung one."""


def print_line(console: Console, text: str) -> None:
    """Print one line unchanged: no wrapping without a terminal, no markup, no colors for numbers."""
    console.print(clean(text), soft_wrap=True, markup=False, highlight=False)


def duration(seconds: float) -> str:
    """Format seconds: `45 s`, `7 min`, `1 h 20 min`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


@dataclass(frozen=True)
class StepProgress:
    """The progress of one step."""

    progress: Progress
    task: TaskID

    def set_total(self, count: int) -> None:
        """Set the number of units once it is known."""
        self.progress.update(self.task, total=count)

    def advance(self) -> None:
        """Count one finished unit."""
        self.progress.advance(self.task)

    def set_note(self, text: str) -> None:
        """Show the current activity of the step, in a few words."""
        self.progress.update(self.task, note=clean(text))


@contextmanager
def bar(console: Console, title: str) -> Iterator[StepProgress]:
    """Show the progress of one step until the block ends."""
    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("{task.fields[note]}", style="dim", markup=False),
    )  # fmt: skip
    progress = Progress(*columns, console=console)
    step = StepProgress(progress, progress.add_task(title, total=None, note=""))
    if console.is_terminal:
        with progress:
            yield step
        return
    # From a thread, so that a long silent step is visible too.
    ended = threading.Event()
    thread = threading.Thread(target=_print_lines, args=(console, progress, ended), daemon=True)
    thread.start()
    try:
        yield step
    finally:
        ended.set()
        thread.join()


def _print_lines(console: Console, progress: Progress, ended: threading.Event) -> None:
    while not ended.wait(LINE_INTERVAL_SECONDS):
        for task in progress.tasks:
            count = f"{task.completed:.0f} of {task.total:.0f}" if task.total else ""
            parts = (count, task.fields["note"], f"{duration(task.elapsed or 0)} elapsed")
            print_line(console, f"{task.description}: {', '.join(part for part in parts if part)}")
