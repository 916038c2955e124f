"""Programs whose output is copied line by line, cleaned, also after the reader of a pipe has closed it."""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import IO

import typer


def run_and_copy(
    command: Sequence[str],
    folder: Path,
    variables: Mapping[str, str],
    write_output: Callable[[str], object],
    write_error: Callable[[str], object],
) -> int:
    """Run a program to its end and pass each line that it prints to one of the functions; return its exit code.

    The program is not interrupted if its output cannot be written any more: a change of a cluster is completed.
    """
    process = subprocess.Popen(
        command, cwd=folder, env=dict(variables), encoding="utf-8", errors="backslashreplace",
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    copiers = [
        Thread(target=_copy, args=(stream, write), daemon=True)
        for stream, write in ((process.stdout, write_output), (process.stderr, write_error))
    ]
    for copier in copiers:
        copier.start()
    try:
        process.wait()
    except KeyboardInterrupt:
        # A terminal interrupts the program too, which then completes its work. A second interrupt ends the wait.
        process.wait()
        raise
    for copier in copiers:
        copier.join()
    return process.returncode


def _copy(stream: IO[str], write: Callable[[str], object]) -> None:
    with stream:
        for line in stream:
            with suppress(typer.Exit):
                write(line)
