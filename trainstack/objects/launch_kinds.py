"""The kinds of launches."""

from collections.abc import Mapping

Resource = tuple[str, str]
"""The API group, empty for the core, and the plural."""

LAUNCHES: Mapping[str, Resource] = {
    "Job": ("batch", "jobs"),
    "JobSet": ("jobset.x-k8s.io", "jobsets"),
    "Pod": ("", "pods"),
    "PyTorchJob": ("kubeflow.org", "pytorchjobs"),
    "TrainJob": ("trainer.kubeflow.org", "trainjobs"),
}
"""The kinds that every environment looks for, by kind."""

OPTIONAL: Mapping[str, Resource] = {
    "MPIJob": ("kubeflow.org", "mpijobs"),
    "RayJob": ("ray.io", "rayjobs"),
}
"""The kinds that only environments with such launches look for, by kind: their ledgers name the kind."""


def plural(kind: str) -> str:
    """The plural of a kind by the rule that Kubernetes' generators follow."""
    name = kind.lower()
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}es" if name.endswith("s") else f"{name}s"


ALL_LAUNCHES: Mapping[str, Resource] = {**LAUNCHES, **OPTIONAL}
