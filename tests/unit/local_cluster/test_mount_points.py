"""Folders at which a cluster mounts its own."""

from pathlib import Path

import pytest

from trainstack.local_cluster import mount_points
from trainstack.local_cluster.state_folder import Layout

MOUNTED = "/proc"
"""A path at which every machine with these tests has a mount that is not the cluster's."""


def make_covered(layout: Layout, folder: Path) -> str:
    """Return a path where the state's folder is mounted, as by a bind mount, which needs rights."""
    source = layout.node_folders / str(folder).lstrip("/")
    source.mkdir(parents=True)
    folder.symlink_to(source)
    return str(folder)


def test_a_folder_is_covered_by_the_states_alone(tmp_path: Path) -> None:
    """A mounted disk, a folder of this machine and a missing path are not the cluster's."""
    layout = Layout(tmp_path / "state")
    (tmp_path / "plain").mkdir()
    plain, missing = str(tmp_path / "plain"), str(tmp_path / "gone")
    (layout.node_folders / plain.lstrip("/")).mkdir(parents=True)
    assert mount_points.missing_folders(layout, [MOUNTED, plain, missing]) == [MOUNTED, plain, missing]
    covered = make_covered(layout, tmp_path / "linked")
    assert mount_points.missing_folders(layout, [covered, plain]) == [plain]


def test_a_mounted_disk_is_covered_by_a_mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods would otherwise write to the user's disk."""
    layout, commands = Layout(tmp_path / "state"), list[tuple[str, ...]]()
    monkeypatch.setattr(mount_points, "run", lambda *words: commands.append(words))
    covered = make_covered(layout, tmp_path / "linked")
    mount_points.mount_folders(layout, [MOUNTED, covered])
    source = layout.node_folders / MOUNTED.lstrip("/")
    assert source.stat().st_mode & 0o777 == mount_points.WORLD_WRITABLE
    assert commands == [("mount", "--bind", str(source), MOUNTED)]
