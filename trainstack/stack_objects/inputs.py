"""The content of the files that an environment's manifests depend on."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from trainstack.errors import TrainstackError
from trainstack.files.project import project_file
from trainstack.files.regular import read_bytes, read_text
from trainstack.objects.labels import Manifest
from trainstack.platform.operators.install import OperatorError
from trainstack.platform.operators.release import ReleaseError, read_release
from trainstack.runs.errors import WorkloadError
from trainstack.runs.images.content_tags import workload_reference
from trainstack.settings.model import Settings
from trainstack.settings.sections.operators import Install, Operators
from trainstack.settings.sections.operators import Manifest as ReleaseManifest

WRAPPER_PATH = Path("trainstack/runs/wrapper/run.py")
"""The path of the wrapper's source in a checkout of this repository. Other projects use the installed wrapper."""
_INSTALLED_WRAPPER = Path(__file__).parents[1] / "runs" / "wrapper" / "run.py"
BUILT_MANIFESTS_FOLDER = Path(".trainstack/manifests")
"""The folder of the releases that the toolchain builds, relative to the project."""
_MAX_DATA_MANIFEST_BYTES = 256 << 20
"""The maximum size of a data manifest, 256 MiB: that of about two million files."""
CACHE_FOLDER = Path(".trainstack/cache")
"""The folder of parsed releases, relative to the project."""


class InputsError(TrainstackError):
    """All files that the environment refers to and that cannot be read, sorted."""


class ReleasesError(ReleaseError):
    """All releases that cannot be read; `operators` has the names of their operators."""

    def __init__(self, errors: Mapping[str, ReleaseError]) -> None:
        super().__init__("\n".join(map(str, errors.values())))
        self.operators = tuple(errors)


BUILD_ERRORS = (InputsError, ReleaseError, OperatorError, WorkloadError)
"""The errors of invalid files or settings. Any other error is a bug."""


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """The content of files that manifests depend on in addition to the settings."""

    releases: Mapping[str, tuple[Manifest, ...]] = field(default_factory=dict)
    """The objects of the operators' releases, by the operator's name."""
    images: Mapping[str, str] = field(default_factory=dict)
    """The references of images by the folders that they are built from."""
    data_digests: Mapping[str, str] = field(default_factory=dict)
    """The sha256 of data manifests by their paths."""
    wrapper: str = ""
    """The wrapper's source; empty if no workload is managed, and no namespace receives runs."""
    commit: str = ""
    """The commit that runs are recorded with; empty if it is unknown."""


def read_inputs(settings: Settings, root: Path, *, commit: str, cache: Path | None = None) -> Inputs:
    """Read the inputs of an environment of the project at `root`. Raises InputsError or ReleasesError.

    `commit`: as in `Inputs`. `cache`: as in `read_release`.
    """
    faults: list[str] = []
    workloads = [workload for _, workload in settings.runs_and_trials()]
    builds = {workload.image.build for workload in workloads if workload.image.build is not None}
    manifests = {workload.data.manifest for workload in workloads if workload.data is not None}
    images = _collect(
        builds,
        lambda build: workload_reference(project_file(root, build), settings.cluster.registry),
        "image.build",
        faults,
    )
    data_digests = _collect(
        manifests,
        lambda name: sha256(read_bytes(project_file(root, name), _MAX_DATA_MANIFEST_BYTES)).hexdigest(),
        "data.manifest",
        faults,
    )
    if faults:
        raise InputsError("\n".join(sorted(faults)))
    return Inputs(
        releases=_read_releases(settings.operators, root, cache),
        images=images,
        data_digests=data_digests,
        wrapper=_read_wrapper(root)
        if settings.workloads.receives or any(workload.managed for workload in workloads)
        else "",
        commit=commit,
    )


def _read_releases(operators: Operators, root: Path, cache: Path | None) -> dict[str, tuple[Manifest, ...]]:
    releases, errors = {}, {}
    for name, install in operators.installs.items():
        try:
            releases[name] = tuple(read_release(release_path(install.manifest, root), install.manifest.sha256, cache))
        except ReleaseError as error:
            errors[name] = error
    if errors:
        raise ReleasesError(errors)
    return releases


def is_built(install: Install) -> bool:
    """Return whether the toolchain builds the release of an operator."""
    path = install.manifest.path
    return path is not None and Path(path).parent == BUILT_MANIFESTS_FOLDER


def _read_wrapper(root: Path) -> str:
    checkout_wrapper = project_file(root, WRAPPER_PATH)
    return read_text(checkout_wrapper if checkout_wrapper.is_file() else _INSTALLED_WRAPPER)


def release_path(release: ReleaseManifest, root: Path) -> Path:
    """Return the path of a release's file. Raises ReleaseError if the release has a URL instead.

    The reader of URLs (live/releases.py) replaces them by the paths of the downloaded files.
    """
    if release.path is None:
        raise ReleaseError(f"{release.url}: the release manifest was not downloaded", "run `trainstack check`")
    return root / release.path


def _collect(names: Iterable[str], read: Callable[[str], str], setting: str, faults: list[str]) -> dict[str, str]:
    values_by_name = {}
    for name in names:
        try:
            values_by_name[name] = read(name)
        except OSError as error:
            faults.append(f"trainstack:workloads: {setting}: {name}: {error.strerror or error}; correct the path")
    return values_by_name
