"""Versions of programs and operators, by the rules of https://semver.org."""

import re

from semver import Version

_NUMBERS = re.compile(r"v?(?P<numbers>\d+\.\d+(?:\.\d+)?)", re.ASCII)


def parse_version(text: str) -> Version | None:
    """Return a version, such as `v0.21.0-rc.3` or `1.30`; None for anything else.

    A pre-release precedes its release. Suffixes that semver does not permit, as distributions of Kubernetes have them,
    are dropped.
    """
    try:
        return Version.parse(text.removeprefix("v"), optional_minor_and_patch="." in text)
    except ValueError:
        match = _NUMBERS.match(text)
        return Version.parse(match["numbers"], optional_minor_and_patch=True) if match else None


def parse_release(text: str) -> Version | None:
    """Return the numbers of a version alone; None for anything else.

    They decide what a program supports: its pre-releases and distributions, such as `v1.34.4-gke.1047000`, have the
    same features.
    """
    version = parse_version(text)
    return version.finalize_version() if version else None
