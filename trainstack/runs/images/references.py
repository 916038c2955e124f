"""The parts of an image's name: its registry, repository and tag."""

from dataclasses import dataclass

from trainstack.runs.errors import WorkloadError

DEFAULT_HOST = "docker.io"


@dataclass(frozen=True)
class MirrorReference:
    """An image's repository and tag in a registry that mirrors all hosts."""

    repository: str
    tag: str


def mirror_reference(name: str) -> MirrorReference:
    """Return the repository and tag of an image in a registry that mirrors all hosts.

    `busybox` becomes `library/busybox:latest`, and `registry.k8s.io/kueue/kueue:v0.15.2` becomes `kueue/kueue:v0.15.2`.
    Raises WorkloadError for a name with a digest, because the pushed image has another digest.
    """
    if "@" in name:
        raise WorkloadError(f"{name}: an image cannot be served under another image's digest; use a tag")
    registry = registry_host(name)
    repository, colon, tag = name.removeprefix(f"{registry}/").partition(":")
    if registry == DEFAULT_HOST and "/" not in repository:
        repository = f"library/{repository}"
    return MirrorReference(repository, tag if colon else "latest")


def registry_host(name: str) -> str:
    """Return the host in an image's name, with its port, or DEFAULT_HOST if the name has none."""
    first, slash, _ = name.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else DEFAULT_HOST
