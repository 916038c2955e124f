"""The selection of a cluster's driver."""

import os
from pathlib import Path

import pytest

from trainstack.local_cluster import drivers
from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.kind.engine import PROVIDER_VARIABLE
from trainstack.local_cluster.spec import ClusterSpec
from trainstack.toolchain import distribution
from trainstack.toolchain.distribution import Distribution


def make_programs(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("user", "distribution_id", "programs", "expected"),
    [
        (0, "debian", ("kind", "docker"), "native"),
        (0, "fedora", ("kind", "docker"), "kind"),
        (0, "fedora", ("docker",), "native"),
        (1000, "debian", ("kind", "docker"), "kind"),
        (1000, "debian", ("kind",), "native"),
        (1000, "debian", ("docker",), "native"),
    ],
)
def test_the_default_of_a_new_cluster(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    user: int,
    distribution_id: str,
    programs: tuple[str, ...],
    expected: str,
) -> None:
    """Root's default is the native cluster even with kind installed: kind is for users and systems without support."""
    make_programs(tmp_path, *programs)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(PROVIDER_VARIABLE, raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(distribution, "read_distribution", lambda: Distribution(distribution_id))
    assert drivers.default_driver(tmp_path / "cluster") == expected


def test_a_cluster_keeps_its_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who is not root finds root's native cluster, and no other driver continues it."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    (tmp_path / "spec.json").write_text(ClusterSpec().to_json())
    assert drivers.choose_driver(tmp_path, None) == drivers.choose_driver(tmp_path, "native") == "native"
    with pytest.raises(
        LocalClusterError, match=r"has a native cluster, which a kind cluster cannot continue; .*--wipe"
    ):
        drivers.choose_driver(tmp_path, "kind")


def test_images_of_kind_need_kind(tmp_path: Path) -> None:
    """The native driver has no node image."""
    with pytest.raises(LocalClusterError, match="require the kind driver"):
        drivers.up(tmp_path, driver="native", node_image="kindest/node:v1.34.0")
    assert list(tmp_path.iterdir()) == []
