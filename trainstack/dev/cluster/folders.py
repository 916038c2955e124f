"""Folders that a cluster has at paths of its own: each covers one of this machine, which stays as it is.

Standard library only: the supervisor uses it.
"""

import contextlib
import os
from collections.abc import Collection, Iterable
from pathlib import Path

from trainstack.dev.cluster.command import run
from trainstack.dev.cluster.layout import HIDDEN_MARK, Layout

WORLD_WRITABLE = 0o777
"""As dynamic volumes: containers write as root or as any number."""


def make(folder: Path, cluster: str = "") -> None:
    """Make a folder that is to be covered, with marks by which `remove` knows that it was made, and for which cluster.

    `cluster` is the name of its cgroup; empty: whoever removes the folder has seen to it that no cluster uses it.
    """
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
    with contextlib.suppress(OSError):  # without extended attributes an empty folder stays
        for each in missing:
            os.setxattr(each, HIDDEN_MARK, b"1")
        if cluster and HIDDEN_MARK in os.listxattr(folder):
            os.setxattr(folder, f"{HIDDEN_MARK}.{cluster}", b"1")


def remove(folders: Iterable[str], clusters: Collection[str]) -> None:
    """Remove what `make` has made of some folders and above them.

    Kept are those that somebody has put anything into since, and those of the clusters named: a mount on a folder that
    is removed would go in every namespace.
    """
    with_parents = {each for folder in map(Path, folders) for each in (folder, *folder.parents)}
    for each in sorted(with_parents, key=lambda path: len(path.parts), reverse=True):
        with contextlib.suppress(OSError):
            marks = os.listxattr(each)
            if HIDDEN_MARK in marks and not any(f"{HIDDEN_MARK}.{cluster}" in marks for cluster in clusters):
                each.rmdir()


def cover(layout: Layout, folders: Iterable[str]) -> None:
    """Put folders of the state at the node's paths, in the mount namespace of this process. Safe to repeat.

    A disk that this machine has mounted at such a path is covered as any folder is.
    """
    for folder in absent(layout, folders):
        source = _source(layout, folder)
        source.mkdir(parents=True, exist_ok=True)
        source.chmod(WORLD_WRITABLE)
        make(Path(folder), layout.cgroup)
        run("mount", "--bind", str(source), folder)


def absent(layout: Layout, folders: Iterable[str], pid: int | None = None) -> list[str]:
    """Those of some folders that are not the state's own in the mount namespace of a process, by default this one's.

    That something is mounted there says nothing: it may be a disk of this machine.
    """
    root = Path("/proc", str(pid or "self"), "root")
    # Of links, what they name: below that root an absolute one would lead back to this process's folders.
    return [each for each in folders if not _same(root / os.path.realpath(each)[1:], _source(layout, each))]


def _source(layout: Layout, folder: str) -> Path:
    return layout.node_folders / folder.lstrip("/")


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except FileNotFoundError:
        return False
