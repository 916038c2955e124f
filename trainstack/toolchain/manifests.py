"""The operators' release manifests, rendered from the modules that the operators' programs are built from.

Upstream publishes them as files for download; `kubectl kustomize` on the folder of the same release renders the same
objects. The bytes depend only on the pinned modules and on this file, so their sha256 is the same on every machine.
Every edit of this file changes the cache key, so the manifests are rendered again by `make tools`.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from trainstack.files.temporary import temporary_folder
from trainstack.toolchain import digests, go_modules, groups
from trainstack.toolchain.build import Builder
from trainstack.toolchain.engine import replace_link as link_file
from trainstack.toolchain.errors import ToolchainError
from trainstack.toolchain.places import CHECKOUT, GO_MODULES, cache_root, state_root
from trainstack.toolchain.process_lock import hold_lock
from trainstack.toolchain.progress import print_line


@dataclass(frozen=True, kw_only=True)
class ReleaseManifest:
    """The release manifest of one operator."""

    name: str
    group: str
    """A group whose go.mod pins the module."""
    module: str
    overlay: str
    """The folder in the module that kustomize builds."""
    image: str
    """The image in the overlay; `{version}` is the module's version, here and in `release_image`."""
    release_image: str
    """The image in the published release."""
    omitted_resource: str | None = None
    """A resource of the overlay that is omitted, because kustomize would download it; None if there is none."""

    @property
    def version(self) -> str:
        """The module's version, as in `v0.15.2`."""
        return go_modules.load(GO_MODULES / groups.GROUPS_BY_NAME[self.group].module / "go.mod").version(self.module)

    @property
    def file_name(self) -> str:
        """The name of the file, in the checkout's `.trainstack/manifests/`, to which settings refer."""
        return f"{self.name}-{self.version}.yaml"


_TRAINING_OPERATOR_IMAGE = "ghcr.io/kubeflow/training-v1/training-operator:v1-93c5489"

MANIFESTS = (
    ReleaseManifest(
        name="kueue",
        group="cluster",
        module="sigs.k8s.io/kueue",
        overlay="config/default",
        # Upstream's folder has the staging registry; its release job replaces it.
        image="us-central1-docker.pkg.dev/k8s-staging-images/kueue/kueue:main",
        release_image="registry.k8s.io/kueue/kueue:{version}",
    ),
    ReleaseManifest(
        name="training-operator",
        group="cluster",
        module="github.com/kubeflow/training-operator",
        overlay="manifests/overlays/standalone",
        # Upstream tags its images by commit, and the release's own overlay has the tag.
        image=_TRAINING_OPERATOR_IMAGE,
        release_image=_TRAINING_OPERATOR_IMAGE,
    ),
    ReleaseManifest(
        name="jobset",
        group="cluster",
        module="sigs.k8s.io/jobset",
        overlay="config/default",
        image="us-central1-docker.pkg.dev/k8s-staging-images/jobset/jobset:{version}",
        release_image="registry.k8s.io/jobset/jobset:{version}",
    ),
    ReleaseManifest(
        name="trainer",
        group="cluster",
        module="github.com/kubeflow/trainer/v2",
        overlay="manifests/overlays/manager",
        image="ghcr.io/kubeflow/trainer/trainer-controller-manager:{version}",
        release_image="ghcr.io/kubeflow/trainer/trainer-controller-manager:{version}",
        # JobSet has its own manifest here.
        omitted_resource="../../third-party/jobset",
    ),
    ReleaseManifest(
        name="local-path-provisioner",
        group="localpath",
        module="github.com/rancher/local-path-provisioner",
        overlay="deploy",
        image="rancher/local-path-provisioner:{version}",
        release_image="rancher/local-path-provisioner:{version}",
    ),
)

_MANIFESTS_BY_NAME = {manifest.name: manifest for manifest in MANIFESTS}


def manifest_path(name: str) -> Path:
    """Return the path of an operator's manifest in the shared cache.

    Raises:
        ToolchainError: the manifest has not been rendered, or the name is unknown.
    """
    if name not in _MANIFESTS_BY_NAME:
        raise ToolchainError(f"no manifest {name!r}: there are {', '.join(_MANIFESTS_BY_NAME)}")
    file = _cached_path(_MANIFESTS_BY_NAME[name])
    if not file.exists():
        raise ToolchainError(f"the manifest {file.name} has not been made: run `make tools`")
    return file


def ensure(
    builder: Builder, console: Console, official_kubectl: Path | None = None, pinned_digests: Collection[str] = ()
) -> None:
    """Render missing manifests, and verify the digests of existing ones.

    `official_kubectl`: renders them if the operators' manifests then have `pinned_digests`. Otherwise the pinned
    kubectl is built, which takes minutes.

    Raises:
        ToolchainError: a module cannot be downloaded, kustomize fails, or a manifest has changed since it was rendered.
    """
    missing = [manifest for manifest in MANIFESTS if not _cached_path(manifest).exists()]
    for manifest in MANIFESTS:
        if manifest not in missing:
            digests.verify(_cached_path(manifest).parent)
    if not missing:
        return
    with hold_lock(cache_root() / "locks" / "manifests", console):
        modules = {
            manifest.name: builder.module_folder(groups.GROUPS_BY_NAME[manifest.group], manifest.module)
            for manifest in missing
        }
        texts = _render_as_pinned(missing, modules, official_kubectl, pinned_digests) if official_kubectl else None
        if texts is None:
            kubectl = builder.build(groups.GROUP_OF_PROGRAM["kubectl"], console) / "bin" / "kubectl"
            texts = {manifest.name: render(manifest, modules[manifest.name], kubectl) for manifest in missing}
        for manifest in missing:
            file, text = _cached_path(manifest), texts[manifest.name]
            file.parent.mkdir(parents=True, exist_ok=True)
            draft = file.with_suffix(".new")
            draft.write_text(text)
            draft.replace(file)
            digests.record_digests(file.parent)
            print_line(console, f"manifests: {file.name} sha256 {digests.sha256(file)}")


def _render_as_pinned(
    missing: Sequence[ReleaseManifest], modules: Mapping[str, Path], kubectl: Path, pinned_digests: Collection[str]
) -> dict[str, str] | None:
    """Render with any kubectl; return None if it fails, or if an operator's manifest does not have a pinned digest.

    Most releases of kubectl contain a kustomize that renders the same bytes.
    """
    texts = {}
    for manifest in missing:
        try:
            text = render(manifest, modules[manifest.name], kubectl)
        except (ToolchainError, OSError):
            return None
        is_operator = manifest.group == "cluster"
        if is_operator and hashlib.sha256(text.encode()).hexdigest() not in pinned_digests:
            return None
        texts[manifest.name] = text
    return texts


def render(manifest: ReleaseManifest, module: Path, kubectl: Path) -> str:
    """Render a manifest from its module's folder.

    Raises:
        ToolchainError: kustomize fails, or the overlay lacks the expected image or resource.
    """
    with temporary_folder() as scratch:
        # A copy, since the module cache is read-only and kustomize rejects paths outside its folder.
        copy = scratch / "module"
        top = manifest.overlay.split("/", 1)[0]
        shutil.copytree(module / top, copy / top)
        if manifest.omitted_resource is not None:
            _omit_resource(manifest, copy / manifest.overlay / "kustomization.yaml", manifest.omitted_resource)
        result = subprocess.run(
            [kubectl, "kustomize", copy / manifest.overlay], capture_output=True, text=True, check=False,
            # The user's cluster and plugins must not influence the result.
            env={"PATH": os.defpath, "HOME": str(scratch)},
        )  # fmt: skip
    if result.returncode != 0:
        raise ToolchainError(
            f"`kubectl kustomize` on {manifest.module} {manifest.overlay} failed: {result.stderr.strip()}"
        )
    return _use_release_image(manifest, result.stdout)


def link_manifests(checkout: Path = CHECKOUT) -> None:
    """Link the manifests into the folder of a checkout to which its settings refer."""
    for manifest in MANIFESTS:
        link_file(state_root(checkout) / "manifests" / manifest.file_name, manifest_path(manifest.name))


def _omit_resource(manifest: ReleaseManifest, kustomization: Path, resource: str) -> None:
    lines = kustomization.read_text().splitlines(keepends=True)
    remaining = [line for line in lines if line.split("#")[0].strip() != f"- {resource}"]
    if len(remaining) != len(lines) - 1:
        raise ToolchainError(
            f"{manifest.module} {manifest.version}: expected the resource {resource} once in {manifest.overlay}, found "
            f"it {len(lines) - len(remaining)} times: say in trainstack/toolchain/manifests.py what this release "
            f"downloads"
        )
    kustomization.chmod(0o644)  # copies of the module cache's files are read-only too
    kustomization.write_text("".join(remaining))


def _use_release_image(manifest: ReleaseManifest, text: str) -> str:
    image_line = f"image: {manifest.image.format(version=manifest.version)}\n"
    if text.count(image_line) != 1:
        raise ToolchainError(
            f"{manifest.module} {manifest.version}: expected {image_line.strip()!r} once in {manifest.overlay}, found "
            f"it {text.count(image_line)} times: set the image that this release names in "
            "trainstack/toolchain/manifests.py"
        )
    text = text.replace(image_line, f"image: {manifest.release_image.format(version=manifest.version)}\n")
    # The tag of a release is immutable; `Always`, meant for upstream's `main`, would query the registry at every start.
    return text.replace("imagePullPolicy: Always\n", "imagePullPolicy: IfNotPresent\n")


def _cached_path(manifest: ReleaseManifest) -> Path:
    """Return the path of a manifest in the cache.

    The key has all inputs of the bytes: this file, and the pinned versions, including kubectl's with its kustomize.
    """
    modules = {groups.GROUPS_BY_NAME[manifest.group].module, groups.GROUP_OF_PROGRAM["kubectl"].module}
    pins = "".join((GO_MODULES / module / "go.mod").read_text() for module in sorted(modules))
    rules = Path(__file__).read_text()
    key = hashlib.sha256((pins + rules + manifest.name).encode()).hexdigest()[:16]
    return cache_root() / "manifests" / key / manifest.file_name
