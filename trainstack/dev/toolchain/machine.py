"""What this machine lacks for the local cluster. Reads /proc and /sys; the one probe that it makes leaves nothing."""

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainstack.dev.toolchain import debian

_ELSEWHERE = "or use another cluster: `make up KUBECONFIG=…`"

_MODULE_FOR = {"veth": "veth", "bridge": "bridge", "dummy": "dummy"}


@dataclass(frozen=True, order=True)
class Finding:
    """One thing that is missing."""

    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}: {self.remedy}, {_ELSEWHERE}"


def missing() -> list[Finding]:
    """All that is missing, in the order in which to mend it; empty on a machine that can run the local cluster.

    Missing Debian packages are no finding where they can be installed: `make up` installs them.
    """
    system, processor = platform.system(), platform.machine()
    if system != "Linux":
        return [Finding(f"this is {system}, and the local cluster needs Linux", "use a Linux machine")]
    findings = []
    if processor not in ("x86_64", "aarch64"):
        findings.append(Finding(f"processor {processor} is not supported", "use an x86-64 machine"))
    if os.geteuid() != 0:
        findings.append(Finding("not root", "run it as root (network namespaces, mounts and cgroups need it)"))
    findings += _kernel(Path("/proc"))
    if os.geteuid() == 0 and not findings:
        findings += _probes()
    if (absent := debian.missing()) and shutil.which("apt-get") is None:
        findings.append(Finding(f"programs of Debian's {', '.join(absent)} are missing", "install their equal"))
    return findings


def _kernel(proc: Path) -> Iterator[Finding]:
    """What the kernel does not offer."""
    for namespace in ("net", "mnt", "pid", "ipc", "uts"):
        if not (proc / "self" / "ns" / namespace).exists():
            yield Finding(f"the kernel has no {namespace} namespaces", "use a kernel built with CONFIG_NAMESPACES")
    filesystems = (proc / "filesystems").read_text().split()
    if "overlay" not in filesystems and not _loads("overlay"):
        yield Finding("the kernel has no overlayfs", "load the module: `modprobe overlay`")
    controllers = _controllers(proc)
    if lacking := sorted({"cpu", "memory", "pids"} - controllers):
        yield Finding(
            f"no cgroup controller {', '.join(lacking)}", "enable it on the kernel's command line (cgroup_enable=…)"
        )


def _controllers(proc: Path) -> set[str]:
    """The enabled cgroup controllers, of either cgroup version."""
    table = (proc / "cgroups").read_text().splitlines() if (proc / "cgroups").exists() else []
    rows = [line.split() for line in table if not line.startswith("#")]
    found = {row[0] for row in rows if len(row) == 4 and row[3] == "1"}
    unified = Path("/sys/fs/cgroup/cgroup.controllers")
    return found | set(unified.read_text().split() if unified.exists() else [])


def _probes() -> Iterator[Finding]:
    """What only a try shows: capabilities that root may lack in a container, and networking that may be built out.

    All of it happens in a network and mount namespace of its own, which ends with the command.
    """
    probes = (
        ("no network or mount namespace can be made", "give root CAP_SYS_ADMIN", "true"),
        ("no veth pair can be made", "load the module: `modprobe veth`", "ip link add t0 type veth peer name t1"),
        ("no bridge can be made", "load the module: `modprobe bridge`", "ip link add b0 type bridge"),
        ("iptables does not work", "load the modules: `modprobe ip_tables iptable_nat`", "iptables -t nat -L -n"),
    )
    if shutil.which("unshare") is None:
        return
    for what, remedy, command in probes:
        if shutil.which(command.split()[0]) is None:
            continue
        tried = subprocess.run(
            ["unshare", "--net", "--mount", "--", *command.split()], capture_output=True, text=True, check=False
        )
        if tried.returncode != 0:
            detail = (tried.stderr.strip().splitlines() or ["no message"])[-1]
            yield Finding(f"{what} ({detail})", remedy)


def _loads(module: str) -> bool:
    """Whether the kernel can load a module: it does so by itself at the first use."""
    known = Path("/lib/modules") / platform.release() / "modules.dep"
    return known.exists() and f"/{module}.ko" in known.read_text()
