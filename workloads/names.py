"""Names of runs and launches, and of what grows out of them.

- `digits-0f3c9a1b2d`: the run, named after what would change its result;
- `digits-0f3c9a1b2d-7e41c0`: a launch of it, the Job or PyTorchJob, named after every field of that;
- `digits-0f3c9a1b2d-7e41c0-worker-1`: a pod of the launch, and the Service that gives the pod its name.
"""

import re

from manifests.labels import LIMIT
from settings.workloads import Workload
from workloads.errors import WorkloadError

RUN_DIGITS = 10
"""Hexadecimal digits of a run's hash: among a million runs of one workload, two are alike with a chance of 1 in 2."""
LAUNCH_DIGITS = 6
"""Hexadecimal digits of a launch's hash, which tells the launches of one run apart."""
WRAPPER_DIGITS = 8
"""Hexadecimal digits of the hash in the name of the wrapper's ConfigMap."""

_POD_SUFFIX = "-xxxxx"
_STARTS_WITH_LETTER = re.compile(r"^[a-z]")


def run_id(workload: str, digest: str) -> str:
    """A run's id: the workload's name and the beginning of its identity's digest."""
    return f"{workload}-{digest[:RUN_DIGITS]}"


def launch_name(run: str, digest: str) -> str:
    """A launch's name: its run's id and the beginning of its manifest's digest."""
    return f"{run}-{digest[:LAUNCH_DIGITS]}"


def wrapper_name(digest: str) -> str:
    """The name of the ConfigMap that holds the wrapper with this digest."""
    return f"trainstack-wrapper-{digest[:WRAPPER_DIGITS]}"


def ledger_name(run: str) -> str:
    """The name of the ConfigMap that remembers a run's launch."""
    return f"run-{run}"


def longest_child(workload: Workload, launch: str) -> str:
    """The longest name that the controllers derive from a launch's: the last pod's of its largest role or index."""
    if workload.kind == "PyTorchJob":
        return max((f"{launch}-{name.lower()}-{role.replicas - 1}" for name, role in workload.roles.items()), key=len)
    if indexed(workload):
        return f"{launch}-{workload.completions - 1}{_POD_SUFFIX}"
    return f"{launch}{_POD_SUFFIX}"


def indexed(workload: Workload) -> bool:
    """Whether each pod of a Job has an index: a managed one records each of its completions apart."""
    return workload.kind == "Job" and workload.managed and workload.completions > 1


def check(workload: Workload, launch: str) -> None:
    """Refuse a launch whose name, or a name derived from it, the cluster would refuse.

    Raises WorkloadError.
    """
    child = longest_child(workload, launch)
    if len(child) > LIMIT:
        raise WorkloadError(
            f"workload {workload.name}: its longest derived name would be {child} with {len(child)} characters, and "
            f"Kubernetes allows {LIMIT}; shorten the workload's name by {len(child) - LIMIT}"
        )
    if workload.kind == "PyTorchJob" and not _STARTS_WITH_LETTER.match(launch):
        raise WorkloadError(
            f"workload {workload.name}: the training operator gives each pod a Service of its name, which must begin "
            "with a letter; put a letter before the workload's name"
        )
