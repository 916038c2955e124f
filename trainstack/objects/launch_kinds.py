"""The kinds of launches."""

from collections.abc import Mapping

LAUNCHES: Mapping[str, tuple[str, str]] = {
    "Job": ("batch", "jobs"),
    "JobSet": ("jobset.x-k8s.io", "jobsets"),
    "Pod": ("", "pods"),
    "PyTorchJob": ("kubeflow.org", "pytorchjobs"),
    "TrainJob": ("trainer.kubeflow.org", "trainjobs"),
}
"""By kind: the API group and the plural."""
