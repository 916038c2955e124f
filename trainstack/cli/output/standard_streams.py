"""The standard streams of a command: what happens if one of them is closed, full, or a pipe without a reader."""

import errno
import os
import select
import sys
import traceback
from collections.abc import Callable
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import Any, NoReturn, TextIO

import typer

from trainstack.cli.output.console import err, fail
from trainstack.errors import ExitCode, describe_os_error
from trainstack.printable import clean


class _UnwritableOutputError(typer.Exit):
    """Standard output cannot be written, so the command ends."""


class _StandardStream(FileIO):
    """Standard output or error. Stores the first failure; afterwards nothing is written any more."""

    def __init__(self, descriptor: int, *, is_required: bool) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.is_required = is_required
        """Whether a failure ends the command. Without messages it continues: a full log must not interrupt a change."""
        self.failure: OSError | None = None

    def write(self, data: Any) -> int:
        if self.failure is None:
            try:
                # Without a result, the stream does not block and its reader is slow.
                while (written_bytes := super().write(data)) is None:
                    select.select([], [self], [])
            except OSError as error:
                self.failure = error
            else:
                return written_bytes
        if self.is_required:
            raise _UnwritableOutputError(ExitCode.FAILED) from self.failure
        return len(data)


def run_and_exit(command: Callable[[], object]) -> NoReturn:
    """Run a command, and exit with its code, or with another than 0 if its output could not be written."""
    stdout_is_closed = 1 in _open_closed_descriptors()
    outputs = _StandardStream(1, is_required=True), _StandardStream(2, is_required=False)
    sys.stdout, sys.stderr = map(_text_stream, outputs, (sys.stdout, sys.stderr))
    code: Any = ExitCode.FAILED
    try:
        if stdout_is_closed:
            fail("standard output is closed; redirect it to a file, a pipe or /dev/null", ExitCode.USAGE)
        command()
        code = 0
    except SystemExit as exit_request:
        code = exit_request.code
    except typer.Exit as exit_request:
        code = exit_request.exit_code
    except Exception:  # noqa: BLE001 (a bug, whose traceback may contain text from the cluster)
        sys.stderr.write(clean(traceback.format_exc()))
    outputs[0].is_required = False
    sys.stdout.flush()
    # A reader that closes the pipe, such as `head`, needs no more output.
    if (failure := outputs[0].failure) is not None and failure.errno != errno.EPIPE:
        err.print(f"error: {describe_os_error(failure, 'standard output')}", style="red")
    sys.stderr.flush()
    sys.exit(code or (ExitCode.FAILED if any(output.failure for output in outputs) else 0))


def _open_closed_descriptors() -> set[int]:
    """Open /dev/null in place of closed standard streams, whose numbers the next opened files would get."""
    closed_descriptors = set()
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            closed_descriptors.add(descriptor)
            # The lowest number that is free.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # noqa: FBT003 (it has no name)
    return closed_descriptors


def _text_stream(output: _StandardStream, old_stream: TextIO | None) -> TextIO:
    # Arguments and file names may contain bytes that are not valid UTF-8.
    encoding = old_stream.encoding if old_stream is not None else "utf-8"
    is_line_buffered = output.isatty() or not output.is_required
    return TextIOWrapper(BufferedWriter(output), encoding, "backslashreplace", line_buffering=is_line_buffered)
