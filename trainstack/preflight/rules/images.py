"""Images of an environment that wants them all by digest."""

from collections.abc import Iterator

from trainstack.declared.declared import Declared
from trainstack.declared.inputs import InputsError
from trainstack.platform.operators.install import OperatorError
from trainstack.platform.operators.release import ReleaseError
from trainstack.preflight.rule import Check, Rule, Violation
from trainstack.preflight.rule_context import Scene
from trainstack.preflight.used_images import UsedImage, used_images
from trainstack.settings.loading.load import pins_file
from trainstack.settings.model import Cluster
from trainstack.settings.sections.operators import Operators


@Rule(
    id="image-unpinned",
    severity="error",
    may_be=("unknown",),
    summary="The environment requires digests (`environment.pinned`), and an image has only a tag.",
    details=(
        "A tag may name another image tomorrow. The rule covers the images of runs, controllers, the init container "
        "of workers, the data loader and the code checkout. It is `unknown` if a file with images is missing, such "
        "as an operator's release that was not downloaded."
    ),
    change="""
        trainstack:environment:
          pinned: true
    """,
    remedy=(
        "Run `trainstack pin -s prod` and commit the file, or name the image as `…@sha256:…`. An image of this "
        "repository gets a new tag with every edit: build and push it, then pin."
    ),
)
def image_unpinned(scene: Scene) -> Iterator[Violation]:
    settings = scene.settings
    for image in _used(scene) if settings.environment.pinned else ():
        if isinstance(image, Violation):
            yield image
        elif not image.by_digest and image.reference not in settings.pins:
            message = f"the image {image.reference} has no digest, and none in {pins_file(settings.stack)}"
            remedy = f"run `trainstack pin -s {settings.stack}`"
            yield Violation(image.path, message, remedy)


@Rule(
    id="pins-missing",
    severity="warning",
    summary="The environment names a registry, but does not require digests.",
    details=(
        "A tag may name another image tomorrow: two pods of one run may run different images, and the run id does "
        "not show which image ran."
    ),
    change="""
        trainstack:cluster:
          registry: registry.example.org
    """,
    remedy=(
        "Set `environment.pinned: true` and run `trainstack pin -s prod`. If tags are meant to move, silence the "
        "finding."
    ),
)
def pins_missing(scene: Scene) -> Iterator[Violation]:
    registry = scene.settings.cluster.registry
    if registry != Cluster().registry and not scene.settings.environment.pinned:
        message = f"images of {registry} are known by their tags, and a tag may name another image tomorrow"
        remedy = f"set it to true and run `trainstack pin -s {scene.settings.stack}`"
        yield Violation("environment.pinned", message, remedy)


def _used(scene: Scene) -> Iterator[UsedImage | Violation]:
    """The images, and what keeps some of them from being known. Those of runs need no release of an operator."""
    declared, settings = scene.declared, scene.settings
    try:
        yield from used_images(declared if declared.has_inputs else Declared.from_files(settings, scene.root))
    except (InputsError, OSError) as error:
        yield _unknown("environment.pinned", error)
    except (ReleaseError, OperatorError) as error:
        yield _unknown("operators", error)
        without = settings.model_copy(update={"operators": Operators()})
        yield from used_images(Declared.from_files(without, scene.root))


def _unknown(path: str, error: Exception) -> Violation:
    message = f"whether all images have digests is not known: {error}"
    return Violation(path, message, "fix this, then run the check again", "unknown")


RULES: tuple[Check[Scene], ...] = (image_unpinned, pins_missing)
