"""Files of killed commands on this machine that no command removes."""

import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

from trainstack.files.replacement import LEFTOVER_PATTERN
from trainstack.lifecycle.recovery.problem import Problem

_EDITED_FOLDERS = (".", "pins", "rights", "sweeps/*", ".github/workflows", ".trainstack/schema")
"""The folders of a project in which commands write."""


def local_file_problems(root: Path) -> Iterator[Problem]:
    """Yield a problem for each incomplete file of the project at `root`."""
    for folder in _EDITED_FOLDERS:
        for file in sorted(root.glob(f"{folder}/{LEFTOVER_PATTERN}")):
            if stat.S_ISREG(file.lstat().st_mode):
                message = "a killed command did not complete this file, and no command reads it"
                yield Problem("file-left", str(file), message, (f"rm -- {shlex.quote(str(file))}",))
