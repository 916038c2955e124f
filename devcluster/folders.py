"""Folders that a cluster has at paths of its own: each covers one of this machine, which stays as it is.

Standard library only: the supervisor uses it.
"""

import contextlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

from devcluster.command import run
from devcluster.layout import HIDDEN_MARK, Layout

WORLD_WRITABLE = 0o777
"""As dynamic volumes: containers write as root or as any number."""


def make(folder: Path) -> None:
    """Make a folder that is to be covered; it, and what is made above it, bears the mark by which `remove` knows it."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
        with contextlib.suppress(OSError):  # without extended attributes an empty folder stays
            os.setxattr(each, HIDDEN_MARK, b"1")


def remove(folders: Iterable[Path]) -> None:
    """Remove what `make` has made of some folders; only what nobody has put anything into since."""
    with_parents = {each for folder in folders for each in (folder, *folder.parents)}
    for each in sorted(with_parents, key=lambda path: len(path.parts), reverse=True):
        with contextlib.suppress(OSError):
            if HIDDEN_MARK in os.listxattr(each):
                each.rmdir()


def cover(layout: Layout, folders: Iterable[str]) -> None:
    """Put folders of the state at the node's paths, in the mount namespace of this process. Safe to repeat."""
    for folder in absent(folders):
        source = layout.node_folders / folder.lstrip("/")
        source.mkdir(parents=True, exist_ok=True)
        source.chmod(WORLD_WRITABLE)
        make(Path(folder))
        run("mount", "--bind", str(source), folder)


def absent(folders: Iterable[str], pid: int | None = None) -> list[str]:
    """Those of some folders that are not covered in the mount namespace of a process, by default this one's."""
    lines = Path("/proc", str(pid or "self"), "mountinfo").read_text().splitlines()
    mounted = {re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), line.split()[4]) for line in lines}
    return [folder for folder in folders if os.path.realpath(folder) not in mounted]
