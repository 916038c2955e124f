"""The images that the local cluster serves: operators, helpers, the base, and this repository's workloads."""

import shutil
from collections.abc import Collection
from pathlib import Path

from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.images.recipe import Recipe
from trainstack.runs.images.content_tags import BASE_RECIPE, base_reference
from trainstack.toolchain import tools
from trainstack.toolchain.manifests import MANIFESTS, ReleaseManifest

CONTAINERFILES = BASE_RECIPE.parent
ROOT, NOBODY = "0:0", "65534:65534"

BUSYBOX = ("docker.io/library/busybox:latest", "docker.io/library/busybox:1.35")
"""The names under which data loaders and others pull busybox; 1.35 is the version in Debian 12."""
_OPERATORS = ("kueue", "training-operator", "jobset", "trainer")
INIT_PYTORCH = "registry.local/trainstack/init-pytorch:1"
"""The image of the training operator's init container: a busybox that does not run as root."""
GIT = "docker.io/alpine/git:2.47.2"
"""The default image of code checkouts. The local cluster serves an image with Debian's git under this name."""


def operators(names: Collection[str] = _OPERATORS) -> list[Recipe]:
    """Return the recipes of the controllers' images, with the names in the release manifests.

    The controllers' programs must be built.
    """
    return [_program_recipe(manifest) for manifest in MANIFESTS if manifest.name in names]


def helpers() -> list[Recipe]:
    """Return the recipes of busybox: as root under its public names, and as another user for init containers."""
    program = {"busybox": _find_busybox()}
    context = CONTAINERFILES / "busybox"
    return [
        Recipe("busybox", context, {"RUN_AS": ROOT}, programs=program, serve_as=BUSYBOX),
        Recipe("init-pytorch", context, {"RUN_AS": NOBODY}, programs=program, serve_as=(INIT_PYTORCH,)),
    ]


def git(packages: tuple[str, ...] = ("git", "openssh-client"), serve_as: tuple[str, ...] = (GIT,)) -> Recipe:
    """Return the recipe of Debian's git on the base image, for runs whose code is checked out."""
    build_args = {"BASE": base_reference(), "PACKAGES": " ".join(packages)}
    return Recipe("git", CONTAINERFILES / "git", build_args, serve_as=serve_as, installs_packages=True)


def base(serve_as: tuple[str, ...] = ()) -> Recipe:
    """Return the recipe of the base image, which can also be served under the names of public PyTorch images."""
    return Recipe("base", BASE_RECIPE, serve_as=serve_as)


def workload(folder: Path, serve_as: tuple[str, ...] = ()) -> Recipe:
    """Return the recipe of a folder with a Dockerfile (`ARG BASE`, `FROM ${BASE}`), on the base image.

    Raises LocalClusterError without a Dockerfile.
    """
    if not (folder / "Dockerfile").is_file():
        raise LocalClusterError(f"{folder} has no Dockerfile; name a folder with one")
    return Recipe(folder.resolve().name, folder, {"BASE": base_reference()}, serve_as=serve_as)


def _program_recipe(manifest: ReleaseManifest) -> Recipe:
    name, released_name = manifest.name, manifest.release_image.format(version=manifest.version)
    return Recipe(name, CONTAINERFILES / name, programs={name: tools.program(name)}, serve_as=(released_name,))


def _find_busybox() -> Path:
    program = shutil.which("busybox")
    # A dynamic program contains its loader's path; the image has no loader.
    if program is None or b"/ld-linux" in Path(program).read_bytes():
        raise LocalClusterError("No static busybox is installed; install it with `apt-get install busybox-static`")
    return Path(program)
