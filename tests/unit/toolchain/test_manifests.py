"""Release manifests: the parts of an overlay that are removed before the build."""

from pathlib import Path

import pytest

from trainstack.toolchain.errors import ToolchainError
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
