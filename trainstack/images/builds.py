"""Build and push the images of an environment, with this machine's tool, or for the local cluster as `up` does."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from trainstack.files.temporary import temporary_folder
from trainstack.images.tools import ImageTool, ImageToolError, find_tool
from trainstack.live.registry import Registries
from trainstack.live.registry_errors import CredentialsError, RegistryError
from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.images import (
    ImageStorage,
    Recipe,
    Registry,
    base,
    ensure_built,
    ensure_images,
    oci_layout,
    workload,
)
from trainstack.local_cluster.images.recipe import stage_context
from trainstack.local_cluster.images.storage import Report
from trainstack.local_cluster.registry_access import RegistryAccess
from trainstack.runs.errors import WorkloadError
from trainstack.runs.images.content_tags import base_reference
from trainstack.runs.images.references import mirror_reference
from trainstack.runs.images.run_images import RunImage, base_argument
from trainstack.settings.model import Cluster

PROJECT_BASE_OPTIONS = ("--timestamp=0", "--pull=false")
"""No registry has the base; times are set to 0, so that the same files yield the same digest."""


@dataclass(frozen=True)
class PushedImage:
    """A pushed image."""

    digest: str
    was_in_registry: bool = False
    """Whether the registry already had the image, whose tag is a digest of its content."""


def build(root: Path, image: RunImage, build_args: Mapping[str, str], report: Report) -> None:
    """Build an image from its folder.

    Raises WorkloadError for an invalid folder or invalid arguments, ImageToolError and ClusterError.
    """
    folder = root / image.folder
    base_declaration = base_argument((folder / "Dockerfile").read_text(encoding="utf-8"))
    if image.has_content_tag and build_args:
        raise WorkloadError(
            f"{image.folder}: the tag of an image with `image.build` is a digest of the folder only; "
            "write build arguments into the Dockerfile, or name the image: `image: {build: null, name: …}`"
        )
    if image.is_local:
        ensure_built([workload(folder)], report)
        return
    if not image.has_content_tag:
        if base_declaration == "required" and "BASE" not in build_args:
            raise WorkloadError(
                f"{image.folder}/Dockerfile: ARG BASE has no value; run `trainstack image build` with "
                "`--build-arg BASE=<image with Python and torch>`"
            )
        find_tool().build(image.reference, folder, build_args)
        return
    tool = find_tool()
    with _stage_context(workload(folder), image) as context:
        if base_declaration is None:
            tool.build(image.reference, context, {})
        else:
            _ensure_base(tool, image, report)
            tool.build(image.reference, context, {"BASE": base_reference()}, *PROJECT_BASE_OPTIONS)


def push(
    root: Path, image: RunImage, registries: Registries, registry_access: RegistryAccess | None, report: Report
) -> PushedImage:
    """Push an image to the registry in its name; build it first if this machine does not have it.

    `registry_access`: the registry of a running local cluster. Raises RegistryError and the errors of `build`.
    """
    if image.is_local:
        access = require_local_registry(registry_access)
        ensure_images([workload(root / image.folder)], access, report)
        return PushedImage(Registry(access).digest(mirror_reference(image.reference)) or "")
    if image.has_content_tag:
        # A second build, on another machine, could yield a digest other than the pinned one.
        try:
            return PushedImage(registries.digest(image.reference), was_in_registry=True)
        except CredentialsError:
            raise
        except RegistryError:
            pass
    tool = find_tool()
    if not tool.has_image(image.reference):
        report(f"building {image.reference}, which this machine does not have yet")
        build(root, image, {}, report)
    return PushedImage(tool.push(image.reference) or registries.digest(image.reference))


def is_built(image: RunImage) -> bool:
    """Return whether this machine has the image. Raises ImageToolError if the tool is missing or fails."""
    if image.is_local:
        return oci_layout.find_image(ImageStorage.shared().layout, image.reference) is not None
    return find_tool().has_image(image.reference)


def require_local_registry(registry_access: RegistryAccess | None) -> RegistryAccess:
    """Return the local cluster's registry. Raises ClusterError if no local cluster is running."""
    if registry_access is None:
        raise LocalClusterError(
            f"{Cluster().registry} is the registry of the local cluster, which is not running, or KUBECONFIG names "
            "another cluster; run `trainstack cluster up`, or set your registry: `trainstack:cluster: {registry: …}`"
        )
    return registry_access


@contextmanager
def _stage_context(recipe: Recipe, image: RunImage) -> Iterator[Path]:
    """Yield a folder with exactly the files whose digest is the image's tag."""
    with temporary_folder() as context:
        stage_context(recipe, context)
        if mirror_reference(recipe.image).tag != mirror_reference(image.reference).tag:
            raise WorkloadError(f"{image.folder}: files changed while they were read; run the command again")
        yield context


def _ensure_base(tool: ImageTool, image: RunImage, report: Report) -> None:
    """Import the project's base image into the tool's store."""
    if tool.name != "buildah":
        raise ImageToolError(
            f"{image.folder}/Dockerfile: ARG BASE is this project's base image, which requires buildah; install it, or "
            f"write `FROM <image>` without BASE, which {tool.name} can build"
        )
    if not tool.has_image(base_reference()):
        ensure_built([base()], report)
        tool.load(ImageStorage.shared().layout, base_reference())
