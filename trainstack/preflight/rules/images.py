"""Rules about digests of the images of an environment."""

from collections.abc import Iterator

from trainstack.platform.operators.install import OperatorError
from trainstack.platform.operators.release import ReleaseError
from trainstack.preflight.examples import yaml_at
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import RuleContext
from trainstack.preflight.used_images import UsedImage, used_images
from trainstack.settings.loading.load import pins_file
from trainstack.settings.model import Cluster
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.workloads import Workload
from trainstack.stack_objects.inputs import InputsError
from trainstack.stack_objects.stack_objects import StackObjects


@Rule(
    id="image-unpinned",
    may_be=("unknown",),
    summary="The environment requires digests (`environment.pinned`), and an image has only a tag.",
    details="A tag may be moved. `unknown` if an operator's release was not downloaded.",
    change=yaml_at("environment", "pinned: true"),
    remedy=(
        "Push images of this repository, run `trainstack pin -s prod` and commit the file, or name the image as "
        "`…@sha256:…`."
    ),
)
def image_unpinned(context: RuleContext) -> Iterator[Violation]:
    settings = context.settings
    for image in _used_or_unknown_images(context) if settings.environment.pinned else ():
        if isinstance(image, Violation):
            yield image
        elif not image.has_digest and image.reference not in settings.pins:
            message = f"image {image.reference} has no digest, and {pins_file(settings.stack)} does not pin it"
            yield Violation(image.path, message, f"run `trainstack pin -s {settings.stack}`")
    for path, run in context.runs() if settings.environment.pinned else ():
        for reference in _images_of_patch(run):
            if "@" not in reference:
                message = f"image {reference} has no digest, and pins do not apply to a podPatch"
                yield Violation(f"{path}.podPatch", message, "write `@sha256:` and its digest")


@Rule(
    id="pins-missing",
    severity="warning",
    summary="The environment names a registry, but does not require digests.",
    details="A tag may be moved, so that two pods of a run have different images.",
    change=yaml_at("cluster", "registry: registry.example.org"),
    remedy="Set `environment.pinned: true` and run `trainstack pin -s prod`, or silence the finding.",
)
def pins_missing(context: RuleContext) -> Iterator[Violation]:
    registry = context.settings.cluster.registry
    if registry != Cluster().registry and not context.settings.environment.pinned:
        message = f"images of {registry} are identified by tags, which may be moved to other images"
        remedy = f"set it to true and run `trainstack pin -s {context.settings.stack}`"
        yield Violation("environment.pinned", message, remedy)


def _images_of_patch(run: Workload) -> list[str]:
    """Return the images that a run's `podPatch` sets, of containers and of image volumes."""
    spec = (run.pod_patch or {}).get("spec", {})
    containers = [*spec.get("initContainers", ()), *spec.get("containers", ())]
    volumes = [volume.get("image", {}).get("reference") for volume in spec.get("volumes", ())]
    return [image for image in (*(container.get("image") for container in containers), *volumes) if image]


def _used_or_unknown_images(context: RuleContext) -> Iterator[UsedImage | Violation]:
    """Yield the images, and a violation for images that are unknown.

    If an operator's release is missing, the images of runs are still known.
    """
    stack_objects, settings = context.stack_objects, context.settings
    try:
        yield from used_images(
            stack_objects if stack_objects.has_inputs else StackObjects.from_files(settings, context.root)
        )
    except (InputsError, OSError) as error:
        yield _unknown_digests("environment.pinned", error)
    except (ReleaseError, OperatorError) as error:
        yield _unknown_digests("operators", error)
        settings_without_operators = settings.model_copy(update={"operators": Operators()})
        yield from used_images(StackObjects.from_files(settings_without_operators, context.root))


def _unknown_digests(path: str, error: Exception) -> Violation:
    message = f"whether all images have digests is unknown: {error}"
    return Violation(path, message, "fix this, then repeat the check", "unknown")
