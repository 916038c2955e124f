"""Objects that are only ever sent as a dry run, to see whether an operator's webhooks answer."""

from manifests import queues
from manifests.labels import Manifest, metadata
from settings.queues import ResourceFlavor

_NAME = "trainstack-probe"


def kueue(stack: str) -> Manifest:
    """A ResourceFlavor: both of Kueue's webhooks, mutating and validating, stand in its way."""
    return queues.resource_flavor(ResourceFlavor(name=_NAME), stack)


def training_operator(stack: str) -> Manifest:
    """A PyTorchJob that the operator's validation takes. In `default`, which every cluster has."""
    container = {"name": "pytorch", "image": "probe"}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": metadata(_NAME, stack, namespace="default"),
        "spec": {
            "pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": {"spec": {"containers": [container]}}}},
        },
    }
