"""The images that the local cluster serves: operators, helpers, the base, and workloads of this repository."""

import shutil
from collections.abc import Collection
from pathlib import Path

from trainstack.dev.cluster.errors import ClusterError
from trainstack.dev.cluster.images.recipe import Recipe
from trainstack.dev.toolchain import tools
from trainstack.dev.toolchain.manifests import MANIFESTS, Manifest
from trainstack.runs.images.images import BASE_RECIPE, base_reference

CONTAINERFILES = BASE_RECIPE.parent
ROOT, NOBODY = "0:0", "65534:65534"

BUSYBOX = ("docker.io/library/busybox:latest", "docker.io/library/busybox:1.35")
"""What data loaders and the like are called by; 1.35 is Debian 12's version."""
_OPERATORS = ("kueue", "training-operator", "jobset", "trainer")
INIT_PYTORCH = "registry.local/trainstack/init-pytorch:1"
"""The training operator's init container: a busybox that does not run as root."""
GIT = "docker.io/alpine/git:2.47.2"
"""What checks code out where the environment names nothing else; here it is Debian's git."""


def operators(names: Collection[str] = _OPERATORS) -> list[Recipe]:
    """Images of controllers, under the names in their release manifests. The programs must have been built."""
    return [_of_program(manifest) for manifest in MANIFESTS if manifest.name in names]


def helpers() -> list[Recipe]:
    """Busybox, as root under its public name and as nobody for init containers."""
    program = {"busybox": _busybox()}
    context = CONTAINERFILES / "busybox"
    return [
        Recipe("busybox", context, {"RUN_AS": ROOT}, programs=program, serve_as=BUSYBOX),
        Recipe("init-pytorch", context, {"RUN_AS": NOBODY}, programs=program, serve_as=(INIT_PYTORCH,)),
    ]


def git(packages: tuple[str, ...] = ("git", "openssh-client"), serve_as: tuple[str, ...] = (GIT,)) -> Recipe:
    """Debian's git on the base image, for runs whose code is checked out."""
    build_args = {"BASE": base_reference(), "PACKAGES": " ".join(packages)}
    return Recipe("git", CONTAINERFILES / "git", build_args, serve_as=serve_as, installs=True)


def base(serve_as: tuple[str, ...] = ()) -> Recipe:
    """The base image itself; it can stand in for public PyTorch images."""
    return Recipe("base", BASE_RECIPE, serve_as=serve_as)


def workload(folder: Path, serve_as: tuple[str, ...] = ()) -> Recipe:
    """Image of a folder with a Dockerfile (`ARG BASE`, `FROM ${BASE}`), on our base; `runs.images.images` names it."""
    if not (folder / "Dockerfile").is_file():
        raise ClusterError(f"{folder}: has no Dockerfile; an image is built from a folder that has one")
    return Recipe(folder.resolve().name, folder, {"BASE": base_reference()}, serve_as=serve_as)


def _of_program(manifest: Manifest) -> Recipe:
    """The program of an operator, under the image name that its release manifest holds."""
    name, served = manifest.name, manifest.released.format(version=manifest.version)
    return Recipe(name, CONTAINERFILES / name, programs={name: tools.program(name)}, serve_as=(served,))


def _busybox() -> Path:
    found = shutil.which("busybox")
    # A dynamic program names its loader; in an image of its own there is none.
    if found is None or b"/ld-linux" in Path(found).read_bytes():
        raise ClusterError("A static busybox is missing; install it: apt-get install busybox-static")
    return Path(found)
