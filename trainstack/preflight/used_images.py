"""Images that an environment uses and that can be pinned."""

from collections.abc import Iterator
from dataclasses import dataclass

from trainstack.preflight.operator_facts import OPERATORS
from trainstack.runs.manifests.user_manifest import images_of_manifest
from trainstack.stack_objects.stack_objects import StackObjects


@dataclass(frozen=True, order=True)
class UsedImage:
    reference: str
    """Reference from the settings, a release or a folder's content, without the pinned digest."""
    path: str
    """Setting that requires the image, in the notation of `settings.values.paths`."""
    build: str | None = None
    """Folder of this repository from which the image is built; None for an existing image."""

    @property
    def has_digest(self) -> bool:
        return "@" in self.reference


def used_images(stack_objects: StackObjects) -> list[UsedImage]:
    """Return the images of the environment's layers, one entry per setting that requires an image, sorted.

    Raises OperatorError if a release lacks an object that its installation needs.
    """
    layers, images = stack_objects.settings.environment.layers, list[UsedImage]()
    if "platform" in layers:
        images += _operator_images(stack_objects)
    if "training" in layers:
        images += _training_images(stack_objects)
    return sorted(images, key=lambda image: (image.reference, image.path))


def _operator_images(stack_objects: StackObjects) -> Iterator[UsedImage]:
    for name, operator in stack_objects.unpinned_operators.items():
        for deployment in operator.deployments:
            for container in deployment["spec"]["template"]["spec"]["containers"]:
                yield UsedImage(container["image"], f"{OPERATORS[name].path}.image")
    if (training_operator := stack_objects.settings.operators.training_operator) is not None:
        path = "operators.trainingOperator.initContainerImage"
        yield UsedImage(training_operator.init_container_image, path)


def _training_images(stack_objects: StackObjects) -> Iterator[UsedImage]:
    settings = stack_objects.settings
    for path, run in settings.runs_and_trials():
        if run.manifest is not None:
            yield from (UsedImage(image.reference, image.path) for image in images_of_manifest(path, run))
            continue
        field = "name" if run.image.build is None else "build"
        yield UsedImage(stack_objects.image_reference(run), f"{path}.image.{field}", run.image.build)
    # `upload`, `ls` and `fetch` start pods of this image.
    yield UsedImage(settings.cluster.loader.image, "cluster.loader.image")
    if any(run.code is not None for _, run in settings.runs_and_trials()):
        yield UsedImage(settings.cluster.git_image, "cluster.gitImage")
