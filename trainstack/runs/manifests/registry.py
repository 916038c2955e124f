"""The kinds of workloads."""

from collections.abc import Mapping
from types import MappingProxyType

from trainstack.runs.manifests.data_loader import DATA_LOADER
from trainstack.runs.manifests.job import JOB
from trainstack.runs.manifests.jobset import JOBSET
from trainstack.runs.manifests.kind import WorkloadKind
from trainstack.runs.manifests.mpijob import MPIJOB
from trainstack.runs.manifests.object import OBJECT
from trainstack.runs.manifests.pod import POD
from trainstack.runs.manifests.pytorchjob import PYTORCHJOB
from trainstack.runs.manifests.rayjob import RAYJOB
from trainstack.runs.manifests.trainjob import TRAINJOB

WORKLOAD_KINDS: Mapping[str, WorkloadKind] = MappingProxyType(
    {
        "DataLoader": DATA_LOADER,
        "Job": JOB,
        "JobSet": JOBSET,
        "MPIJob": MPIJOB,
        "Object": OBJECT,
        "Pod": POD,
        "PyTorchJob": PYTORCHJOB,
        "RayJob": RAYJOB,
        "TrainJob": TRAINJOB,
    }
)
"""The `WorkloadKind`s by the `kind` of a workload."""
