"""The cluster's cgroups, on a copy of the kernel's files."""

import errno
from pathlib import Path

import pytest

from trainstack.local_cluster import cgroups
from trainstack.local_cluster.cgroups import Hierarchy
from trainstack.local_cluster.errors import LocalClusterError

MOUNTS = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""


def test_hierarchies_are_found_with_their_version() -> None:
    """The cases are v1, v2 and both; optional fields of a mount are skipped."""
    assert cgroups.parse_hierarchies(MOUNTS) == [
        Hierarchy(Path("/sys/fs/cgroup/cpu,cpuacct"), 1),
        Hierarchy(Path("/sys/fs/cgroup/unified"), 2),
    ]
    unified = "29 23 0:25 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
    assert cgroups.parse_hierarchies(unified) == [Hierarchy(Path("/sys/fs/cgroup"), 2)]


def test_on_v2_controllers_are_handed_down_to_the_pods(tmp_path: Path) -> None:
    """The kubelet finds its controllers in the cluster's folder; enabled ones are not written again."""
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
    """Otherwise no process could join it; an existing set is kept."""
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


class Kernel:
    """A cgroup v2 file system in a folder, with the kernel's rule against processes in inner cgroups."""

    def __init__(self, root: Path, pids: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.ended, self.stuck = root, set[str](), set[str]()
        self.write, self.make = Path.write_text, Path.mkdir
        self.fill(root, "cpuset cpu io memory pids", pids)
        monkeypatch.setattr(Path, "write_text", lambda path, text: self.update(path, text))  # noqa: PLW0108  binds `path`
        monkeypatch.setattr(Path, "mkdir", lambda path, exist_ok=False: self.create(path, exist_ok=exist_ok))

    def fill(self, folder: Path, controllers: str, pids: set[str]) -> None:
        for name, text in (("controllers", controllers), ("subtree_control", ""), ("procs", "\n".join(sorted(pids)))):
            self.write(folder / f"cgroup.{name}", text)

    def create(self, path: Path, *, exist_ok: bool) -> None:
        fresh = not path.exists()
        self.make(path, exist_ok=exist_ok)
        if fresh:
            self.fill(path, (path.parent / "cgroup.subtree_control").read_text(), set())

    def update(self, path: Path, text: str) -> int:
        folder = path.parent
        if path.name == "cgroup.subtree_control":
            if (folder / "cgroup.procs").read_text():
                raise OSError(errno.EBUSY, "Device or resource busy", str(path))
            enabled = path.read_text().split()
            names = [name.removeprefix("+") for name in text.split()]
            assert set(names) <= {*(folder / "cgroup.controllers").read_text().split()}
            self.write(path, " ".join([*enabled, *names]))
            for child in folder.iterdir():
                if child.is_dir():
                    self.write(child / "cgroup.controllers", path.read_text())
        elif path.name == "cgroup.procs":
            if text in self.ended:
                self.forget(text)
                raise ProcessLookupError(errno.ESRCH, "No such process", str(path))
            if text in self.stuck:
                return len(text)
            if (folder / "cgroup.subtree_control").read_text():
                raise OSError(errno.EBUSY, "Device or resource busy", str(path))
            self.forget(text)
            self.write(path, "\n".join([*path.read_text().split(), text]))
        return len(text)

    def forget(self, pid: str) -> None:
        for procs in self.root.rglob("cgroup.procs"):
            self.write(procs, "\n".join(other for other in procs.read_text().split() if other != pid))


def test_in_a_container_on_v2_its_processes_move_to_a_leaf_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel refuses controllers for the children of a cgroup with processes; ended ones are ignored."""
    kernel = Kernel(tmp_path, {"1", "7", "9"}, monkeypatch)
    kernel.ended.add("9")
    cgroups.create("trainstack-1", [Hierarchy(tmp_path, 2)])
    assert (tmp_path / "cgroup.procs").read_text() == ""
    assert (tmp_path / cgroups.INIT / "cgroup.procs").read_text().split() == ["1", "7"]
    assert (tmp_path / "trainstack-1" / "cgroup.subtree_control").read_text() == "cpuset cpu io memory pids"
    assert cgroups.cluster_names([Hierarchy(tmp_path, 2)]) == {"trainstack-1"}


def test_processes_that_do_not_move_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's reason is kept, and the wait ends."""
    Kernel(tmp_path, {"1"}, monkeypatch).stuck.add("1")
    monkeypatch.setattr(cgroups, "VACATE_SECONDS", 0.0)
    with pytest.raises(LocalClusterError, match="resource busy"):
        cgroups.create("trainstack-1", [Hierarchy(tmp_path, 2)])


def test_without_processes_nothing_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No leaf is created where the controllers can be enabled at once."""
    Kernel(tmp_path, set(), monkeypatch)
    cgroups.create("trainstack-1", [Hierarchy(tmp_path, 2)])
    assert not (tmp_path / cgroups.INIT).exists()
