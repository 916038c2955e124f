"""Mount points at which a cluster's folders cover this machine's folders, which stay unchanged.

Standard library only, because the supervisor imports it.
"""

import contextlib
import os
from collections.abc import Collection, Iterable
from pathlib import Path

from trainstack.local_cluster.command import run
from trainstack.local_cluster.state_folder import MOUNT_POINT_ATTRIBUTE, Layout

WORLD_WRITABLE = 0o777
"""The mode of node folders, as of dynamic volumes: containers write as root or as any user."""


def make_mount_point(folder: Path, cluster: str = "") -> None:
    """Create a mount point, with attributes by which `remove_mount_points` recognizes it and the cluster that uses it.

    `cluster` is the name of the cluster's cgroup; empty for a folder that all clusters use.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
    with contextlib.suppress(OSError):  # without extended attributes, an empty folder remains
        for path in missing:
            os.setxattr(path, MOUNT_POINT_ATTRIBUTE, b"1")
        if cluster and MOUNT_POINT_ATTRIBUTE in os.listxattr(folder):
            os.setxattr(folder, f"{MOUNT_POINT_ATTRIBUTE}.{cluster}", b"1")


def remove_mount_points(folders: Iterable[str], clusters: Collection[str]) -> None:
    """Remove folders, and their parents, that `make_mount_point` created.

    Folders with files, and those that `clusters` use, remain: the removal of a mount point would unmount it in every
    namespace.
    """
    with_parents = {path for folder in map(Path, folders) for path in (folder, *folder.parents)}
    for path in sorted(with_parents, key=lambda path: len(path.parts), reverse=True):
        with contextlib.suppress(OSError):
            marks = os.listxattr(path)
            if MOUNT_POINT_ATTRIBUTE in marks and not any(
                f"{MOUNT_POINT_ATTRIBUTE}.{cluster}" in marks for cluster in clusters
            ):
                path.rmdir()


def mount_folders(layout: Layout, folders: Iterable[str]) -> None:
    """Mount folders of the state folder at the node's paths, in this process's mount namespace. Safe to repeat.

    A disk that this machine has mounted at such a path is covered, too.
    """
    for folder in missing_folders(layout, folders):
        source = _state_folder(layout, folder)
        source.mkdir(parents=True, exist_ok=True)
        source.chmod(WORLD_WRITABLE)
        make_mount_point(Path(folder), layout.cgroup)
        run("mount", "--bind", str(source), folder)


def missing_folders(layout: Layout, folders: Iterable[str], pid: int | None = None) -> list[str]:
    """Return the folders that are not mounted from the state folder, in the mount namespace of `pid` (default: this
    process).

    The existence of a mount is not enough: it may be a disk of this machine.
    """
    root = Path("/proc", str(pid or "self"), "root")
    # Links are resolved first: under that root, the kernel resolves an absolute link in this process's root.
    return [
        path for path in folders if not _is_same_folder(root / os.path.realpath(path)[1:], _state_folder(layout, path))
    ]


def _state_folder(layout: Layout, folder: str) -> Path:
    return layout.node_folders / folder.lstrip("/")


def _is_same_folder(path: Path, other_path: Path) -> bool:
    try:
        return path.samefile(other_path)
    except FileNotFoundError:
        return False
