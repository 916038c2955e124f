"""The images of an environment's runs, and the folders of this repository that they are built from."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainstack.files.project import project_file
from trainstack.runs.errors import WorkloadError
from trainstack.runs.images.content_tags import REGISTRY, workload_reference
from trainstack.runs.manifests.user_manifest import images_of_manifest
from trainstack.settings.errors import Place
from trainstack.settings.model import Settings
from trainstack.settings.sections.workloads import Workload

_DOCKERFILE = "Dockerfile"
_WORKLOAD_FILE = re.compile(r"(workloads/[^/]+)/workload\.yaml")
_ARG_BASE = re.compile(r"^\s*ARG\s+BASE\s*(?P<default>=.*)?$", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True)
class RunImage:
    """An image, the runs that use it, and the folders that it is built from."""

    reference: str
    """The image's name as in the runs' pods, without a pinned digest."""
    workloads: tuple[str, ...]
    """The names of the runs and sweeps that use it, in the order of the settings."""
    paths: tuple[str, ...]
    """The settings paths of `workloads`, in the notation of `settings.values.paths`."""
    folders: tuple[str, ...] = ()
    """Folders with a Dockerfile for it, relative to the project; empty if the image is built elsewhere."""
    has_content_tag: bool = False
    """Whether the tag is a digest of the folder (`image.build`), so that an edit yields a new image."""

    @property
    def is_local(self) -> bool:
        """Whether only the local cluster's registry can have the image."""
        return self.reference.startswith(f"{REGISTRY}/")

    @property
    def folder(self) -> str:
        """The folder that the image is built from. Raises WorkloadError unless there is exactly one."""
        if len(self.folders) == 1:
            return self.folders[0]
        if self.folders:
            dockerfiles = " and ".join(f"{folder}/{_DOCKERFILE}" for folder in self.folders)
            raise WorkloadError(
                f"{self.reference}: {dockerfiles} both build this image; give each run's image its own name, or keep "
                "only one Dockerfile"
            )
        raise WorkloadError(
            f"{self.reference}: workloads/{self.workloads[0]}/{_DOCKERFILE} does not exist; add it, or have the "
            "image's owner push the image"
        )


def run_images(settings: Settings, root: Path, places: Mapping[str, Place]) -> list[RunImage]:
    """Return the distinct images of all runs and sweeps, in the order of the settings.

    A run with `image.build` names its folder. The folder for `image.name` is `workloads/<name>` if it contains a
    Dockerfile; `<name>` is the run or the workload that the run is based on.

    Raises WorkloadError if `image.build` names a folder without a Dockerfile.
    """
    images_by_reference: dict[str, RunImage] = {}
    for path, run in settings.runs_and_trials():
        for image in _images_of_run(path, run, settings.cluster.registry, root, places):
            earlier_image = images_by_reference.get(image.reference, image)
            images_by_reference[image.reference] = RunImage(
                image.reference,
                tuple(dict.fromkeys([*earlier_image.workloads, *image.workloads])),
                tuple(dict.fromkeys([*earlier_image.paths, *image.paths])),
                tuple(dict.fromkeys([*earlier_image.folders, *image.folders])),
                earlier_image.has_content_tag,
            )
    return list(images_by_reference.values())


def base_argument(dockerfile: str) -> str | None:
    """Return how a Dockerfile declares the build argument BASE.

    The result is "required" for `ARG BASE`, "optional" for `ARG BASE=…`, and None without a declaration.
    """
    match = _ARG_BASE.search(dockerfile)
    if match is None:
        return None
    return "optional" if match["default"] else "required"


def _images_of_run(
    path: str, run: Workload, registry: str, root: Path, places: Mapping[str, Place]
) -> Iterator[RunImage]:
    if run.manifest is None:
        yield _image_of_run(path, run, registry, root, places)
    for image in images_of_manifest(path, run):
        yield RunImage(image.reference, (run.name,), (path,))


def _image_of_run(path: str, run: Workload, registry: str, root: Path, places: Mapping[str, Place]) -> RunImage:
    if run.image.build is not None:
        try:
            reference = workload_reference(project_file(root, run.image.build), registry)
        except FileNotFoundError as error:
            raise WorkloadError(f"{path}.image.build: {error}") from None
        return RunImage(reference, (run.name,), (path,), (run.image.build,), has_content_tag=True)
    reference = run.image.name or ""
    folder = next(_base_folders(path, places), f"workloads/{run.name}")
    # An image named by digest exists already; a build would yield another digest.
    is_built_here = "@" not in reference and (root / folder / _DOCKERFILE).is_file()
    return RunImage(reference, (run.name,), (path,), (folder,) if is_built_here else ())


def _base_folders(path: str, places: Mapping[str, Place]) -> Iterator[str]:
    """Yield the folders of the workload.yaml files that set a value of the run."""
    for set_path, place in places.items():
        if set_path.startswith(f"{path}.") and (match := _WORKLOAD_FILE.fullmatch(place.file)):
            yield match[1]
