"""The Debian packages that the local cluster is made of. The distribution's release pins their versions."""

import os
import shutil
import subprocess
from collections.abc import Iterable
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
_NO_SERVICES = Path("/usr/sbin/policy-rc.d")


def installed(status: str) -> dict[str, str]:
    """The installed packages and their versions, from the text of dpkg's status file."""
    found = {}
    for paragraph in status.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and line[0] != " ")
        if fields.get("Status") == "install ok installed":
            found[fields["Package"]] = fields.get("Version", "")
    return found


def installed_version(package: str) -> str | None:
    """The installed version of a package; None if it is absent or this is no Debian."""
    return _installed_here().get(package)


def missing(packages: Iterable[str] = PACKAGES) -> tuple[str, ...]:
    """Which packages are not installed here. Reads one file and runs nothing."""
    here = _installed_here()
    return tuple(package for package in packages if package not in here)


def ensure(console: Console) -> None:
    """Install what is missing: as root on Debian, else say what to install.

    Raises:
        ToolchainError: the packages cannot be installed.
    """
    absent = missing()
    if not absent:
        return
    remedy = f"install the packages yourself: apt-get install --no-install-recommends {' '.join(absent)}"
    if shutil.which("apt-get") is None:
        raise ToolchainError(f"no apt-get here: the local cluster needs Debian's {', '.join(absent)} or their equal")
    if os.geteuid() != 0:
        raise ToolchainError(f"installing Debian packages needs root: {remedy}")
    say(console, f"debian: installing {', '.join(absent)} (about 30 s)")
    with bar(console, "debian") as progress:
        progress.note("apt-get update")
        _apt(["update"], remedy)
        progress.note("apt-get install")
        _apt(["install", "--yes", "--no-install-recommends", *absent], remedy)


def _apt(arguments: list[str], remedy: str) -> None:
    # RUNLEVEL=1 tells invoke-rc.d that the machine is in single-user mode: containerd and docker-registry would else be
    # started as services of the machine. The cluster starts its own, in its own namespaces.
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    result = subprocess.run(
        ["apt-get", "--quiet", *arguments], env=environment, capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if result.returncode != 0:
        said = (result.stderr or result.stdout).strip()[-800:]
        raise ToolchainError(f"`apt-get {arguments[0]}` failed:\n{said}\nTry again, or {remedy}")


def _installed_here() -> dict[str, str]:
    return installed(_STATUS.read_text(errors="replace")) if _STATUS.exists() else {}
