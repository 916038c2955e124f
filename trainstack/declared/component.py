"""The objects of one component, and the order among them. Pure."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from trainstack.objects.labels import Manifest


@dataclass(frozen=True)
class DeclaredObject:
    """An object of a component."""

    manifest: Manifest
    after: tuple[Manifest, ...] = ()
    """Objects of the same component that are created before it, and deleted after it."""
    retain: bool = False
    """Whether it stays in the cluster when the stack is destroyed."""
    protect: bool = False
    """Whether the engine refuses to delete it."""


@dataclass(frozen=True)
class Component:
    """The objects that one component declares, in the order of creation."""

    objects: tuple[DeclaredObject, ...]

    @property
    def manifests(self) -> tuple[Manifest, ...]:
        """The objects without their order of creation."""
        return tuple(declared.manifest for declared in self.objects)

    def of_kind(self, kind: str) -> Iterator[Manifest]:
        """The objects of one kind."""
        return (manifest for manifest in self.manifests if manifest["kind"] == kind)


def staged(*stages: Iterable[Manifest], retained: Collection[str] = ()) -> Component:
    """A component in which every object of a stage follows all objects of the stage before.

    `retained`: the kinds of objects that stay in the cluster.
    """
    objects: list[DeclaredObject] = []
    previous: tuple[Manifest, ...] = ()
    for stage in stages:
        manifests = tuple(stage)
        objects += [DeclaredObject(each, previous, retain=each["kind"] in retained) for each in manifests]
        previous = manifests
    return Component(tuple(objects))
