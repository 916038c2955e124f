"""Images that are built from this repository, in the registry that serves the cluster."""

from collections.abc import Iterator

from trainstack.preflight.live_context import LiveContext, UnservedImage
from trainstack.preflight.rule import Rule, Violation


@Rule(
    id="image-missing",
    may_be=("unknown",),
    summary="The registry does not have a run's image, which has a Dockerfile in this repository.",
    details="`up` does not launch such a run. `unknown` if the registry does not answer or refuses this user.",
    example="`image: {build: workloads/digits}` after an edit of that folder.",
    remedy="Run `trainstack image push digits -s lab`.",
)
def image_missing(context: LiveContext) -> Iterator[Violation]:
    yield from map(image_violation, context.live.unserved_images)


def image_violation(image: UnservedImage) -> Violation:
    path = f"{image.path}.image"
    if image.missing:
        return Violation(path, f"the registry does not have {image.reference}", f"run `{image.command}`")
    message = f"whether the registry has {image.reference} is unknown: {image.reason}"
    return Violation(path, message, f"push it with `{image.command}`", "unknown")
