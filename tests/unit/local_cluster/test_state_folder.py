"""The state folder of a local cluster is closed to other accounts."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainstack.local_cluster.cluster import discard_progress, lock_cluster
from trainstack.local_cluster.state_folder import Layout


@pytest.fixture
def shared() -> Iterator[Path]:
    """Yield a folder that all accounts can read, as a checkout on a shared machine."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.parametrize("former", [None, 0o755, 0o777])
def test_each_command_closes_the_state_folder(tmp_path: Path, former: int | None) -> None:
    """Also a folder that others could read."""
    layout = Layout.of(tmp_path / "checkout" / ".trainstack" / "cluster")
    if former is not None:
        layout.state.mkdir(parents=True)
        layout.state.chmod(former)
    with lock_cluster(layout, discard_progress):
        assert layout.state.stat().st_mode & 0o777 == 0o700
    assert layout.state.parent.stat().st_mode & 0o777 == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="only root acts as another account")
def test_no_other_account_reaches_a_volume(shared: Path) -> None:
    """Although the volume's own folder is open, because pods of any user write to it."""
    layout = Layout.of(shared / "cluster")
    with lock_cluster(layout, discard_progress):
        volume = layout.volumes / "node" / "claim"
        volume.mkdir(parents=True)
        volume.chmod(0o777)
    for command in (["ls", str(volume)], ["touch", str(volume / "file")]):
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, user=65534, group=65534, extra_groups=[]
        )
        assert (done.returncode != 0, "Permission denied" in done.stderr) == (True, True), done
    assert list(volume.iterdir()) == []
