"""The operators' release manifests, made from the modules that also give the operators' programs.

Upstream publishes them as files for download; `kubectl kustomize` on the same release's folder gives the same objects.
The bytes depend on the pinned modules and on this file alone, so their sha256 is the same on every machine.
"""

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from trainstack.files.temporary import temporary_folder
from trainstack.toolchain import digests, gomod, groups
from trainstack.toolchain.build import Builder
from trainstack.toolchain.engine import link as link_file
from trainstack.toolchain.errors import ToolchainError
from trainstack.toolchain.locking import locked
from trainstack.toolchain.places import CHECKOUT, GO_MODULES, cache_root, state_root
from trainstack.toolchain.progress import say


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """One operator's installation."""

    name: str
    group: str
    """A group of the go.mod that pins the module."""
    module: str
    overlay: str
    """Folder in the module that kustomize builds."""
    image: str
    """The image that the overlay names; `{version}` is the module's version, here and below."""
    released: str
    """What the release names instead."""
    without: str | None = None
    """A resource of the overlay that is left out: one that kustomize would download."""

    @property
    def version(self) -> str:
        """As in `v0.15.2`."""
        return gomod.load(GO_MODULES / groups.BY_NAME[self.group].module / "go.mod").version(self.module)

    @property
    def file(self) -> str:
        """The file's name: what settings refer to, in the checkout's `.trainstack/manifests/`."""
        return f"{self.name}-{self.version}.yaml"


_TRAINING_OPERATOR_IMAGE = "ghcr.io/kubeflow/training-v1/training-operator:v1-d6eb98e"

MANIFESTS = (
    Manifest(
        name="kueue",
        group="cluster",
        module="sigs.k8s.io/kueue",
        overlay="config/default",
        # Between releases upstream's folder names its staging registry; its release job puts this in.
        image="us-central1-docker.pkg.dev/k8s-staging-images/kueue/kueue:main",
        released="registry.k8s.io/kueue/kueue:{version}",
    ),
    Manifest(
        name="training-operator",
        group="cluster",
        module="github.com/kubeflow/training-operator",
        overlay="manifests/overlays/standalone",
        # Upstream's releases are tagged by commit, and the release's own overlay names the tag.
        image=_TRAINING_OPERATOR_IMAGE,
        released=_TRAINING_OPERATOR_IMAGE,
    ),
    Manifest(
        name="jobset",
        group="cluster",
        module="sigs.k8s.io/jobset",
        overlay="config/default",
        image="us-central1-docker.pkg.dev/k8s-staging-images/jobset/jobset:{version}",
        released="registry.k8s.io/jobset/jobset:{version}",
    ),
    Manifest(
        name="trainer",
        group="cluster",
        module="github.com/kubeflow/trainer/v2",
        overlay="manifests/overlays/manager",
        image="ghcr.io/kubeflow/trainer/trainer-controller-manager:{version}",
        released="ghcr.io/kubeflow/trainer/trainer-controller-manager:{version}",
        # JobSet's own release, which is an install of its own here.
        without="../../third-party/jobset",
    ),
    Manifest(
        name="local-path-provisioner",
        group="localpath",
        module="github.com/rancher/local-path-provisioner",
        overlay="deploy",
        image="rancher/local-path-provisioner:{version}",
        released="rancher/local-path-provisioner:{version}",
    ),
)

_BY_NAME = {manifest.name: manifest for manifest in MANIFESTS}


def path(name: str) -> Path:
    """The manifest of an operator in the shared cache.

    Raises:
        ToolchainError: it has not been made, or there is none of that name.
    """
    if name not in _BY_NAME:
        raise ToolchainError(f"no manifest {name!r}: there are {', '.join(_BY_NAME)}")
    file = _cached(_BY_NAME[name])
    if not file.exists():
        raise ToolchainError(f"the manifest {file.name} has not been made: run `make tools`")
    return file


def ensure(builder: Builder, console: Console) -> None:
    """Make what is missing, and hold the others against the digests that they had when they were made.

    Raises:
        ToolchainError: a module cannot be had, kustomize fails, or a manifest is not what it was.
    """
    missing = [manifest for manifest in MANIFESTS if not _cached(manifest).exists()]
    for manifest in MANIFESTS:
        if manifest not in missing:
            digests.verify(_cached(manifest).parent)
    if not missing:
        return
    with locked(cache_root() / "locks" / "manifests", console):
        kubectl = builder.build(groups.GROUP_OF["kubectl"], console) / "bin" / "kubectl"
        for manifest in missing:
            file = _cached(manifest)
            module = builder.module_folder(groups.BY_NAME[manifest.group], manifest.module)
            text = render(manifest, module, kubectl)
            file.parent.mkdir(parents=True, exist_ok=True)
            fresh = file.with_suffix(".new")
            fresh.write_text(text)
            fresh.replace(file)
            digests.record(file.parent)
            say(console, f"manifests: {file.name} sha256 {digests.sha256(file)}")


def render(manifest: Manifest, module: Path, kubectl: Path) -> str:
    """Build a manifest from its module's folder.

    Raises:
        ToolchainError: kustomize fails, or the overlay does not name the expected image or resource.
    """
    with temporary_folder() as scratch:
        # The module cache is read-only, and kustomize refuses folders outside of the one that it is given.
        copy = scratch / "module"
        top = manifest.overlay.split("/", 1)[0]
        shutil.copytree(module / top, copy / top)
        if manifest.without is not None:
            _leave_out(manifest, copy / manifest.overlay / "kustomization.yaml", manifest.without)
        result = subprocess.run(
            [kubectl, "kustomize", copy / manifest.overlay], capture_output=True, text=True, check=False,
            # Nothing of the user's cluster or plugins has a part in it.
            env={"PATH": os.defpath, "HOME": str(scratch)},
        )  # fmt: skip
    if result.returncode != 0:
        raise ToolchainError(
            f"`kubectl kustomize` on {manifest.module} {manifest.overlay} failed: {result.stderr.strip()}"
        )
    return _released(manifest, result.stdout)


def link(checkout: Path = CHECKOUT) -> None:
    """Put the manifests where a checkout's settings refer to them."""
    for manifest in MANIFESTS:
        link_file(state_root(checkout) / "manifests" / manifest.file, path(manifest.name))


def _leave_out(manifest: Manifest, kustomization: Path, resource: str) -> None:
    lines = kustomization.read_text().splitlines(keepends=True)
    kept = [line for line in lines if line.split("#")[0].strip() != f"- {resource}"]
    if len(kept) != len(lines) - 1:
        raise ToolchainError(
            f"{manifest.module} {manifest.version}: expected the resource {resource} once in {manifest.overlay}, found "
            f"it {len(lines) - len(kept)} times: say in trainstack/toolchain/manifests.py what this release "
            f"downloads"
        )
    kustomization.chmod(0o644)  # the module cache's files are read-only, and so are their copies
    kustomization.write_text("".join(kept))


def _released(manifest: Manifest, text: str) -> str:
    named = f"image: {manifest.image.format(version=manifest.version)}\n"
    if text.count(named) != 1:
        raise ToolchainError(
            f"{manifest.module} {manifest.version}: expected {named.strip()!r} once in {manifest.overlay}, found it "
            f"{text.count(named)} times: set the image that this release names in trainstack/toolchain/manifests.py"
        )
    text = text.replace(named, f"image: {manifest.released.format(version=manifest.version)}\n")
    # A release's tag never moves; Always, which suits upstream's `main`, would ask the registry at every start.
    return text.replace("imagePullPolicy: Always\n", "imagePullPolicy: IfNotPresent\n")


def _cached(manifest: Manifest) -> Path:
    """Keyed by what the bytes depend on: this file's rules and the pinned versions (kubectl's kustomize among them)."""
    modules = {groups.BY_NAME[manifest.group].module, groups.GROUP_OF["kubectl"].module}
    pins = "".join((GO_MODULES / module / "go.mod").read_text() for module in sorted(modules))
    rules = Path(__file__).read_text()
    key = hashlib.sha256((pins + rules + manifest.name).encode()).hexdigest()[:16]
    return cache_root() / "manifests" / key / manifest.file
