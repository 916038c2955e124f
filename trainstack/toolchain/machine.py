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

_ALTERNATIVE = "another cluster works, too: `make up KUBECONFIG=…`"


@dataclass(frozen=True, order=True)
class MachineProblem:
    """A reason why the native local cluster cannot run here."""

    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.problem}: {self.remedy}; {_ALTERNATIVE}"


def find_problems() -> list[MachineProblem]:
    """Return the problems in the order in which to solve them.

    Missing packages are not reported: `make up` installs them.
    """
    system, processor = platform.system(), platform.machine()
    if system != "Linux":
        return [_unsupported_system(system)]
    release = distribution.read_distribution()
    problems = [] if release.is_supported else [_unsupported_system(release.name)]
    if processor not in ("x86_64", "aarch64"):
        problems.append(MachineProblem(f"processor {processor} is not supported", "use an x86-64 machine"))
    if os.geteuid() != 0:
        remedy = (
            "run it with sudo (network namespaces, mounts and cgroups require root), or start the cluster with "
            "`trainstack cluster up --driver kind`"
        )
        problems.append(MachineProblem("not root", remedy))
    problems += _kernel_problems(Path("/proc"))
    if os.geteuid() == 0 and not problems:
        problems += _probe_problems()
    return problems


def _unsupported_system(name: str) -> MachineProblem:
    """Return the problem of a system on which everything but the native local cluster works."""
    return MachineProblem(
        f"only the native local cluster does not work on {name}; it requires {SUPPORTED}",
        "start it on such a machine, or in kind (`trainstack cluster up --driver kind`)",
    )


def _kernel_problems(proc: Path) -> Iterator[MachineProblem]:
    for namespace in ("net", "mnt", "pid", "ipc", "uts"):
        if not (proc / "self" / "ns" / namespace).exists():
            yield MachineProblem(
                f"the kernel has no {namespace} namespaces", "use a kernel built with CONFIG_NAMESPACES"
            )
    filesystems = (proc / "filesystems").read_text().split()
    if "overlay" not in filesystems and not _can_load("overlay"):
        yield MachineProblem("the kernel has no overlayfs", "load the module: `modprobe overlay`")
    if missing_controllers := ", ".join(sorted({"cpu", "memory", "pids"} - _enabled_controllers(proc))):
        yield MachineProblem(
            f"cgroup controllers not enabled: {missing_controllers}",
            "enable them on the kernel command line (cgroup_enable=…)",
        )


def _enabled_controllers(proc: Path) -> set[str]:
    """Return the enabled cgroup controllers of either cgroup version."""
    table = (proc / "cgroups").read_text().splitlines() if (proc / "cgroups").exists() else []
    rows = [line.split() for line in table if not line.startswith("#")]
    enabled = {row[0] for row in rows if len(row) == 4 and row[3] == "1"}
    unified = Path("/sys/fs/cgroup/cgroup.controllers")
    return enabled | set(unified.read_text().split() if unified.exists() else [])


def _probe_problems() -> Iterator[MachineProblem]:
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
    for problem, remedy, command in probes:
        if shutil.which(command.split()[0]) is None:
            continue
        result = subprocess.run(
            ["unshare", "--net", "--mount", "--", *command.split()], capture_output=True, text=True, check=False
        )
        if result.returncode != 0:
            detail = (result.stderr.strip().splitlines() or ["no message"])[-1]
            yield MachineProblem(f"{problem} ({detail})", remedy)


def _can_load(module: str) -> bool:
    """Return whether the kernel can load a module, which it does on first use."""
    modules = Path("/lib/modules") / platform.release() / "modules.dep"
    return modules.exists() and f"/{module}.ko" in modules.read_text()
