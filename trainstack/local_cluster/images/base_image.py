"""The build of the base image: Debian 12 with Python and CPU PyTorch, from this machine's Debian mirrors."""

import os
from pathlib import Path

from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.images import apt_sources
from trainstack.local_cluster.images.storage import (
    UNSHARE_COMMAND,
    ImageStorage,
    Report,
    container_name,
    execute_logged,
)
from trainstack.runs.images.content_tags import BASE_RECIPE

EXPECTED_SECONDS = 90
"""Duration of a build on 2 cores with a near mirror."""
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def build_base(storage: ImageStorage, image: str, report: Report) -> None:
    """Build the base image under a name. A later build uses nothing of an interrupted one.

    Raises LocalClusterError, also if this account is not root.
    """
    if os.geteuid() != 0:
        raise LocalClusterError(
            "The base image requires root, since debootstrap creates device files",
            "run the command as root, or name an existing image in the workload (`image: {build: null, name: …}`), and "
            "copy it to a kind cluster with `kind load docker-image`",
        )
    if not KEYRING.is_file():
        raise LocalClusterError(f"{KEYRING} is missing; install it with `apt-get install debian-archive-keyring`")
    sources = apt_sources.read_sources()
    (storage.folder / "sources.list").write_text("".join(f"{source.line}\n" for source in sources))
    container = container_name("base")
    storage.run("from", "--name", container, "scratch")
    try:
        with storage.apt_settings() as apt:
            execute_logged(rootfs_command(storage, container, sources[0].uri, apt), storage.folder / "base.log", report)
        storage.run("config", "--cmd", "python3", "--workingdir", "/", "--env", f"PATH={PATH}", container)
        storage.run("commit", "--quiet", container, image)
    finally:
        storage.run("rm", container)


def rootfs_command(storage: ImageStorage, container: str, mirror: str, apt: Path) -> list[str]:
    """Return the command that creates the root file system in a working container.

    `mirror` is the URI of an archive; `apt` is a file with apt's settings.
    """
    return [
        *UNSHARE_COMMAND,
        "sh",
        str(BASE_RECIPE / "rootfs.sh"),
        container,
        mirror,
        str(KEYRING),
        str(storage.folder / "sources.list"),
        str(apt),
        *storage.buildah(),
    ]
