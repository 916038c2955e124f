"""Folders of the cluster mounted at fixed paths, over this machine's folders, which stay unchanged.

Standard library only: the supervisor uses it.
"""

import contextlib
import os
from collections.abc import Collection, Iterable
from pathlib import Path

from trainstack.local_cluster.command import run
from trainstack.local_cluster.layout import HIDDEN_MARK, Layout

WORLD_WRITABLE = 0o777
"""As for dynamic volumes: containers write as root or as any user."""


def make(folder: Path, cluster: str = "") -> None:
    """Create a mount point, marked so that `remove` can recognize it and the cluster that uses it.

    `cluster` is its cgroup's name; empty if the caller of `remove` has checked that no cluster uses the folder.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
    with contextlib.suppress(OSError):  # without extended attributes an empty folder stays
        for path in missing:
            os.setxattr(path, HIDDEN_MARK, b"1")
        if cluster and HIDDEN_MARK in os.listxattr(folder):
            os.setxattr(folder, f"{HIDDEN_MARK}.{cluster}", b"1")


def remove(folders: Iterable[str], clusters: Collection[str]) -> None:
    """Remove folders, and parents of them, that `make` created.

    Folders with files, and those of the given clusters, stay: removing a mount point would unmount it in every
    namespace.
    """
    with_parents = {path for folder in map(Path, folders) for path in (folder, *folder.parents)}
    for path in sorted(with_parents, key=lambda path: len(path.parts), reverse=True):
        with contextlib.suppress(OSError):
            marks = os.listxattr(path)
            if HIDDEN_MARK in marks and not any(f"{HIDDEN_MARK}.{cluster}" in marks for cluster in clusters):
                path.rmdir()


def cover(layout: Layout, folders: Iterable[str]) -> None:
    """Mount the state's folders at the node's paths, in this process's mount namespace. Safe to repeat.

    It also covers a disk that this machine has mounted at such a path.
    """
    for folder in absent(layout, folders):
        source = _source(layout, folder)
        source.mkdir(parents=True, exist_ok=True)
        source.chmod(WORLD_WRITABLE)
        make(Path(folder), layout.cgroup)
        run("mount", "--bind", str(source), folder)


def absent(layout: Layout, folders: Iterable[str], pid: int | None = None) -> list[str]:
    """Return the folders that are not the state's own in a process's mount namespace, by default this one's.

    The existence of a mount is not enough: it may be a disk of this machine.
    """
    root = Path("/proc", str(pid or "self"), "root")
    # Links are resolved first: below that root an absolute link would lead back to this process's folders.
    return [path for path in folders if not _same(root / os.path.realpath(path)[1:], _source(layout, path))]


def _source(layout: Layout, folder: str) -> Path:
    return layout.node_folders / folder.lstrip("/")


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except FileNotFoundError:
        return False
