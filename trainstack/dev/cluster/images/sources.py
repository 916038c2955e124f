"""Read which Debian mirrors this machine uses, so that the base image comes from the same ones."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainstack.dev.cluster.errors import ClusterError

SUITE = "bookworm"
"""Debian 12, the base image's release."""
APT = Path("/etc/apt")


@dataclass(frozen=True, order=True)
class Source:
    """One archive and suite; only the component `main` is used."""

    suite: str
    uri: str

    @property
    def line(self) -> str:
        """As in a sources.list."""
        return f"deb {self.uri} {self.suite} main"


def read(folder: Path = APT) -> list[Source]:
    """This machine's sources of Debian 12, its release suite first, each suite once.

    Raises ClusterError where none is configured.
    """
    files = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*.list"))]
    found = [source for file in files if file.is_file() for source in parse_list(file.read_text())]
    for file in sorted((folder / "sources.list.d").glob("*.sources")):
        found += parse_deb822(file.read_text())
    first = {source.suite: source for source in reversed(found)}
    if SUITE not in first:
        raise ClusterError(
            f"{folder}: no source of Debian 12 (suite {SUITE}, component main) is configured, so the base image cannot "
            f"be made; add one, for instance as {folder}/sources.list.d/{SUITE}.list."
        )
    return sorted(first.values())


def parse_list(text: str) -> list[Source]:
    """Sources of a one-line-style file: `deb [options] URI SUITE COMPONENT…`."""
    found = []
    for line in text.splitlines():
        words = _without_options(line.partition("#")[0]).split()
        if len(words) >= 4 and words[0] == "deb":
            found += _wanted([words[1]], [words[2]], words[3:])
    return found


def _without_options(line: str) -> str:
    before, bracket, rest = line.partition("[")
    return before + rest.partition("]")[2] if bracket else line


def parse_deb822(text: str) -> list[Source]:
    """Sources of a deb822-style file: paragraphs of `Key: value`, continued by indented lines."""
    found = []
    for paragraph in _paragraphs(text):
        if paragraph.get("enabled", "yes").lower() != "no" and "deb" in paragraph.get("types", "").split():
            uris, suites, components = (paragraph.get(key, "").split() for key in ("uris", "suites", "components"))
            found += _wanted(uris, suites, components)
    return found


def _paragraphs(text: str) -> Iterable[Mapping[str, str]]:
    fields: dict[str, str] = {}
    key = ""
    for line in [*text.splitlines(), ""]:
        if line.startswith("#"):
            continue
        if not line.strip():
            if fields:
                yield fields
            fields, key = {}, ""
        elif line[0].isspace():
            fields[key] = f"{fields.get(key, '')} {line.strip()}"
        else:
            name, _, value = line.partition(":")
            key = name.strip().lower()
            fields[key] = value.strip()


def _wanted(uris: Iterable[str], suites: Iterable[str], components: Iterable[str]) -> list[Source]:
    if "main" not in components:
        return []
    suites = list(suites)
    wanted = (SUITE, f"{SUITE}-updates", f"{SUITE}-security")
    return [Source(suite, uri.rstrip("/")) for uri in uris for suite in suites if suite in wanted]


def acquire_settings(dump: str) -> str:
    """What of `apt-config dump` the apt in the image needs for the same mirrors: proxies, retries, clock tolerance."""
    prefixes = ("Acquire::http", "Acquire::https", "Acquire::Retries", "Acquire::Check-")
    kept = [line for line in dump.splitlines() if line.startswith(prefixes)]
    return "\n".join([*kept, 'Acquire::Languages "none";', ""])
