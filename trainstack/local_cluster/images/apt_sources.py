"""The apt sources of the base image: the Debian mirrors that this machine uses, if its system is Debian."""

import email
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from trainstack.local_cluster.errors import LocalClusterError
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
class AptSource:
    """An archive and a suite, of which only the component `main` is used."""

    suite: str
    uri: str

    @property
    def line(self) -> str:
        return f"deb {self.uri} {self.suite} main"


def read_sources(root: Path = Path("/"), mirror: str | None = None) -> list[AptSource]:
    """Return the sources of Debian 12, one for each suite, the release suite first.

    They are the first that exist of: `mirror` (default: the value of MIRROR_VARIABLE); this machine's sources of Debian
    12; the archives of its sources of another Debian release, which have Debian 12, too; debootstrap's default archive.
    Raises LocalClusterError if there are none.
    """
    mirror = os.environ.get(MIRROR_VARIABLE, "") if mirror is None else mirror
    sources = _mirror_sources(mirror.split()) or _machine_sources(root) or _debootstrap_sources(root)
    if not any(source.suite == SUITE for source in sources):
        raise LocalClusterError(
            f"{root / 'etc/apt'} has no source of Debian (component main, signed by Debian), which the base image is "
            f"built from: set {MIRROR_VARIABLE} to the URI of a mirror."
        )
    return sources


def _mirror_sources(uris: Sequence[str]) -> list[AptSource]:
    """Return the sources of a Debian archive and, if there is a second URI, of a security archive."""
    release_sources = [AptSource(suite, uri.rstrip("/")) for uri in uris[:1] for suite in (SUITE, f"{SUITE}-updates")]
    return sorted([*release_sources, *(AptSource(f"{SUITE}-security", uri.rstrip("/")) for uri in uris[1:2])])


def _machine_sources(root: Path) -> list[AptSource]:
    """Return the archives of this machine's Debian sources, with the suites of Debian 12."""
    folder = root / "etc/apt"
    files = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*.list"))]
    sources = [source for file in files if file.is_file() for source in parse_list(file.read_text())]
    for file in sorted((folder / "sources.list.d").glob("*.sources")):
        sources += parse_deb822(file.read_text())
    # debootstrap and the apt in the image support no other access to an archive.
    reachable = [
        source for source in (_resolve_mirror_list(source, root) for source in sources) if source.uri.startswith("http")
    ]
    machine_distribution = distribution.read_distribution(root)
    stems = (SUITE,) if machine_distribution.id != "debian" else (SUITE, machine_distribution.codename, *_ALIASES)
    for stem in stems:
        target_by_suite = {f"{stem}{pocket}": f"{SUITE}{pocket}" for pocket in _POCKETS}
        # The first of several mirrors of a suite is used.
        uri_by_target = {
            target_by_suite[source.suite]: source.uri
            for source in reversed(reachable)
            if source.suite in target_by_suite
        }
        if SUITE in uri_by_target:
            return sorted(AptSource(suite, uri) for suite, uri in uri_by_target.items())
    return []


def _resolve_mirror_list(source: AptSource, root: Path) -> AptSource:
    """Replace the URI of a list of mirrors, as cloud images have it, with the list's first mirror."""
    match = _MIRROR_FILE.match(source.uri)
    if match is None:
        return source
    file = root / source.uri[match.end() :]
    mirrors = [line.split()[0] for line in file.read_text().splitlines() if line.strip()] if file.is_file() else []
    return replace(source, uri=(mirrors or [""])[0].rstrip("/"))


def _debootstrap_sources(root: Path) -> list[AptSource]:
    """Return the sources of debootstrap's default archive, and of the security archive next to it."""
    file = root / DEBOOTSTRAP
    match = re.search(r'(?m)^DEF_MIRROR="([^"]+)"$', file.read_text()) if file.is_file() else None
    return _mirror_sources([match[1], f"{match[1]}-security"]) if match else []


def parse_list(text: str) -> list[AptSource]:
    """Parse a one-line-style file: `deb [options] URI SUITE COMPONENT…`."""
    sources = []
    for line in text.splitlines():
        entry = line.partition("#")[0]
        options = " ".join(_OPTIONS.findall(entry)[:1]).split()
        fields = _OPTIONS.sub("", entry, count=1).split()
        keys = [value for name, _, value in (option.partition("=") for option in options) if name == "signed-by"]
        if len(fields) >= 4 and fields[0] == "deb" and _is_signed_by_debian(",".join(keys)):
            sources += _main_sources([fields[1]], [fields[2]], fields[3:])
    return sources


def parse_deb822(text: str) -> list[AptSource]:
    """Parse a deb822-style file: paragraphs of `Key: value`, continued by indented lines."""
    sources = []
    for paragraph in re.split(r"\n\s*\n", re.sub(r"(?m)^#.*\n?", "", text)):
        fields = email.message_from_string(paragraph.lstrip())
        enabled = fields.get("Enabled", "yes").strip().lower() != "no" and "deb" in fields.get("Types", "").split()
        if enabled and _is_signed_by_debian(fields.get("Signed-By", "")):
            uris, suites, components = (fields.get(key, "").split() for key in ("URIs", "Suites", "Components"))
            sources += _main_sources(uris, suites, components)
    return sources


def _is_signed_by_debian(signed_by: str) -> bool:
    """Return whether Debian's keys can sign a source. The value is files, fingerprints or a key, and often empty.

    Other archives have suites of the same names: Microsoft's archive, for example, has `bookworm` with `main`.
    """
    return not signed_by.strip() or PurePosixPath(signed_by.strip()).name.startswith("debian-archive-")


def _main_sources(uris: Iterable[str], suites: Sequence[str], components: Iterable[str]) -> list[AptSource]:
    return [AptSource(suite, uri.rstrip("/")) for uri in uris for suite in suites if "main" in components]


def acquire_settings(dump: str) -> str:
    """Return the settings in `apt-config dump` that apt in the image needs: proxies, retries, clock tolerance."""
    prefixes = ("Acquire::http", "Acquire::https", "Acquire::Retries", "Acquire::Check-")
    setting_lines = [line for line in dump.splitlines() if line.startswith(prefixes)]
    return "\n".join([*setting_lines, 'Acquire::Languages "none";', ""])
