"""Run a command in an image, outside any cluster."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from trainstack.local_cluster.errors import ClusterError
from trainstack.local_cluster.images.storage import OWN_MOUNTS, Storage, container_name


def run_in_image(
    image: str, argv: Sequence[str], mounts: Mapping[Path, str], storage: Storage | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in a built image, as the image's user, with this machine's folders at the given paths.

    Network and process ids are this machine's. Output is captured; the exit code is the command's. The working
    container is removed with its mounts. Raises ClusterError if the image has not been built.
    """
    storage = storage or Storage.shared()
    if not storage.has(image):
        raise ClusterError(f"image {image} has not been built on this machine; run `trainstack cluster load`")
    container = container_name("run")
    storage.run("from", "--quiet", "--pull-never", "--name", container, image)
    try:
        return subprocess.run(
            run_command(storage, container, argv, mounts), capture_output=True, text=True, check=False
        )
    finally:
        storage.run("rm", container)


def run_command(storage: Storage, container: str, argv: Sequence[str], mounts: Mapping[Path, str]) -> list[str]:
    volumes = [f"--volume={source.resolve()}:{target}" for source, target in sorted(mounts.items())]
    return [*OWN_MOUNTS, *storage.buildah("run", "--isolation=chroot", *volumes, container, "--", *argv)]
