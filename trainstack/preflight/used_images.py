"""The images that an environment uses, whoever made them: what can be pinned."""

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic.alias_generators import to_camel

from trainstack.declared.declared import Declared


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


def used_images(declared: Declared) -> list[UsedImage]:
    """Every image of the halves that the environment holds, sorted; one that several settings name stands for each.

    Raises OperatorError where a release does not hold what an install of it needs.
    """
    halves, found = declared.settings.environment.halves, list[UsedImage]()
    if "platform" in halves:
        found += _of_operators(declared)
    if "training" in halves:
        found += _of_training(declared)
    return sorted(found, key=lambda each: (each.reference, each.path))


def _of_operators(declared: Declared) -> Iterator[UsedImage]:
    settings = declared.settings
    for name, operator in declared.unpinned_operators.items():
        for deployment in operator.deployments:
            for container in deployment["spec"]["template"]["spec"]["containers"]:
                yield UsedImage(container["image"], f"operators.{to_camel(name.replace('-', '_'))}.image")
    if settings.operators.training_operator is not None:
        path = "operators.trainingOperator.initContainerImage"
        yield UsedImage(settings.operators.training_operator.init_container_image, path)


def _of_training(declared: Declared) -> Iterator[UsedImage]:
    settings = declared.settings
    for path, run in settings.trained():
        field = "name" if run.image.build is None else "build"
        yield UsedImage(declared.image(run), f"{path}.image.{field}", run.image.build)
    # What `upload`, `ls` and `fetch` start.
    yield UsedImage(settings.cluster.loader.image, "cluster.loader.image")
    if any(run.code is not None for _, run in settings.trained()):
        yield UsedImage(settings.cluster.git_image, "cluster.gitImage")
