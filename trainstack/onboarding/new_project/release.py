"""The releases of operators that a new project installs: the files that their publishers offer. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

RELEASE_URLS: Mapping[str, str] = {
    "kueue": "https://github.com/kubernetes-sigs/kueue/releases/download/{version}/manifests.yaml",
    "jobset": "https://github.com/kubernetes-sigs/jobset/releases/download/{version}/manifests.yaml",
}
"""The address of an operator's release manifest. Trainer has none: its releases contain only a Python package."""


@dataclass(frozen=True)
class PinnedRelease:
    """A published release manifest, pinned by the digest of the file that was downloaded."""

    version: str
    url: str
    sha256: str


def release_url(operator: str, version: str) -> str:
    return RELEASE_URLS[operator].format(version=version)
