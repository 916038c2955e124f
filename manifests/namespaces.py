"""The namespaces that a stack declares."""

from manifests.labels import Manifest, metadata
from settings.environment import Namespace


def namespace(declared: Namespace, stack: str) -> Manifest:
    """A namespace with the labels it was given, such as its Pod Security level."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": metadata(declared.name, stack, labels=declared.labels, adopt=declared.adopt),
    }
