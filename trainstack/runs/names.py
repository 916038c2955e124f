"""Names of runs and launches, and of what grows out of them.

- `digits-0f3c9a1b2d`: the run, named after what would change its result;
- `digits-0f3c9a1b2d-7e41c0`: a launch of it, named after every field of that; its object too, unless the workload's
  `naming` is `fixed` (`digits`; `search-3` for the third trial of a sweep) or `generated` (`digits-x7k2p`): then only
  the label LAUNCH holds the launch's name;
- `digits-0f3c9a1b2d-7e41c0-worker-1`: a pod of the launch, and the Service that gives the pod its name.

A sweep's Indexed Job is named as a launch is; where a run has its id it has one of the run ids of its trials.
"""

from trainstack.settings.sections.workloads import Workload

RUN_DIGITS = 10
"""Hexadecimal digits of a run's hash: among a million runs of one workload, two are alike with a chance of 1 in 2."""
LAUNCH_DIGITS = 6
"""Hexadecimal digits of a launch's hash, which tells the launches of one run apart."""
FILE_DIGITS = 8
"""Hexadecimal digits of the hash in the name of a ConfigMap that is named after its content."""

SUFFIX = "-xxxxx"
"""As long as what the API server appends to a `generateName`, of which Jobs make their pods' names."""


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
    """The name of the ConfigMap that remembers a run's launch."""
    return f"run-{run}"


def object_name(workload: Workload, launch: str, number: int | None = None) -> str:
    """The name of a launch's object; of a generated one its length is right, and the rest is the API server's.

    Args:
        workload: what is launched.
        launch: the launch's name.
        number: that of the trial in its sweep; None: the launch is not a single trial.

    """
    fixed = workload.name if number is None else f"{workload.name}-{number}"
    return {"derived": launch, "fixed": fixed, "generated": f"{workload.name}{SUFFIX}"}[workload.naming]


def indexed(workload: Workload) -> bool:
    """Whether each pod of a Job has an index: a managed one records each of its completions apart."""
    return workload.kind == "Job" and workload.managed and workload.completions > 1
