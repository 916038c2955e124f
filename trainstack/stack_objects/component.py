"""The objects of a component and the order in which they are created. Pure."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from trainstack.objects.labels import Manifest


@dataclass(frozen=True)
class DeclaredObject:
    """An object with its dependencies and its options in the engine."""

    manifest: Manifest
    dependencies: tuple[Manifest, ...] = ()
    """The objects of the same component that are created before this one, and deleted after it."""
    retain: bool = False
    """Whether the object remains in the cluster when the stack is destroyed."""
    protect: bool = False
    """Whether the engine refuses to delete it."""


@dataclass(frozen=True)
class Component:
    """The objects of a Pulumi component in the order of their creation."""

    objects: tuple[DeclaredObject, ...]

    @property
    def manifests(self) -> tuple[Manifest, ...]:
        return tuple(declared_object.manifest for declared_object in self.objects)

    def manifests_of_kind(self, kind: str) -> Iterator[Manifest]:
        return (manifest for manifest in self.manifests if manifest["kind"] == kind)


def component_from_stages(*stages: Iterable[Manifest], retained_kinds: Collection[str] = ()) -> Component:
    """Return a component in which each object depends on all objects of the previous stage.

    Objects of `retained_kinds` remain in the cluster when the stack is destroyed.
    """
    objects: list[DeclaredObject] = []
    previous_stage: tuple[Manifest, ...] = ()
    for stage in stages:
        manifests = tuple(stage)
        objects += [
            DeclaredObject(manifest, previous_stage, retain=manifest["kind"] in retained_kinds)
            for manifest in manifests
        ]
        previous_stage = manifests
    return Component(tuple(objects))
