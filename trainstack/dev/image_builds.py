"""Build and push an image of an environment, with the tool of this machine, or for the local cluster as `up` does."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from trainstack.cli.console import err
from trainstack.dev.cluster.errors import ClusterError
from trainstack.dev.cluster.images import Recipe, Registry, Storage, base, ensure_built, ensure_images, layout, workload
from trainstack.dev.cluster.images.recipe import stage
from trainstack.dev.cluster.images.registry import target
from trainstack.dev.cluster.registry_access import RegistryAccess
from trainstack.dev.image_tools import ImageTool, ImageToolError, find_tool
from trainstack.live.registry import Registries
from trainstack.live.registry_credentials import RegistryError
from trainstack.runs.errors import WorkloadError
from trainstack.runs.images.images import base_reference
from trainstack.runs.images.run_images import RunImage, base_argument
from trainstack.settings.model import Cluster

OWN_BASE = ("--timestamp=0", "--pull=false")
"""The base is in no registry; times are set to 0, so that the same files give the same digest."""


@dataclass(frozen=True)
class Pushed:
    """What has become of an image."""

    digest: str
    kept: bool = False
    """True where the registry had the image already, and its tag is of its content."""


def build(root: Path, image: RunImage, build_args: Mapping[str, str]) -> None:
    """Build an image from its folder.

    Raises WorkloadError where the folder or the arguments do not fit, ImageToolError or ClusterError where it fails.
    """
    folder = root / image.folder
    declared = base_argument((folder / "Dockerfile").read_text(encoding="utf-8"))
    if image.by_content and build_args:
        raise WorkloadError(
            f"{image.folder}: the tag of an image with `image.build` is a digest of the folder, not of arguments; "
            "write them into the Dockerfile, or name the image: `image: {build: null, name: …}`"
        )
    if image.local:
        ensure_built([workload(folder)], _report)
        return
    if not image.by_content:
        if declared == "required" and "BASE" not in build_args:
            raise WorkloadError(
                f"{image.folder}/Dockerfile: ARG BASE has no value; give `trainstack image build` the option "
                "`--build-arg BASE=<image with Python and torch>`"
            )
        find_tool().build(image.reference, folder, build_args)
        return
    tool = find_tool()
    with _staged(workload(folder), image) as context:
        if declared is None:
            tool.build(image.reference, context, {})
        else:
            _ensure_base(tool, image)
            tool.build(image.reference, context, {"BASE": base_reference()}, *OWN_BASE)


def push(root: Path, image: RunImage, registries: Registries, local: RegistryAccess | None) -> Pushed:
    """Push an image to the registry in its name, and build it before where that was not done yet.

    `local`: the local cluster's registry, if it runs. Raises as `build` does, and RegistryError.
    """
    if image.local:
        access = require_local(local)
        ensure_images([workload(root / image.folder)], access, _report)
        return Pushed(Registry(access).digest(target(image.reference)) or "")
    if image.by_content:
        # Built again, on another machine, it could get another digest than the one that is pinned.
        try:
            return Pushed(registries.digest(image.reference), kept=True)
        except RegistryError:
            pass
    tool = find_tool()
    if not tool.has(image.reference):
        err.print(f"{image.reference} is not built on this machine yet")
        build(root, image, {})
    return Pushed(tool.push(image.reference) or registries.digest(image.reference))


def is_built(image: RunImage) -> bool:
    """Whether this machine has the image, ready to be pushed. Raises ImageToolError where that cannot be told."""
    if image.local:
        return layout.find(Storage.shared().layout, image.reference) is not None
    return find_tool().has(image.reference)


def require_local(local: RegistryAccess | None) -> RegistryAccess:
    """The local cluster's registry. Raises ClusterError where there is none."""
    if local is None:
        raise ClusterError(
            f"{Cluster().registry} is the local cluster's registry, and that cluster does not run, or KUBECONFIG names "
            "another; run `trainstack cluster up`, or name your registry: `trainstack:cluster: {registry: …}`"
        )
    return local


@contextmanager
def _staged(recipe: Recipe, image: RunImage) -> Iterator[Path]:
    """A folder with exactly the files that the image's tag stands for."""
    with tempfile.TemporaryDirectory(prefix="trainstack-context-") as name:
        context = Path(name)
        stage(recipe, context)
        if target(recipe.image).tag != target(image.reference).tag:
            raise WorkloadError(f"{image.folder}: files changed while they were read; run it again")
        yield context


def _ensure_base(tool: ImageTool, image: RunImage) -> None:
    """Have the project's own base image in the tool's store."""
    if tool.name != "buildah":
        raise ImageToolError(
            f"{image.folder}/Dockerfile: ARG BASE is this project's base image, which buildah makes; install it, or "
            f"write `FROM <image>` without BASE, which {tool.name} builds"
        )
    if not tool.has(base_reference()):
        ensure_built([base()], _report)
        tool.load(Storage.shared().layout, base_reference())


def _report(line: str) -> None:
    err.print(f"  {line}", markup=False)
