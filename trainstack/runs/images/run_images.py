"""The images of an environment's runs, and the folders of this repository that they are built from."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainstack.files.project import project_file
from trainstack.runs.errors import WorkloadError
from trainstack.runs.images.images import REGISTRY, workload_reference
from trainstack.settings.errors import Place
from trainstack.settings.model import Settings
from trainstack.settings.sections.workloads import Workload

_DOCKERFILE = "Dockerfile"
_BASE = re.compile(r"(workloads/[^/]+)/workload\.yaml")
_DECLARED_BASE = re.compile(r"^\s*ARG\s+BASE\s*(?P<default>=.*)?$", re.IGNORECASE | re.MULTILINE)


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
    by_content: bool = False
    """Whether the tag is a digest of the folder (`image.build`), so that an edit yields a new image."""

    @property
    def local(self) -> bool:
        """Whether only the local cluster's registry can have the image."""
        return self.reference.startswith(f"{REGISTRY}/")

    @property
    def folder(self) -> str:
        """The folder that the image is built from. Raises WorkloadError unless there is exactly one."""
        if len(self.folders) == 1:
            return self.folders[0]
        if self.folders:
            several = " and ".join(f"{folder}/{_DOCKERFILE}" for folder in self.folders)
            raise WorkloadError(
                f"{self.reference}: {several} both build this image; give each run's image its own name, or keep only "
                "one Dockerfile"
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
    found: dict[str, RunImage] = {}
    for path, run in settings.trained():
        new = _of_run(path, run, settings.cluster.registry, root, places)
        old = found.get(new.reference, new)
        found[new.reference] = RunImage(
            new.reference,
            tuple(dict.fromkeys([*old.workloads, *new.workloads])),
            tuple(dict.fromkeys([*old.paths, *new.paths])),
            tuple(dict.fromkeys([*old.folders, *new.folders])),
            old.by_content,
        )
    return list(found.values())


def base_argument(dockerfile: str) -> str | None:
    """Return how a Dockerfile declares the build argument BASE.

    The result is "required" for `ARG BASE`, "optional" for `ARG BASE=…`, and None without a declaration.
    """
    declared = _DECLARED_BASE.search(dockerfile)
    if declared is None:
        return None
    return "optional" if declared["default"] else "required"


def _of_run(path: str, run: Workload, registry: str, root: Path, places: Mapping[str, Place]) -> RunImage:
    if run.image.build is not None:
        try:
            reference = workload_reference(project_file(root, run.image.build), registry)
        except FileNotFoundError as error:
            raise WorkloadError(f"{path}.image.build: {error}") from None
        return RunImage(reference, (run.name,), (path,), (run.image.build,), by_content=True)
    reference = run.image.name or ""
    folder = next(_bases(path, places), f"workloads/{run.name}")
    # An image named by digest exists already; a build would yield another digest.
    builds = "@" not in reference and (root / folder / _DOCKERFILE).is_file()
    return RunImage(reference, (run.name,), (path,), (folder,) if builds else ())


def _bases(path: str, places: Mapping[str, Place]) -> Iterator[str]:
    """Yield the folders of the workload.yaml files that set a value of the run."""
    for set_path, place in places.items():
        if set_path.startswith(f"{path}.") and (base := _BASE.fullmatch(place.file)):
            yield base[1]
