"""Objects that are only ever sent as a dry run, to see whether an operator's webhooks answer."""

from collections.abc import Callable, Mapping

from trainstack.objects.labels import Manifest, metadata
from trainstack.platform import queues
from trainstack.settings.sections.queues import ResourceFlavor

NAME = "trainstack-probe"
"""Of each of them. Roles grant dry runs by it, and an admission policy refuses to store it."""


def kueue(stack: str) -> Manifest:
    """A ResourceFlavor: both of Kueue's webhooks, mutating and validating, stand in its way."""
    return queues.resource_flavor(ResourceFlavor(name=NAME), stack)


def training_operator(stack: str) -> Manifest:
    """A PyTorchJob that the operator's validation takes. In `default`, which every cluster has."""
    container = {"name": "pytorch", "image": "probe"}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": metadata(NAME, stack, namespace="default"),
        "spec": {
            "pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": {"spec": {"containers": [container]}}}},
        },
    }


def jobset(stack: str) -> Manifest:
    """A JobSet of one pod: its defaults and its validation stand in its way, and Kueue's where that manages it."""
    template = {"spec": {"template": {"spec": {"containers": [{"name": "probe", "image": "probe"}]}}}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": metadata(NAME, stack, namespace="default"),
        "spec": {"replicatedJobs": [{"name": "probe", "template": template}]},
    }


def trainer(stack: str) -> Manifest:
    """A TrainingRuntime that Trainer's validation takes. (A TrainJob would need one that is there.)"""
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": metadata(NAME, stack, namespace="default"),
        "spec": {"template": {"spec": jobset(stack)["spec"]}},
    }


BY_OPERATOR: Mapping[str, Callable[[str], Manifest]] = {
    "kueue": kueue,
    "training-operator": training_operator,
    "jobset": jobset,
    "trainer": trainer,
}
"""What each operator's webhooks are asked with, for a stack."""
