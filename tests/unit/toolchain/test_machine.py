"""The messages about a machine that cannot run the local cluster."""

import io
import os
import platform
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from trainstack.toolchain import debian, distribution, machine
from trainstack.toolchain.distribution import Distribution
from trainstack.toolchain.errors import ToolchainError

_STATUS = """Package: runc
Status: install ok installed
Version: 1.1.5+ds1-1

Package: socat
Status: deinstall ok config-files
Version: 1.7

Package: containerd
Status: install ok installed
Description: a runtime
 Status: not this one
Version: 1.6.20~ds1-1
"""


def make_proc(
    folder: Path, *, overlay: bool = True, namespaces: tuple[str, ...] = ("net", "mnt", "pid", "ipc", "uts")
) -> Path:
    """Create the /proc of a kernel with cgroup v1."""
    (folder / "self" / "ns").mkdir(parents=True)
    for name in namespaces:
        (folder / "self" / "ns" / name).touch()
    (folder / "filesystems").write_text("nodev\tproc\n" + ("nodev\toverlay\n" if overlay else "") + "\text4\n")
    rows = ("cpu", "memory", "pids")
    (folder / "cgroups").write_text("#subsys_name\thierarchy\n" + "".join(f"{row}\t1\t1\t1\n" for row in rows))
    return folder


def test_on_other_systems_the_message_names_other_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """The local cluster needs Linux; the program does not."""
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    (finding,) = machine.find_problems()
    assert str(finding) == (
        "only the native local cluster does not work on Darwin; it requires Debian 12 or later, or Ubuntu 24.04 or "
        "later: start it on such a machine, or in kind (`trainstack cluster up --driver kind`); another cluster works, "
        "too: `make up KUBECONFIG=…`"
    )


def test_all_that_is_missing_is_reported_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All faults are listed in one run."""
    proc = make_proc(tmp_path, overlay=False, namespaces=("mnt",))
    monkeypatch.setattr(machine, "_can_load", lambda module: False)
    whats = [finding.problem for finding in machine._kernel_problems(proc)]
    assert whats == [
        *(f"the kernel has no {name} namespaces" for name in ("net", "pid", "ipc", "uts")),
        "the kernel has no overlayfs",
    ]


def test_kernel_with_everything_has_no_finding(tmp_path: Path) -> None:
    """The kernel is that of a usual Debian machine."""
    assert list(machine._kernel_problems(make_proc(tmp_path))) == []


def test_user_who_is_not_root_gets_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Actions that need root are not tried."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(subprocess, "run", None)
    (text,) = (str(finding) for finding in machine.find_problems() if finding.problem == "not root")
    assert text == (
        "not root: run it with sudo (network namespaces, mounts and cgroups require root), or start the cluster with "
        "`trainstack cluster up --driver kind`; another cluster works, too: `make up KUBECONFIG=…`"
    )


def test_status_of_dpkg_is_read() -> None:
    """A removed package with remaining configuration is not installed."""
    assert debian.parse_installed(_STATUS) == {"runc": "1.1.5+ds1-1", "containerd": "1.6.20~ds1-1"}


def test_provided_packages_count() -> None:
    """Docker's own package contains containerd and runc, and installing Debian's would remove it."""
    status = """Package: containerd.io
Status: install ok installed
Conflicts: containerd, runc
Provides: containerd, runc (= 1.1)
Version: 1.7.27-1

Package: mawk
Status: install ok installed
Provides: awk
Version: 1.3.4
"""
    assert debian.parse_installed(status) == {
        "containerd.io": "1.7.27-1",
        "containerd": "1.7.27-1",
        "runc": "1.7.27-1",
        "mawk": "1.3.4",
        "awk": "1.3.4",
    }


def test_apt_neither_removes_packages_nor_starts_services(monkeypatch: pytest.MonkeyPatch) -> None:
    """SYSTEMD_OFFLINE is for machines with systemd, RUNLEVEL for others."""
    calls: list[tuple[list[str], dict[str, str]]] = []

    def run(command: list[str], env: dict[str, str], **_: object) -> subprocess.CompletedProcess[str]:
        calls.append((command, env))
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(debian, "read_installed", lambda: dict.fromkeys(debian.PACKAGES[1:], "1"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(subprocess, "run", run)
    debian.ensure(Console(file=io.StringIO()))
    update, install = calls
    assert update[0] == ["apt-get", "--quiet", "update"]
    assert install[0][2:] == ["install", "--yes", "--no-remove", "--no-install-recommends", debian.PACKAGES[0]]
    assert {name: install[1][name] for name in ("RUNLEVEL", "SYSTEMD_OFFLINE")} == {
        "RUNLEVEL": "1",
        "SYSTEMD_OFFLINE": "1",
    }


def test_nothing_is_run_when_nothing_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second `make up` does not run apt."""
    monkeypatch.setattr(debian, "read_installed", lambda: dict.fromkeys(debian.PACKAGES, "1"))
    monkeypatch.setattr(subprocess, "run", None)
    debian.ensure(Console(file=io.StringIO()))


def test_packages_are_named_where_they_cannot_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who is not root gets the command, on Ubuntu with the component of the packages."""
    packages = dict.fromkeys(debian.PACKAGES, "1")
    del packages["socat"], packages["runc"]
    monkeypatch.setattr(debian, "read_installed", lambda: packages)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    command = "apt-get install --no-install-recommends runc socat"
    monkeypatch.setattr(distribution, "read_distribution", lambda: Distribution("debian", "Debian", (13,), "trixie"))
    with pytest.raises(ToolchainError, match=f"{command}$"):
        debian.ensure(Console(file=io.StringIO()))
    monkeypatch.setattr(distribution, "read_distribution", lambda: Distribution("ubuntu", "Ubuntu", (24, 4), "noble"))
    with pytest.raises(ToolchainError, match=rf"{command} \(.*add-apt-repository universe\)"):
        debian.ensure(Console(file=io.StringIO()))
