"""The apt sources of the base image: the Debian mirrors that this machine uses, if its system is Debian."""

import email
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from trainstack.local_cluster.errors import ClusterError
from trainstack.toolchain import distribution

SUITE = "bookworm"
"""The release of the base image on every machine, Debian 12: the image's name depends on the repository alone."""
MIRROR_VARIABLE = "TRAINSTACK_DEBIAN_MIRROR"
"""Variable with the URI of a Debian archive, optionally followed by the URI of a security archive."""
DEBOOTSTRAP = Path("usr/sbin/debootstrap")
_ALIASES = ("oldstable", "stable", "testing", "unstable", "sid")
"""Suite names that refer to a release of Debian by its age."""
_POCKETS = ("", "-updates", "-security")
_OPTIONS = re.compile(r"\[([^]]*)\]")
_MIRROR_FILE = re.compile(r"mirror\+file:/*")


@dataclass(frozen=True, order=True)
class Source:
    """An archive and a suite, of which only the component `main` is used."""

    suite: str
    uri: str

    @property
    def line(self) -> str:
        return f"deb {self.uri} {self.suite} main"


def read(root: Path = Path("/"), mirror: str | None = None) -> list[Source]:
    """Return the sources of Debian 12, one for each suite, the release suite first.

    They are the first that exist of: `mirror` (default: the value of MIRROR_VARIABLE); this machine's sources of Debian
    12; the archives of its sources of another Debian release, which have Debian 12, too; debootstrap's default archive.
    Raises LocalClusterError if there are none.
    """
    mirror = os.environ.get(MIRROR_VARIABLE, "") if mirror is None else mirror
    found = _named(mirror.split()) or _of_machine(root) or _default(root)
    if not any(source.suite == SUITE for source in found):
        raise ClusterError(
            f"{root / 'etc/apt'} has no source of Debian (component main, signed by Debian), which the base image is "
            f"built from: set {MIRROR_VARIABLE} to the URI of a mirror."
        )
    return found


def _named(uris: Sequence[str]) -> list[Source]:
    """Return the sources of a Debian archive and, if there is a second URI, of a security archive."""
    found = [Source(suite, uri.rstrip("/")) for uri in uris[:1] for suite in (SUITE, f"{SUITE}-updates")]
    return sorted([*found, *(Source(f"{SUITE}-security", uri.rstrip("/")) for uri in uris[1:2])])


def _of_machine(root: Path) -> list[Source]:
    """Return the archives of this machine's Debian sources, with the suites of Debian 12."""
    folder = root / "etc/apt"
    files = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*.list"))]
    found = [source for file in files if file.is_file() for source in parse_list(file.read_text())]
    for file in sorted((folder / "sources.list.d").glob("*.sources")):
        found += parse_deb822(file.read_text())
    # debootstrap and the apt in the image support no other access to an archive.
    reachable = [source for source in (_resolved(source, root) for source in found) if source.uri.startswith("http")]
    here = distribution.read(root)
    stems = (SUITE,) if here.id != "debian" else (SUITE, here.codename, *_ALIASES)
    for stem in stems:
        renamed = {f"{stem}{pocket}": f"{SUITE}{pocket}" for pocket in _POCKETS}
        # The first of several mirrors of a suite is used.
        first = {renamed[source.suite]: source.uri for source in reversed(reachable) if source.suite in renamed}
        if SUITE in first:
            return sorted(Source(suite, uri) for suite, uri in first.items())
    return []


def _resolved(source: Source, root: Path) -> Source:
    """Replace the URI of a list of mirrors, as cloud images have it, with the list's first mirror."""
    listed = _MIRROR_FILE.match(source.uri)
    if listed is None:
        return source
    file = root / source.uri[listed.end() :]
    words = [line.split()[0] for line in file.read_text().splitlines() if line.strip()] if file.is_file() else []
    return replace(source, uri=(words or [""])[0].rstrip("/"))


def _default(root: Path) -> list[Source]:
    """Return the sources of debootstrap's default archive, and of the security archive next to it."""
    file = root / DEBOOTSTRAP
    found = re.search(r'(?m)^DEF_MIRROR="([^"]+)"$', file.read_text()) if file.is_file() else None
    return _named([found[1], f"{found[1]}-security"]) if found else []


def parse_list(text: str) -> list[Source]:
    """Parse a one-line-style file: `deb [options] URI SUITE COMPONENT…`."""
    found = []
    for line in text.splitlines():
        entry = line.partition("#")[0]
        options = " ".join(_OPTIONS.findall(entry)[:1]).split()
        fields = _OPTIONS.sub("", entry, count=1).split()
        keys = [value for name, _, value in (option.partition("=") for option in options) if name == "signed-by"]
        if len(fields) >= 4 and fields[0] == "deb" and _is_debians(",".join(keys)):
            found += _select([fields[1]], [fields[2]], fields[3:])
    return found


def parse_deb822(text: str) -> list[Source]:
    """Parse a deb822-style file: paragraphs of `Key: value`, continued by indented lines."""
    found = []
    for paragraph in re.split(r"\n\s*\n", re.sub(r"(?m)^#.*\n?", "", text)):
        fields = email.message_from_string(paragraph.lstrip())
        enabled = fields.get("Enabled", "yes").strip().lower() != "no" and "deb" in fields.get("Types", "").split()
        if enabled and _is_debians(fields.get("Signed-By", "")):
            uris, suites, components = (fields.get(key, "").split() for key in ("URIs", "Suites", "Components"))
            found += _select(uris, suites, components)
    return found


def _is_debians(signed_by: str) -> bool:
    """Return whether Debian's keys can sign a source. The value is files, fingerprints or a key, and often empty.

    Other archives have suites of the same names: Microsoft's archive, for example, has `bookworm` with `main`.
    """
    return not signed_by.strip() or PurePosixPath(signed_by.strip()).name.startswith("debian-archive-")


def _select(uris: Iterable[str], suites: Sequence[str], components: Iterable[str]) -> list[Source]:
    return [Source(suite, uri.rstrip("/")) for uri in uris for suite in suites if "main" in components]


def acquire_settings(dump: str) -> str:
    """Return the settings in `apt-config dump` that apt in the image needs: proxies, retries, clock tolerance."""
    prefixes = ("Acquire::http", "Acquire::https", "Acquire::Retries", "Acquire::Check-")
    kept = [line for line in dump.splitlines() if line.startswith(prefixes)]
    return "\n".join([*kept, 'Acquire::Languages "none";', ""])
