"""The packages of Debian and Ubuntu that the local cluster needs. The machine's release pins their versions."""

import os
import subprocess
from pathlib import Path

from rich.console import Console

from trainstack.toolchain import distribution
from trainstack.toolchain.errors import ToolchainError
from trainstack.toolchain.progress import bar, print_line

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
    "netavark",
    "runc",
    "socat",
    "util-linux",
)

_STATUS = Path("/var/lib/dpkg/status")
"""The database of installed packages."""


def parse_installed(status: str) -> dict[str, str]:
    """Return the versions of the installed packages, also under the names that they provide.

    Docker's own package `containerd.io` provides `containerd` and `runc`; installing those would remove Docker.
    """
    versions: dict[str, str] = {}
    provided: dict[str, str] = {}
    for paragraph in status.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and line[0] != " ")
        if fields.get("Status") == "install ok installed":
            version = versions[fields["Package"]] = fields.get("Version", "")
            provided_names = (name.partition("(")[0].strip() for name in fields.get("Provides", "").split(","))
            provided |= dict.fromkeys(filter(None, provided_names), version)
    return provided | versions


def missing_packages() -> tuple[str, ...]:
    """Return the packages that are not installed. Reads one file and runs nothing."""
    installed_versions = read_installed()
    return tuple(package for package in PACKAGES if package not in installed_versions)


def ensure(console: Console) -> None:
    """Install missing packages; raise ToolchainError with the command to run if this process cannot."""
    packages = missing_packages()
    if not packages:
        return
    remedy = f"install the packages yourself: apt-get install --no-install-recommends {' '.join(packages)}"
    if distribution.read_distribution().id == "ubuntu":
        remedy += " (most are in Ubuntu's component `universe`: add-apt-repository universe)"
    if os.geteuid() != 0:
        raise ToolchainError(f"installing packages requires root: {remedy}")
    print_line(console, f"packages: installing {', '.join(packages)} (about 30 s)")
    with bar(console, "packages") as progress:
        progress.set_note("apt-get update")
        _run_apt(["update"], remedy)
        progress.set_note("apt-get install")
        # --no-remove: an installation must not replace, for example, another container runtime.
        _run_apt(["install", "--yes", "--no-remove", "--no-install-recommends", *packages], remedy)


def _run_apt(arguments: list[str], remedy: str) -> None:
    # RUNLEVEL=1 (single-user mode) keeps invoke-rc.d, and SYSTEMD_OFFLINE keeps systemctl, from starting containerd and
    # docker-registry as services of the machine: the cluster runs them in its own namespaces.
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1", "SYSTEMD_OFFLINE": "1"}
    result = subprocess.run(
        ["apt-get", "--quiet", *arguments], env=environment, capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if result.returncode != 0:
        output = (result.stderr or result.stdout).strip()[-800:]
        raise ToolchainError(f"`apt-get {arguments[0]}` failed:\n{output}\nTry again, or {remedy}")


def read_installed() -> dict[str, str]:
    return parse_installed(_STATUS.read_text(errors="replace")) if _STATUS.exists() else {}
