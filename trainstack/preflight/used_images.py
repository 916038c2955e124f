"""The images that an environment uses, whoever made them: what can be pinned."""

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic.alias_generators import to_camel

from trainstack import declared as render
from trainstack.declared import Inputs
from trainstack.settings.model import Settings


@dataclass(frozen=True, order=True)
class UsedImage:
    """An image, and the setting that brings it in."""

    reference: str
    """As settings, a release or the content of a folder say it; without the digest that is pinned."""
    path: str
    """The setting, as `settings.values.paths` writes it."""
    build: str | None = None
    """The folder of this repository that it is built from."""

    @property
    def by_digest(self) -> bool:
        """True when the reference itself says which content it means."""
        return "@" in self.reference


def used_images(settings: Settings, inputs: Inputs) -> list[UsedImage]:
    """Every image of the halves that the environment holds, sorted; one that several settings name stands for each.

    Raises OperatorError where a release does not hold what an install of it needs.
    """
    halves, found = settings.environment.halves, list[UsedImage]()
    if "platform" in halves:
        found += _of_operators(settings.model_copy(update={"pins": {}}), inputs)
    if "training" in halves:
        found += _of_training(settings, inputs)
    return sorted(found, key=lambda each: (each.reference, each.path))


def _of_operators(settings: Settings, inputs: Inputs) -> Iterator[UsedImage]:
    for name, operator in render.operators(settings, inputs).items():
        for deployment in operator.deployments:
            for container in deployment["spec"]["template"]["spec"]["containers"]:
                yield UsedImage(container["image"], f"operators.{to_camel(name.replace('-', '_'))}.image")
    if settings.operators.training_operator is not None:
        path = "operators.trainingOperator.initContainerImage"
        yield UsedImage(settings.operators.training_operator.init_container_image, path)


def _of_training(settings: Settings, inputs: Inputs) -> Iterator[UsedImage]:
    for path, run in settings.trained():
        field = "name" if run.image.build is None else "build"
        yield UsedImage(render.image(run, inputs), f"{path}.image.{field}", run.image.build)
    # What `upload`, `ls` and `fetch` start.
    yield UsedImage(settings.cluster.loader.image, "cluster.loader.image")
    if any(run.code is not None for _, run in settings.trained()):
        yield UsedImage(settings.cluster.git_image, "cluster.gitImage")
