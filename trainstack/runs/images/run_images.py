"""The images of an environment's runs, and the folders of this repository that they are built from."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

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
    """An image, who uses it, and what it is built from."""

    reference: str
    """As the runs' pods have it, without the digest that is pinned."""
    workloads: tuple[str, ...]
    """The runs and sweeps that use it, in the order of the settings."""
    paths: tuple[str, ...]
    """The same, as `settings.values.paths` writes them."""
    folders: tuple[str, ...] = ()
    """Folders with a Dockerfile for it, relative to the project. None: somebody else builds it."""
    by_content: bool = False
    """True for `image.build`: the tag is a digest of the folder, so that an edit makes another image."""

    @property
    def local(self) -> bool:
        """True when no registry but the local cluster's can have it."""
        return self.reference.startswith(f"{REGISTRY}/")

    @property
    def folder(self) -> str:
        """The folder that it is built from. Raises WorkloadError where there is none, or more than one."""
        if len(self.folders) == 1:
            return self.folders[0]
        if self.folders:
            several = " and ".join(f"{folder}/{_DOCKERFILE}" for folder in self.folders)
            raise WorkloadError(
                f"{self.reference}: {several} both make this image; give the runs images of their own names, or keep "
                "one Dockerfile"
            )
        raise WorkloadError(
            f"{self.reference}: there is no workloads/{self.workloads[0]}/{_DOCKERFILE} to build it from; write it, or "
            "have the image's owner push it"
        )


def run_images(settings: Settings, root: Path, places: Mapping[str, Place]) -> list[RunImage]:
    """The images of everything that is trained, in the order of the settings; every image once.

    A run with `image.build` names its folder. One with `image.name` has the folder `workloads/<name>`, with the run's
    name or that of the workload that it is based on, if that folder holds a Dockerfile.

    Raises WorkloadError where `image.build` names a folder without a Dockerfile.
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
    """How a Dockerfile takes its base: "required" by `ARG BASE`, "optional" by `ARG BASE=…`; None: not by BASE."""
    declared = _DECLARED_BASE.search(dockerfile)
    if declared is None:
        return None
    return "optional" if declared["default"] else "required"


def _of_run(path: str, run: Workload, registry: str, root: Path, places: Mapping[str, Place]) -> RunImage:
    if run.image.build is not None:
        try:
            reference = workload_reference(root / run.image.build, registry)
        except FileNotFoundError as error:
            raise WorkloadError(f"{path}.image.build: {error}") from None
        return RunImage(reference, (run.name,), (path,), (run.image.build,), by_content=True)
    reference = run.image.name or ""
    folder = next(_bases(path, places), f"workloads/{run.name}")
    # What is named by digest exists already: a build makes a digest of its own.
    builds = "@" not in reference and (root / folder / _DOCKERFILE).is_file()
    return RunImage(reference, (run.name,), (path,), (folder,) if builds else ())


def _bases(path: str, places: Mapping[str, Place]) -> Iterator[str]:
    """The folder whose workload.yaml has set some value of the run."""
    for set_path, place in places.items():
        if set_path.startswith(f"{path}.") and (base := _BASE.fullmatch(place.file)):
            yield base[1]
