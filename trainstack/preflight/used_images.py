"""Images that an environment uses and that can be pinned."""

from collections.abc import Iterator
from dataclasses import dataclass

from trainstack.declared.declared import Declared
from trainstack.preflight.operator_facts import OPERATORS


@dataclass(frozen=True, order=True)
class UsedImage:
    reference: str
    """Reference from the settings, a release or a folder's content, without the pinned digest."""
    path: str
    """Setting that requires the image, in the notation of `settings.values.paths`."""
    build: str | None = None
    """Folder of this repository from which the image is built; None for an existing image."""

    @property
    def by_digest(self) -> bool:
        return "@" in self.reference


def used_images(declared: Declared) -> list[UsedImage]:
    """Return the images of the environment's layers, one entry per setting that requires an image, sorted.

    Raises OperatorError if a release lacks an object that its installation needs.
    """
    layers, found = declared.settings.environment.layers, list[UsedImage]()
    if "platform" in layers:
        found += _of_operators(declared)
    if "training" in layers:
        found += _of_training(declared)
    return sorted(found, key=lambda image: (image.reference, image.path))


def _of_operators(declared: Declared) -> Iterator[UsedImage]:
    for name, operator in declared.unpinned_operators.items():
        for deployment in operator.deployments:
            for container in deployment["spec"]["template"]["spec"]["containers"]:
                yield UsedImage(container["image"], f"{OPERATORS[name].path}.image")
    if (training_operator := declared.settings.operators.training_operator) is not None:
        path = "operators.trainingOperator.initContainerImage"
        yield UsedImage(training_operator.init_container_image, path)


def _of_training(declared: Declared) -> Iterator[UsedImage]:
    settings = declared.settings
    for path, run in settings.trained():
        field = "name" if run.image.build is None else "build"
        yield UsedImage(declared.image(run), f"{path}.image.{field}", run.image.build)
    # `upload`, `ls` and `fetch` start pods of this image.
    yield UsedImage(settings.cluster.loader.image, "cluster.loader.image")
    if any(run.code is not None for _, run in settings.trained()):
        yield UsedImage(settings.cluster.git_image, "cluster.gitImage")
