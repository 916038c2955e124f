"""The declared objects that have immutable fields. Pure."""

from collections.abc import Iterator

from trainstack.objects.immutable_fields import IMMUTABLE_FIELDS
from trainstack.objects.labels import Manifest
from trainstack.settings.values.paths import named_element_paths
from trainstack.stack_objects.stack_objects import StackObjects


def objects_with_immutable_fields(stack_objects: StackObjects) -> Iterator[tuple[str, Manifest]]:
    """Yield each declared object of a kind in IMMUTABLE_FIELDS, with its path in the settings."""
    layers = stack_objects.settings.environment.layers
    platform_components = (stack_objects.storage_classes, stack_objects.queues) if "platform" in layers else ()
    components = (*platform_components, *((stack_objects.volumes,) if "training" in layers else ()))
    for kind, (section, _) in IMMUTABLE_FIELDS.items():
        manifests = [manifest for component in components for manifest in component.manifests_of_kind(kind)]
        names = [manifest["metadata"]["name"] for manifest in manifests]
        yield from zip(named_element_paths(section, names), manifests, strict=True)
