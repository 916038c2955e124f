"""The Secrets that a stack declares, without what they hold: the engine alone has that."""

from trainstack.objects.labels import Manifest, metadata
from trainstack.settings.sections.secrets import Secret


def secret(declared: Secret, stack: str) -> Manifest:
    """A Secret as everybody may see it."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(declared.name, stack, namespace=declared.namespace),
        "type": declared.type,
    }
