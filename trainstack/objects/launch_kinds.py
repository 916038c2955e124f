"""The kinds of objects that launches are, with their API groups and plurals."""

from collections.abc import Mapping

GroupResource = tuple[str, str]
"""The API group (empty for the core group) and the plural of a kind."""

STANDARD_LAUNCH_KINDS: Mapping[str, GroupResource] = {
    "Job": ("batch", "jobs"),
    "JobSet": ("jobset.x-k8s.io", "jobsets"),
    "Pod": ("", "pods"),
    "PyTorchJob": ("kubeflow.org", "pytorchjobs"),
    "TrainJob": ("trainer.kubeflow.org", "trainjobs"),
}
"""The kinds whose objects every environment lists to find its launches."""

OPTIONAL_LAUNCH_KINDS: Mapping[str, GroupResource] = {
    "MPIJob": ("kubeflow.org", "mpijobs"),
    "RayJob": ("ray.io", "rayjobs"),
}
"""The kinds that only environments with such launches list. The ledgers of these launches name the kind."""


def plural(kind: str) -> str:
    """Return the plural of a kind by the rule of Kubernetes' code generators."""
    name = kind.lower()
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}es" if name.endswith("s") else f"{name}s"


ALL_LAUNCH_KINDS: Mapping[str, GroupResource] = {**STANDARD_LAUNCH_KINDS, **OPTIONAL_LAUNCH_KINDS}
