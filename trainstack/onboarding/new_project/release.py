"""The release of Kueue that a new project installs: the file that its publisher offers. Pure."""

from dataclasses import dataclass

_KUEUE_URL = "https://github.com/kubernetes-sigs/kueue/releases/download/{version}/manifests.yaml"


@dataclass(frozen=True)
class PinnedRelease:
    """A published release manifest, pinned by the digest of the file that was downloaded."""

    version: str
    url: str
    sha256: str


def kueue_url(version: str) -> str:
    return _KUEUE_URL.format(version=version)
