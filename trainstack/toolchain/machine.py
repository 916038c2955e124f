"""The problems of this machine that prevent a local cluster, read from /proc and /sys and by probes without a trace."""

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainstack.toolchain import distribution
from trainstack.toolchain.distribution import SUPPORTED

_ELSEWHERE = "another cluster works, too: `make up KUBECONFIG=…`"


@dataclass(frozen=True, order=True)
class Finding:
    """A reason why the native local cluster cannot run here."""

    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}: {self.remedy}; {_ELSEWHERE}"


def missing() -> list[Finding]:
    """Return the problems in the order in which to solve them.

    Missing packages are not reported: `make up` installs them.
    """
    system, processor = platform.system(), platform.machine()
    if system != "Linux":
        return [_elsewhere(system)]
    here = distribution.read()
    findings = [] if here.supported else [_elsewhere(here.name)]
    if processor not in ("x86_64", "aarch64"):
        findings.append(Finding(f"processor {processor} is not supported", "use an x86-64 machine"))
    if os.geteuid() != 0:
        remedy = (
            "run it with sudo (network namespaces, mounts and cgroups require root), or start the cluster with "
            "`trainstack cluster up --driver kind`"
        )
        findings.append(Finding("not root", remedy))
    findings += _kernel(Path("/proc"))
    if os.geteuid() == 0 and not findings:
        findings += _probes()
    return findings


def _elsewhere(name: str) -> Finding:
    """Return the problem of a system on which everything but the native local cluster works."""
    return Finding(
        f"only the native local cluster does not work on {name}; it requires {SUPPORTED}",
        "start it on such a machine, or in kind (`trainstack cluster up --driver kind`)",
    )


def _kernel(proc: Path) -> Iterator[Finding]:
    for namespace in ("net", "mnt", "pid", "ipc", "uts"):
        if not (proc / "self" / "ns" / namespace).exists():
            yield Finding(f"the kernel has no {namespace} namespaces", "use a kernel built with CONFIG_NAMESPACES")
    filesystems = (proc / "filesystems").read_text().split()
    if "overlay" not in filesystems and not _loads("overlay"):
        yield Finding("the kernel has no overlayfs", "load the module: `modprobe overlay`")
    if lacking := ", ".join(sorted({"cpu", "memory", "pids"} - _controllers(proc))):
        yield Finding(
            f"cgroup controllers not enabled: {lacking}", "enable them on the kernel command line (cgroup_enable=…)"
        )


def _controllers(proc: Path) -> set[str]:
    """Return the enabled cgroup controllers of either cgroup version."""
    table = (proc / "cgroups").read_text().splitlines() if (proc / "cgroups").exists() else []
    rows = [line.split() for line in table if not line.startswith("#")]
    found = {row[0] for row in rows if len(row) == 4 and row[3] == "1"}
    unified = Path("/sys/fs/cgroup/cgroup.controllers")
    return found | set(unified.read_text().split() if unified.exists() else [])


def _probes() -> Iterator[Finding]:
    """Yield the problems that only an attempt shows: capabilities that root lacks in a container, and networking.

    Each attempt runs in its own network and mount namespaces, which end with the command.
    """
    probes = (
        ("cannot create network and mount namespaces", "give root CAP_SYS_ADMIN", "true"),
        ("cannot create a veth pair", "load the module: `modprobe veth`", "ip link add t0 type veth peer name t1"),
        ("cannot create a bridge", "load the module: `modprobe bridge`", "ip link add b0 type bridge"),
        ("iptables does not work", "load the modules: `modprobe ip_tables iptable_nat`", "iptables -t nat -L -n"),
    )
    if shutil.which("unshare") is None:
        return
    for what, remedy, command in probes:
        if shutil.which(command.split()[0]) is None:
            continue
        result = subprocess.run(
            ["unshare", "--net", "--mount", "--", *command.split()], capture_output=True, text=True, check=False
        )
        if result.returncode != 0:
            detail = (result.stderr.strip().splitlines() or ["no message"])[-1]
            yield Finding(f"{what} ({detail})", remedy)


def _loads(module: str) -> bool:
    """Return whether the kernel can load a module, which it does on first use."""
    modules = Path("/lib/modules") / platform.release() / "modules.dep"
    return modules.exists() and f"/{module}.ko" in modules.read_text()
