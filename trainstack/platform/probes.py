"""Objects that are only sent as dry runs, to test whether an operator's webhooks answer."""

from collections.abc import Callable, Mapping

from trainstack.objects.labels import Manifest, metadata
from trainstack.platform import queues
from trainstack.settings.sections.queues import ResourceFlavor

NAME = "trainstack-probe"
"""The name of every probe. Roles grant dry runs of this name, and an admission policy refuses to store it."""


def kueue(stack: str) -> Manifest:
    """Return a ResourceFlavor, which passes both of Kueue's webhooks: the mutating and the validating one."""
    return queues.resource_flavor(ResourceFlavor(name=NAME), stack)


def training_operator(stack: str) -> Manifest:
    """Return a valid PyTorchJob."""
    template = {"spec": {"containers": [{"name": "pytorch", "image": "probe"}]}}
    spec = {"pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": template}}}
    return _probe("kubeflow.org/v1", "PyTorchJob", stack, spec)


def jobset(stack: str) -> Manifest:
    """Return a JobSet of one pod, which passes JobSet's webhooks, and also Kueue's if Kueue manages JobSets."""
    template = {"spec": {"template": {"spec": {"containers": [{"name": "probe", "image": "probe"}]}}}}
    spec = {"replicatedJobs": [{"name": "probe", "template": template}]}
    return _probe("jobset.x-k8s.io/v1alpha2", "JobSet", stack, spec)


def trainer(stack: str) -> Manifest:
    """Return a valid TrainingRuntime. A TrainJob would need an existing runtime."""
    spec = {"template": {"spec": jobset(stack)["spec"]}}
    return _probe("trainer.kubeflow.org/v1alpha1", "TrainingRuntime", stack, spec)


def _probe(api_version: str, kind: str, stack: str, spec: Manifest) -> Manifest:
    """Return an object in the namespace `default`, which every cluster has."""
    meta = metadata(NAME, stack, namespace="default")
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec}


BY_OPERATOR: Mapping[str, Callable[[str], Manifest]] = {
    "kueue": kueue,
    "training-operator": training_operator,
    "jobset": jobset,
    "trainer": trainer,
}
"""The builder of each operator's probe, whose argument is the name of the stack."""
