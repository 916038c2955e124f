"""The Secrets of a stack without their data, which only the engine can decrypt."""

from trainstack.objects.labels import Manifest, metadata
from trainstack.settings.sections.secrets import Secret


def secret(settings: Secret, stack: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(settings.name, stack, namespace=settings.namespace),
        "type": settings.type,
    }
