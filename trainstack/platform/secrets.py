"""The Secrets of a stack without their data, which only the engine can decrypt."""

from trainstack.objects.labels import Manifest, metadata
from trainstack.settings.sections.secrets import Secret


def secret(declared: Secret, stack: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(declared.name, stack, namespace=declared.namespace),
        "type": declared.type,
    }
