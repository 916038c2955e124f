"""The declared objects that have immutable fields. Pure."""

from collections.abc import Iterator

from trainstack.declared.declared import Declared
from trainstack.objects.immutable_fields import IMMUTABLE
from trainstack.objects.labels import Manifest
from trainstack.settings.values.paths import elements


def with_immutable_fields(environment: Declared) -> Iterator[tuple[str, Manifest]]:
    """Yield each declared object of a kind in IMMUTABLE_FIELDS, with its path in the settings."""
    layers = environment.settings.environment.layers
    of_platform = (environment.storage_classes, environment.queues) if "platform" in layers else ()
    components = (*of_platform, *((environment.volumes,) if "training" in layers else ()))
    for kind, (section, _) in IMMUTABLE.items():
        manifests = [manifest for component in components for manifest in component.of_kind(kind)]
        names = [manifest["metadata"]["name"] for manifest in manifests]
        yield from zip(elements(section, names), manifests, strict=True)
