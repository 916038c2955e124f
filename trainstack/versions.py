"""Versions of programs and operators, by the rules of https://semver.org."""

import re

from semver import Version

_VERSION = re.compile(r"v?(?P<major>\d{1,9})\.(?P<minor>\d{1,9})(?:\.(?P<patch>\d{1,9}))?(?![\d.])", re.ASCII)


def parse_version(text: str) -> Version | None:
    """Return a version, such as `v0.21.0-rc.3` or `1.30`; None for anything else.

    A pre-release precedes its release. What semver does not permit is dropped: leading zeros, and suffixes as
    distributions of Kubernetes have them.
    """
    match = _VERSION.match(text)
    if match is None:
        return None
    try:
        return Version.parse(text.removeprefix("v"), optional_minor_and_patch=True)
    except ValueError:
        return Version(int(match["major"]), int(match["minor"]), int(match["patch"] or 0))


def is_later_minor(release: str, minor: str) -> bool:
    """Return whether a release is of a later minor release than `minor`, such as `v0.19`; false for no version."""
    version, minor_version = parse_release(release), parse_release(minor)
    return (
        version is not None
        and minor_version is not None
        and (version.major, version.minor) > (minor_version.major, minor_version.minor)
    )


def parse_release(text: str) -> Version | None:
    """Return the numbers of a version alone; None for anything else.

    They decide what a program supports: its pre-releases and distributions, such as `v1.34.4-gke.1047000`, have the
    same features.
    """
    version = parse_version(text)
    return version.finalize_version() if version else None
