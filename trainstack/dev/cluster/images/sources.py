"""Read which Debian mirrors this machine uses, for the base image."""

import email
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainstack.dev.cluster.errors import ClusterError

SUITE = "bookworm"
"""Debian 12, the base image's release."""
APT = Path("/etc/apt")


@dataclass(frozen=True, order=True)
class Source:
    """An archive and suite; only the component `main` is used."""

    suite: str
    uri: str

    @property
    def line(self) -> str:
        return f"deb {self.uri} {self.suite} main"


def read(folder: Path = APT) -> list[Source]:
    """Return this machine's sources of Debian 12, one for each suite, the release suite first."""
    files = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*.list"))]
    found = [source for file in files if file.is_file() for source in parse_list(file.read_text())]
    for file in sorted((folder / "sources.list.d").glob("*.sources")):
        found += parse_deb822(file.read_text())
    first = {source.suite: source for source in reversed(found)}
    if SUITE not in first:
        raise ClusterError(
            f"{folder} has no source of Debian 12 (suite {SUITE}, component main), which the base image is built from; "
            f"add one, for example as {folder}/sources.list.d/{SUITE}.list."
        )
    return sorted(first.values())


def parse_list(text: str) -> list[Source]:
    """Parse a one-line-style file: `deb [options] URI SUITE COMPONENT…`."""
    found = []
    for line in text.splitlines():
        fields = re.sub(r"\[[^]]*\]?", "", line.partition("#")[0], count=1).split()
        if len(fields) >= 4 and fields[0] == "deb":
            found += _select([fields[1]], [fields[2]], fields[3:])
    return found


def parse_deb822(text: str) -> list[Source]:
    """Parse a deb822-style file: paragraphs of `Key: value`, continued by indented lines."""
    found = []
    for paragraph in re.split(r"\n\s*\n", re.sub(r"(?m)^#.*\n?", "", text)):
        fields = email.message_from_string(paragraph.lstrip())
        if fields.get("Enabled", "yes").strip().lower() != "no" and "deb" in fields.get("Types", "").split():
            uris, suites, components = (fields.get(key, "").split() for key in ("URIs", "Suites", "Components"))
            found += _select(uris, suites, components)
    return found


def _select(uris: Iterable[str], suites: Sequence[str], components: Iterable[str]) -> list[Source]:
    if "main" not in components:
        return []
    accepted = (SUITE, f"{SUITE}-updates", f"{SUITE}-security")
    return [Source(suite, uri.rstrip("/")) for uri in uris for suite in suites if suite in accepted]


def acquire_settings(dump: str) -> str:
    """Return the settings in `apt-config dump` that apt in the image needs: proxies, retries, clock tolerance."""
    prefixes = ("Acquire::http", "Acquire::https", "Acquire::Retries", "Acquire::Check-")
    kept = [line for line in dump.splitlines() if line.startswith(prefixes)]
    return "\n".join([*kept, 'Acquire::Languages "none";', ""])
