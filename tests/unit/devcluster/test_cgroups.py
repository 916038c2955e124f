"""The cluster's own cgroups, on a copy of the files that the kernel shows."""

from pathlib import Path

from trainstack.dev.cluster import cgroups
from trainstack.dev.cluster.cgroups import Hierarchy

MOUNTS = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""


def test_hierarchies_are_found_with_their_version() -> None:
    """v1, v2 and both at once; optional fields of a mount do not confuse."""
    assert cgroups.parse(MOUNTS) == [
        Hierarchy(Path("/sys/fs/cgroup/cpu,cpuacct"), 1),
        Hierarchy(Path("/sys/fs/cgroup/unified"), 2),
    ]
    unified = "29 23 0:25 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
    assert cgroups.parse(unified) == [Hierarchy(Path("/sys/fs/cgroup"), 2)]


def test_on_v2_controllers_are_handed_down_to_the_pods(tmp_path: Path) -> None:
    """The kubelet finds its controllers in the cluster's folder; what is on already is not written again."""
    folder = tmp_path / "trainstack-1"
    folder.mkdir()
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory hugetlb pids rdma\n")
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory pids\n")
    (folder / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    (folder / "cgroup.subtree_control").write_text("")
    cgroups.create("trainstack-1", [Hierarchy(tmp_path, 2)])
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpuset +io"
    assert (folder / "cgroup.subtree_control").read_text() == "+cpuset +cpu +io +memory +pids"
    assert (folder / cgroups.LEAF).is_dir()


def test_on_v1_an_empty_cpuset_is_filled_from_its_parent(tmp_path: Path) -> None:
    """Otherwise no process could enter it; a set that somebody chose is kept."""
    for folder, text in (
        (tmp_path, "0-1\n"),
        (tmp_path / "cluster", "\n"),
        (tmp_path / "cluster" / cgroups.LEAF, "1\n"),
    ):
        folder.mkdir(exist_ok=True)
        (folder / "cpuset.cpus").write_text(text)
    cgroups.create("cluster", [Hierarchy(tmp_path, 1)])
    assert (tmp_path / "cluster/cpuset.cpus").read_text() == "0-1\n"
    assert (tmp_path / "cluster" / cgroups.LEAF / "cpuset.cpus").read_text() == "1\n"


def test_removing_what_is_not_there_is_fine(tmp_path: Path) -> None:
    """`down` may run twice, or before any `up`."""
    cgroups.remove("cluster", [Hierarchy(tmp_path, 1), Hierarchy(tmp_path / "absent", 2)], seconds=1)
