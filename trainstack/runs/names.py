"""Names of runs and launches, and the names derived from them.

- `digits-0f3c9a1b2d`: the run, named after a digest of everything that would change its result;
- `digits-0f3c9a1b2d-7e41c0`: a launch of it, named after a digest of its manifest; also its object, unless the
  workload's `naming` is `fixed` (`digits`; `search-3` for the third trial of a sweep) or `generated`
  (`digits-x7k2p`): then only the label LAUNCH holds the launch's name;
- `digits-0f3c9a1b2d-7e41c0-worker-1`: a pod of the launch, and the Service that gives the pod its name.

A sweep's Indexed Job is named like a launch, with a digest of its trials' run ids in place of the run's digest.
"""

import re

from trainstack.objects.labels import LIMIT
from trainstack.runs.errors import WorkloadError
from trainstack.runs.pods import NODE
from trainstack.settings.sections.workloads import Workload

RUN_DIGITS = 10
"""Hexadecimal digits of a run's hash. A million runs of one workload collide with a probability of about 0.4."""
LAUNCH_DIGITS = 6
"""Hexadecimal digits of a launch's hash, which distinguishes the launches of one run."""
FILE_DIGITS = 8
"""Hexadecimal digits of the content hash in the name of a ConfigMap."""

_SUFFIX = "-xxxxx"
"""A suffix of the same length as the one that the API server appends to a `generateName`, as for a Job's pods."""
_NAMES_SERVICES = {
    "JobSet": "JobSet creates a Service",
    "PyTorchJob": "the training operator creates a Service for each pod",
    "TrainJob": "JobSet creates a Service",
}
_STARTS_WITH_LETTER = re.compile(r"^[a-z]")


def run_id(workload: str, digest: str) -> str:
    """A run's id: the workload's name and the beginning of its identity's digest."""
    return f"{workload}-{digest[:RUN_DIGITS]}"


def launch_name(run: str, digest: str) -> str:
    """A launch's name: its run's id and the beginning of its manifest's digest."""
    return f"{run}-{digest[:LAUNCH_DIGITS]}"


def wrapper_name(digest: str) -> str:
    """The name of the ConfigMap that holds the wrapper with this digest."""
    return f"trainstack-wrapper-{digest[:FILE_DIGITS]}"


def sweep_file_name(sweep: str, digest: str) -> str:
    """The name of the ConfigMap that holds a sweep's parameter file with this digest."""
    return f"sweep-{sweep}-{digest[:FILE_DIGITS]}"


def ledger_name(run: str) -> str:
    """The name of the ConfigMap that records a run's launch."""
    return f"run-{run}"


def object_name(workload: Workload, launch: str, number: int | None = None) -> str:
    """The name of a launch's object; if it is generated, a placeholder of the same length.

    Args:
        workload: the workload that is launched.
        launch: the launch's name.
        number: the trial's number in its sweep; None if the launch is not a single trial.

    """
    fixed = workload.name if number is None else f"{workload.name}-{number}"
    return {"derived": launch, "fixed": fixed, "generated": f"{workload.name}{_SUFFIX}"}[workload.naming]


def longest_child(workload: Workload, launch: str, number: int | None = None) -> str:
    """The longest name derived from a launch: its last pod of the largest role or index, or the launch itself."""
    name = object_name(workload, launch, number)
    if workload.kind == "PyTorchJob":
        pods = [f"{name}-{role.lower()}-{each.replicas - 1}" for role, each in workload.roles.items()]
    elif workload.kind == "TrainJob":
        nodes = sum(role.replicas for role in workload.roles.values())
        pods = [f"{name}-{NODE}-0-{nodes - 1}{_SUFFIX}"]
    elif workload.kind == "JobSet":
        pods = [
            f"{name}-{job.name}-{job.replicas - 1}-{(job.completions or job.parallelism) - 1}{_SUFFIX}"
            for job in workload.replicated_jobs
        ]
    elif workload.kind == "Pod":
        pods = [name]
    elif indexed(workload):
        pods = [f"{name}-{workload.completions - 1}{_SUFFIX}"]
    else:
        pods = [f"{name}{_SUFFIX}"]
    # A label holds the launch's name, even if its object has another name.
    return max([*pods, launch], key=len)


def indexed(workload: Workload) -> bool:
    """Whether the pods of a Job have completion indexes: a managed Job records each completion separately."""
    return workload.kind == "Job" and workload.managed and workload.completions > 1


def check(workload: Workload, launch: str, number: int | None = None) -> None:
    """Refuse a launch whose name, or a name derived from it, is invalid in the cluster.

    Raises WorkloadError.
    """
    child = longest_child(workload, launch, number)
    if len(child) > LIMIT:
        raise WorkloadError(
            f"workload {workload.name}: its longest derived name, {child}, has {len(child)} characters, but "
            f"Kubernetes allows {LIMIT}; shorten the workload's name by {len(child) - LIMIT}"
        )
    if workload.kind in _NAMES_SERVICES and not _STARTS_WITH_LETTER.match(object_name(workload, launch, number)):
        raise WorkloadError(
            f"workload {workload.name}: {_NAMES_SERVICES[workload.kind]} named after it, so its name must "
            "start with a letter; put a letter before the workload's name"
        )
