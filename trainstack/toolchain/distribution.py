"""This machine's Linux distribution, and the ones that can run the local cluster."""

import shlex
from dataclasses import dataclass
from pathlib import Path

OLDEST = {"debian": (12,), "ubuntu": (24, 4)}
"""The oldest supported release of each distribution, by the field `ID` of os-release. Ubuntu 22.04 is too old: its
package `debian-archive-keyring` lacks the keys of Debian 12, from which the base image is built."""
SUPPORTED = "Debian 12 or later, or Ubuntu 24.04 or later"
_FILES = ("etc/os-release", "usr/lib/os-release")


@dataclass(frozen=True)
class Distribution:
    """Fields of os-release.

    Source: https://www.freedesktop.org/software/systemd/man/latest/os-release.html
    """

    id: str = "linux"
    name: str = "an unknown distribution"
    version: tuple[int, ...] = ()
    """The release; () for a rolling or unreleased one, such as Debian testing."""
    codename: str = ""

    @property
    def is_supported(self) -> bool:
        return self.id in OLDEST and (not self.version or self.version >= OLDEST[self.id])


def read_distribution(root: Path = Path("/")) -> Distribution:
    file = next((root / name for name in _FILES if (root / name).is_file()), None)
    if file is None:
        return Distribution()
    assignments = shlex.split(file.read_text(encoding="utf-8", errors="replace"), comments=True)
    fields = {key: value for key, _, value in (assignment.partition("=") for assignment in assignments)}
    version = fields.get("VERSION_ID", "").split(".")
    return Distribution(
        id=fields.get("ID", "linux"),
        name=fields.get("PRETTY_NAME") or fields.get("NAME", "an unknown distribution"),
        version=tuple(int(part) for part in version) if all(part.isdecimal() for part in version) else (),
        codename=fields.get("VERSION_CODENAME", ""),
    )
