"""Release manifests: the parts of an overlay that are removed before the build, and the kubectl that renders them."""

import hashlib
import io
from pathlib import Path

import pytest
from rich.console import Console

from trainstack.toolchain import manifests
from trainstack.toolchain.build import Builder
from trainstack.toolchain.errors import ToolchainError
from trainstack.toolchain.go_toolchain import Go
from trainstack.toolchain.groups import ProgramGroup
from trainstack.toolchain.manifests import MANIFESTS, ReleaseManifest, render

OVERLAY = "resources:\n  - deployment.yaml\n  - https://example.org/more.yaml # a download\n"
DEPLOYMENT = "kind: Deployment\nspec:\n  image: {image}\n  imagePullPolicy: Always\n"
KUSTOMIZE = """\
#!/bin/sh
cd "$2" && cat $(sed -n 's/^  - \\([^ ]*\\).*/\\1/p' kustomization.yaml)
"""


def make_module(folder: Path, manifest: ReleaseManifest) -> tuple[Path, Path]:
    """Create a module whose overlay downloads a file, read-only like Go's cache, and a minimal kustomize."""
    module = folder / "module"
    overlay = module / manifest.overlay
    overlay.mkdir(parents=True)
    image = manifest.image.format(version=manifest.version)
    for name, text in (("kustomization.yaml", OVERLAY), ("deployment.yaml", DEPLOYMENT.format(image=image))):
        (overlay / name).write_text(text)
        (overlay / name).chmod(0o444)
    kubectl = folder / "kubectl"
    kubectl.write_text(KUSTOMIZE)
    kubectl.chmod(0o755)
    return module, kubectl


def make_manifest(without: str | None) -> ReleaseManifest:
    """Return one of our manifests, from the minimal overlay."""
    (trainer,) = (manifest for manifest in MANIFESTS if manifest.name == "trainer")
    fields = {name: getattr(trainer, name) for name in ("name", "group", "module", "image", "release_image")}
    return ReleaseManifest(**fields, overlay="manifests/overlay", omitted_resource=without)


def test_a_resource_that_would_be_downloaded_is_left_out(tmp_path: Path) -> None:
    """The rest is built with the image of the release."""
    manifest = make_manifest("https://example.org/more.yaml")
    text = render(manifest, *make_module(tmp_path, manifest))
    released = manifest.release_image.format(version=manifest.version)
    assert text == f"kind: Deployment\nspec:\n  image: {released}\n  imagePullPolicy: IfNotPresent\n"


def test_another_overlay_than_the_expected_one_is_refused(tmp_path: Path) -> None:
    """A new release may download other files."""
    manifest = make_manifest("https://example.org/other.yaml")
    pattern = r"expected the resource https://example\.org/other\.yaml once in manifests/overlay, found it 0 times"
    with pytest.raises(ToolchainError, match=pattern):
        render(manifest, *make_module(tmp_path, manifest))


@pytest.mark.parametrize(
    ("official", "pinned", "builds"),
    [(True, True, False), (True, False, True), (False, True, True)],
    ids=["pinned bytes", "other bytes", "no kubectl on PATH"],
)
def test_the_pinned_kubectl_is_built_unless_another_one_renders_the_pinned_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, official: bool, pinned: bool, builds: bool
) -> None:
    """The build takes minutes, and most releases of kubectl render the same bytes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    manifest = make_manifest("https://example.org/more.yaml")
    module, kubectl = make_module(tmp_path, manifest)
    text = render(manifest, module, kubectl)
    digest = hashlib.sha256(text.encode()).hexdigest()
    monkeypatch.setattr(manifests, "MANIFESTS", (manifest,))
    built: list[str] = []

    def build(_: Builder, group: ProgramGroup, __: Console) -> Path:
        built.append(group.name)
        (tmp_path / "built" / "bin").mkdir(parents=True)
        kubectl.rename(tmp_path / "built" / "bin" / "kubectl")
        return tmp_path / "built"

    monkeypatch.setattr(Builder, "build", build)
    monkeypatch.setattr(Builder, "module_folder", lambda *_: module)
    pinned_digests = {digest if pinned else "0" * 64}
    builder, console = Builder(Go(Path("go"), "go1.99.3")), Console(file=io.StringIO())
    manifests.ensure(builder, console, kubectl if official else None, pinned_digests)
    assert built == (["kubectl"] if builds else [])
    assert manifests._cached_path(manifest).read_text() == text


def test_a_kubectl_that_fails_is_replaced(tmp_path: Path) -> None:
    """So is one that cannot be executed."""
    manifest = make_manifest(None)
    module, kubectl = make_module(tmp_path, manifest)
    for script in ("#!/bin/sh\nexit 3\n", "no program"):
        kubectl.write_text(script)
        assert manifests._render_as_pinned([manifest], {manifest.name: module}, kubectl, ()) is None
