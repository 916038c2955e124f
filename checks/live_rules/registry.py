"""Images that are built from this repository, in the registry that serves the cluster."""

from collections.abc import Iterator

from checks.finding import Finding
from checks.live import LiveRule, LiveScene, UnservedImage


def image_missing(scene: LiveScene) -> Iterator[Finding]:
    """The registry has every image that is built here; where it cannot be asked, the finding is `unknown`."""
    yield from map(image_finding, scene.live.unserved_images)


def image_finding(image: UnservedImage) -> Finding:
    """What is wrong with one image, with the command that pushes it."""
    path = f"{image.path}.image"
    if image.missing:
        message = f"{image.reference} is not in its registry"
        return Finding("image-missing", "error", path, message, f"run `{image.command}`")
    message = f"whether the registry has {image.reference} is not known: {image.reason}"
    return Finding("image-missing", "unknown", path, message, f"`{image.command}` pushes it")


RULES: tuple[LiveRule, ...] = (image_missing,)
