"""ClusterTrainingRuntimes for tests."""

from typing import Any

Body = dict[str, Any]


def make_job(name: str, *containers: Body, step: str = "") -> Body:
    """Return a Job of a runtime with these containers. `step`: the part of a TrainJob that Trainer applies to it."""
    labels = {"metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": step}}} if step else {}
    return {"name": name, "template": {**labels, "spec": {"template": {"spec": {"containers": [*containers]}}}}}


def make_cluster_runtime(*jobs: Body, name: str = "torch-distributed", **policy: Any) -> Body:
    """Return a runtime with these Jobs, by default the nodes alone, as `torch-distributed` of Trainer's releases."""
    nodes = make_job("node", {"name": "node", "image": "pytorch/pytorch:2.9"}, step="trainer")
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name},
        "spec": {
            "mlPolicy": policy or {"torch": {}},
            "template": {"spec": {"replicatedJobs": [*(jobs or (nodes,))]}},
        },
    }
