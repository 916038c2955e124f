"""Images that are built from this repository, in the registry that serves the cluster."""

from collections.abc import Iterator

from trainstack.preflight.live_context import LiveScene, UnservedImage
from trainstack.preflight.rule import Check, Rule, Violation


@Rule(
    id="image-missing",
    severity="error",
    may_be=("unknown",),
    summary="The registry does not have a run's image, which has a Dockerfile in this repository.",
    details=(
        "No node could pull it, and `up` stops before it launches such a run. The finding is `unknown` if the "
        "registry does not answer, or does not let this user read it."
    ),
    example="`image: {build: workloads/digits}` after an edit of that folder.",
    remedy="Run `trainstack image push digits -s lab`.",
)
def image_missing(scene: LiveScene) -> Iterator[Violation]:
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
