"""Images that are built from this repository, in the registry that serves the cluster."""

from collections.abc import Iterator

from checks.live import LiveScene, UnservedImage
from checks.rule import Check, Rule, Violation


@Rule(
    id="image-missing",
    severity="error",
    may_be=("unknown",),
    summary=(
        "A run's image has a Dockerfile in this repository, and its registry does not have the image: no node could "
        "pull it."
    ),
    details=(
        "`up` stops there too, before it launches such a run. `unknown` where the registry does not answer, or does "
        "not let this machine's user read it."
    ),
    example="`image: {build: workloads/digits}` after an edit of that folder.",
    remedy="`trainstack image push digits -s lab`.",
)
def image_missing(scene: LiveScene) -> Iterator[Violation]:
    """The registry has every image that is built here; where it cannot be asked, the finding is `unknown`."""
    yield from map(image_violation, scene.live.unserved_images)


def image_violation(image: UnservedImage) -> Violation:
    """What is wrong with one image, with the command that pushes it."""
    path = f"{image.path}.image"
    if image.missing:
        message = f"{image.reference} is not in its registry"
        return Violation(path, message, f"run `{image.command}`")
    message = f"whether the registry has {image.reference} is not known: {image.reason}"
    return Violation(path, message, f"`{image.command}` pushes it", "unknown")


RULES: tuple[Check[LiveScene], ...] = (image_missing,)
