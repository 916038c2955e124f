"""Files of killed commands on this machine that no command removes."""

import os
import shlex
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from trainstack.files.replacement import LEFTOVER_PATTERN
from trainstack.lifecycle.recovery.problem import Problem

_EDITED_FOLDERS = (".", "pins", "rights", "sweeps/*", ".github/workflows", ".trainstack/schema")
"""The folders of a project in which commands write."""
_FORMER_COPIES = ("trainstack-kubeconfig-????????", "trainstack-preview-????????")
"""Patterns of the temporary folders of earlier releases: private kubeconfigs, and copies of an environment's file."""
_ABANDONED_AFTER_SECONDS = 48 * 3600
"""Age after which a folder is not in use any more: no command runs for so long."""


def local_file_problems(root: Path, temporary: Path | None = None) -> Iterator[Problem]:
    """Yield a problem for each incomplete file of the project at `root`, and temporary folder of an earlier release."""
    for folder in _EDITED_FOLDERS:
        for file in sorted(root.glob(f"{folder}/{LEFTOVER_PATTERN}")):
            if stat.S_ISREG(file.lstat().st_mode):
                message = "a killed command did not complete this file, and no command reads it"
                yield _problem(file, message, "rm --")
    for pattern in _FORMER_COPIES:
        for folder_copy in sorted((temporary or Path(tempfile.gettempdir())).glob(pattern)):
            if _is_abandoned(folder_copy):
                message = (
                    "a killed command of an earlier release left this folder, which may have the keys of a kubeconfig"
                )
                yield _problem(folder_copy, message, "rm -r --")


def _problem(path: Path, message: str, command: str) -> Problem:
    return Problem("file-left", str(path), message, (f"{command} {shlex.quote(str(path))}",))


def _is_abandoned(path: Path) -> bool:
    try:
        status = path.lstat()
    except OSError:
        return False
    is_old = time.time() - status.st_mtime > _ABANDONED_AFTER_SECONDS
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and is_old
