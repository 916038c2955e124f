"""Files of killed commands on this machine that no command removes."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from trainstack.files.project import try_lock_project
from trainstack.files.replacement import LEFTOVER_PATTERN
from trainstack.lifecycle.recovery.problem import Problem

_EDITED_FOLDERS = (".", "pins", "rights", "sweeps/*", "workloads/*", ".github/workflows", ".trainstack/schema")
"""The folders of a project in which commands write."""


def local_file_problems(root: Path, unchecked_notes: list[str]) -> list[Problem]:
    """Return a problem for each incomplete file of the project at `root`.

    While another command is changing the project's files, its own are incomplete, too: the result is then empty, and
    `unchecked_notes` gets the reason. The lock is held during the search, so that no command starts meanwhile.
    """
    with try_lock_project(root) as holder:
        if holder:
            unchecked_notes.append(
                f"files of killed commands: {holder} is using {root}; run the same command again after it has ended"
            )
            return []
        return [_problem_of(file) for file in _find_leftovers(root)]


def _find_leftovers(root: Path) -> Iterator[Path]:
    for folder in _EDITED_FOLDERS:
        for file in sorted(root.glob(f"{folder}/{LEFTOVER_PATTERN}")):
            # Both are false for a file that has disappeared since it was listed.
            if file.is_file() and not file.is_symlink():
                yield file


def _problem_of(file: Path) -> Problem:
    message = "a killed command did not complete this file, and no command reads it"
    return Problem("file-left", str(file), message, (f"rm -- {shlex.quote(str(file))}",))
