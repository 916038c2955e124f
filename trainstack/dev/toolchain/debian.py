"""The Debian packages that the local cluster needs. Debian's release pins their versions."""

import os
import shutil
import subprocess
from pathlib import Path

from rich.console import Console

from trainstack.dev.toolchain.errors import ToolchainError
from trainstack.dev.toolchain.progress import bar, say

PACKAGES = (
    "buildah",
    "busybox-static",
    "conntrack",
    "containerd",
    "containernetworking-plugins",
    "debian-archive-keyring",
    "debootstrap",
    "docker-registry",
    "iproute2",
    "iptables",
    "runc",
    "socat",
    "util-linux",
)

_STATUS = Path("/var/lib/dpkg/status")


def installed(status: str) -> dict[str, str]:
    found = {}
    for paragraph in status.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and line[0] != " ")
        if fields.get("Status") == "install ok installed":
            found[fields["Package"]] = fields.get("Version", "")
    return found


def missing() -> tuple[str, ...]:
    """Return the packages that are not installed. Reads one file and runs nothing."""
    found = installed_here()
    return tuple(package for package in PACKAGES if package not in found)


def ensure(console: Console) -> None:
    """Install missing packages; raise ToolchainError with the command to run if this process cannot."""
    absent = missing()
    if not absent:
        return
    remedy = f"install the packages yourself: apt-get install --no-install-recommends {' '.join(absent)}"
    if shutil.which("apt-get") is None:
        raise ToolchainError(
            f"apt-get is not on PATH: install the equivalents of the Debian packages {', '.join(absent)}, which the "
            "local cluster needs"
        )
    if os.geteuid() != 0:
        raise ToolchainError(f"installing Debian packages requires root: {remedy}")
    say(console, f"debian: installing {', '.join(absent)} (about 30 s)")
    with bar(console, "debian") as progress:
        progress.note("apt-get update")
        _apt(["update"], remedy)
        progress.note("apt-get install")
        _apt(["install", "--yes", "--no-install-recommends", *absent], remedy)


def _apt(arguments: list[str], remedy: str) -> None:
    # RUNLEVEL=1 (single-user mode) keeps invoke-rc.d from starting containerd and docker-registry as services of the
    # machine. The cluster starts its own, in its own namespaces.
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    result = subprocess.run(
        ["apt-get", "--quiet", *arguments], env=environment, capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if result.returncode != 0:
        output = (result.stderr or result.stdout).strip()[-800:]
        raise ToolchainError(f"`apt-get {arguments[0]}` failed:\n{output}\nTry again, or {remedy}")


def installed_here() -> dict[str, str]:
    return installed(_STATUS.read_text(errors="replace")) if _STATUS.exists() else {}
