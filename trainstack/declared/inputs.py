"""The files that an environment's manifests depend on. `read_inputs` is the edge; everything else here is data."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trainstack.objects.labels import Manifest
from trainstack.platform.operators.install import OperatorError
from trainstack.platform.operators.release import ReleaseError, read_release
from trainstack.runs.errors import WorkloadError
from trainstack.runs.images.images import workload_reference
from trainstack.settings.model import Settings
from trainstack.settings.sections.operators import Manifest as ReleaseManifest

WRAPPER = Path("trainstack/runs/wrapper/run.py")
"""The wrapper's source, relative to the project."""
CACHE = Path(".trainstack/cache")
"""Parsed releases, relative to the project."""
DOWNLOADS = Path(".trainstack/manifests")
"""Where the releases that are given by URL are kept, named by their sha256, relative to the project."""


class InputsError(ValueError):
    """Files that the environment names and that are not there: all of them, sorted."""


FAULTS = (InputsError, ReleaseError, OperatorError, WorkloadError)
"""What `read_inputs` and `everything` raise where files or settings are wrong. Any other error is a bug."""


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What the manifests depend on beside the settings."""

    releases: Mapping[str, tuple[Manifest, ...]] = field(default_factory=dict)
    """The objects of the releases of the operators that are installed from here, by the operator's name."""
    images: Mapping[str, str] = field(default_factory=dict)
    """From a folder of this repository to the reference of the image that it makes."""
    data_digests: Mapping[str, str] = field(default_factory=dict)
    """From a data manifest of this repository to its sha256."""
    wrapper: str = ""
    """The wrapper's source; empty when no workload is managed."""
    commit: str = ""
    """The commit that runs are recorded with; empty where none is known."""


def read_inputs(settings: Settings, root: Path, *, commit: str, cache: Path | None = None) -> Inputs:
    """Read what the manifests of an environment depend on.

    Args:
        settings: the environment.
        root: the project's folder.
        commit: what runs are recorded with.
        cache: as in `read_release`.

    Raises InputsError with everything that is missing, or ReleaseError.

    """
    faults: list[str] = []
    wanted = [workload for _, workload in settings.trained()]
    builds = {workload.image.build for workload in wanted if workload.image.build is not None}
    manifests = {workload.data.manifest for workload in wanted if workload.data is not None}
    images = _collect(
        builds, lambda build: workload_reference(root / build, settings.cluster.registry), "image.build", faults
    )
    data = _collect(manifests, lambda name: _sha256(root / name), "data.manifest", faults)
    if faults:
        raise InputsError("\n".join(sorted(faults)))
    return Inputs(
        releases={
            name: _release(install.manifest, root, cache) for name, install in settings.operators.installs.items()
        },
        images=images,
        data_digests=data,
        wrapper=(root / WRAPPER).read_text(encoding="utf-8") if any(each.managed for each in wanted) else "",
        commit=commit,
    )


def release_path(release: ReleaseManifest, root: Path) -> Path:
    """The file of a release: the given one, or the place of a download."""
    return root / (release.path if release.path is not None else DOWNLOADS / f"{release.sha256}.yaml")


def _release(release: ReleaseManifest, root: Path, cache: Path | None) -> tuple[Manifest, ...]:
    return tuple(read_release(release_path(release, root), release.sha256, cache))


def _collect(names: Iterable[str], read: Callable[[str], str], setting: str, faults: list[str]) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = read(name)
        except OSError as error:
            faults.append(f"trainstack:workloads: {setting}: {name}: {error.strerror or error}; correct the path")
    return found


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
