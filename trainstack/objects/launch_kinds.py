"""The kinds of launches."""

from collections.abc import Mapping
from types import MappingProxyType

LAUNCHES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "Job": ("batch", "jobs"),
        "JobSet": ("jobset.x-k8s.io", "jobsets"),
        "Pod": ("", "pods"),
        "PyTorchJob": ("kubeflow.org", "pytorchjobs"),
        "TrainJob": ("trainer.kubeflow.org", "trainjobs"),
    }
)
"""By kind: the API group and the plural."""
