"""Run a command in an image, outside any cluster."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.images.storage import UNSHARE_COMMAND, ImageStorage, container_name


def run_in_image(
    image: str, argv: Sequence[str], mounts: Mapping[Path, str], storage: ImageStorage | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in a built image, as the image's user, with this machine's folders at the given paths.

    Network and process ids are this machine's. Output is captured; the exit code is the command's. The working
    container is removed with its mounts. Raises ClusterError if the image has not been built.
    """
    storage = storage or ImageStorage.shared()
    if not storage.has_image(image):
        raise LocalClusterError(f"image {image} has not been built on this machine; run `trainstack cluster load`")
    container = container_name("run")
    storage.run("from", "--quiet", "--pull-never", "--name", container, image)
    try:
        return subprocess.run(
            run_command(storage, container, argv, mounts), capture_output=True, text=True, check=False
        )
    finally:
        storage.run("rm", container)


def run_command(storage: ImageStorage, container: str, argv: Sequence[str], mounts: Mapping[Path, str]) -> list[str]:
    volumes = [f"--volume={source.resolve()}:{target}" for source, target in sorted(mounts.items())]
    return [*UNSHARE_COMMAND, *storage.buildah("run", "--isolation=chroot", *volumes, container, "--", *argv)]
