"""Images of an environment that wants them all by digest."""

from collections.abc import Iterator

from checks.finding import Finding
from checks.scene import Rule, Scene
from manifests.operators import OperatorError
from manifests.release import ReleaseError
from settings.load import pins_file
from settings.model import Cluster, Settings
from settings.operators import Operators
from workloads import render
from workloads.render import InputsError
from workloads.used_images import UsedImage, used_images


def image_unpinned(scene: Scene) -> Iterator[Finding]:
    """Where `environment.pinned` says so, every image has a pin or is given by digest."""
    settings = scene.settings
    for image in _used(scene) if settings.environment.pinned else ():
        if isinstance(image, Finding):
            yield image
        elif not image.by_digest and image.reference not in settings.pins:
            message = f"the image {image.reference} has no digest, and none in {pins_file(settings.stack)}"
            remedy = f"run `trainstack pin -s {settings.stack}`"
            yield Finding("image-unpinned", "error", image.path, message, remedy)


def pins_missing(scene: Scene) -> Iterator[Finding]:
    """An environment whose images come from a registry of others' wants them by digest."""
    registry = scene.settings.cluster.registry
    if registry != Cluster().registry and not scene.settings.environment.pinned:
        message = f"images of {registry} are known by their tags, and a tag may name another image tomorrow"
        remedy = f"set it to true and run `trainstack pin -s {scene.settings.stack}`"
        yield Finding("pins-missing", "warning", "environment.pinned", message, remedy)


def _used(scene: Scene) -> Iterator[UsedImage | Finding]:
    """The images, and what keeps some of them from being known. Those of runs need no release of an operator."""
    settings = scene.settings
    try:
        yield from _read(scene, settings)
    except (InputsError, OSError) as error:
        yield _unknown("environment.pinned", error)
    except (ReleaseError, OperatorError) as error:
        yield _unknown("operators", error)
        yield from _read(scene, settings.model_copy(update={"operators": Operators()}))


def _read(scene: Scene, settings: Settings) -> list[UsedImage]:
    inputs = render.read_inputs(settings, scene.root, commit="", cache=scene.root / render.CACHE)
    return used_images(settings, inputs)


def _unknown(path: str, error: Exception) -> Finding:
    message = f"whether all images have digests is not known: {error}"
    return Finding("image-unpinned", "unknown", path, message, "fix this, then run the check again")


RULES: tuple[Rule, ...] = (image_unpinned, pins_missing)
