"""The exit code of an error in the program, for the command that runs the engine: the engine's own code differs."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from trainstack.errors import ExitCode, TrainstackError
from trainstack.files.temporary import temporary_folder

EXIT_CODE_VARIABLE = "TRAINSTACK_EXIT_CODE_FILE"
"""The variable with the path of an empty file, which commands set for their engine. The program writes its exit code
to it; without the file it writes nothing."""


@contextmanager
def exit_code_file() -> Iterator[Path]:
    """Create the file for one run of the engine, and remove it afterwards."""
    with temporary_folder() as folder:
        file = folder / "exit-code"
        file.touch()
        yield file


def report_exit_code(error: TrainstackError) -> None:
    """Write the exit code of an error that ends the program, if a command set EXIT_CODE_VARIABLE."""
    if path := os.environ.get(EXIT_CODE_VARIABLE):
        # `r+` does not create a file: a plain engine may inherit the variable of a command that has ended.
        with suppress(OSError), Path(path).open("r+", encoding="ascii") as file:
            file.write(str(int(error.exit_code)))


def read_exit_code(file: Path) -> ExitCode:
    """Return the exit code that the program wrote; FAILED if it wrote none."""
    try:
        return ExitCode(int(file.read_text(encoding="ascii")))
    except (OSError, ValueError):
        return ExitCode.FAILED
