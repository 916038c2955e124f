"""Names of runs and launches, and the names derived from them.

- `digits-0f3c9a1b2d`: the run, named after a digest of everything that affects its result;
- `digits-0f3c9a1b2d-7e41c0`: a launch of it, named after a digest of its manifest; also its object, unless the
  workload's `naming` is `fixed` (`digits`; `search-3` for the third trial of a sweep) or `generated`
  (`digits-x7k2p`): then only the label LAUNCH holds the launch's name;
- `digits-0f3c9a1b2d-7e41c0-worker-1`: a pod of the launch, and the Service that gives the pod its name.

A sweep's Indexed Job is named like a launch, with a digest of its trials' run ids in place of the run's digest.
"""

from collections.abc import Mapping
from typing import Any

from trainstack.objects.labels import MAX_LABEL_CHARACTERS
from trainstack.settings.sections.workloads import Workload

RUN_DIGITS = 10
"""Hexadecimal digits of a run's hash. A million runs of one workload collide with a probability of about 0.4."""
LAUNCH_DIGITS = 6
"""Hexadecimal digits of a launch's hash, which distinguishes the launches of one run."""
FILE_DIGITS = 8
"""Hexadecimal digits of the content hash in the name of a ConfigMap."""

_MAX_PREFIX = MAX_LABEL_CHARACTERS - len("--") - RUN_DIGITS - LAUNCH_DIGITS
"""Characters of a workload's name in its run ids, so that a label can contain the launch's name."""

GENERATED_SUFFIX = "-xxxxx"
"""A stand-in for the suffix that the API server appends to a `generateName`, such as that of a Job's pods."""


def run_id(prefix: str, digest: str) -> str:
    """Return a run's id. `prefix`: that of its workload, or the name of its sweep."""
    return f"{prefix}-{digest[:RUN_DIGITS]}"


def run_prefix(workload: Workload) -> str:
    """Return the beginning of a workload's run ids: its name.

    A long name is shortened if the object is not named after the run, so that only labels and the ledger contain it.
    """
    return workload.name if workload.naming == "derived" else workload.name[:_MAX_PREFIX]


def prefix_of_run(run_id: str) -> str:
    """Return the beginning of a run id, see `run_prefix`; of a trial, the name of its sweep."""
    return run_id.rpartition("-")[0]


def launch_name(run: str, digest: str) -> str:
    return f"{run}-{digest[:LAUNCH_DIGITS]}"


def wrapper_name(digest: str) -> str:
    return f"trainstack-wrapper-{digest[:FILE_DIGITS]}"


def sweep_file_name(sweep: str, digest: str) -> str:
    return f"sweep-{sweep}-{digest[:FILE_DIGITS]}"


def ledger_name(run: str) -> str:
    return f"run-{run}"


def object_name(workload: Workload, launch: str, trial_number: int | None = None) -> str:
    """Return the name of a launch's object, or a placeholder of the same length if the API server generates the name.

    `trial_number` is None unless the launch is a single trial.
    """
    fixed_name = own_name(workload) if trial_number is None else f"{workload.name}-{trial_number}"
    generated_name = generated_prefix(workload) + GENERATED_SUFFIX.removeprefix("-")
    return {"derived": launch, "fixed": fixed_name, "generated": generated_name}[workload.naming]


def own_name(workload: Workload) -> str:
    """Return the name of a workload's object with `naming: fixed`: that in its manifest, or the workload's."""
    return str(_metadata(workload).get("name") or workload.name)


def generated_prefix(workload: Workload) -> str:
    """Return the beginning of the names of a workload's objects with `naming: generated`."""
    return str(_metadata(workload).get("generateName") or f"{workload.name}-")


def _metadata(workload: Workload) -> Mapping[str, Any]:
    return (workload.manifest or {}).get("metadata") or {}


def is_indexed(workload: Workload) -> bool:
    """Return whether the workload is an Indexed Job: a managed Job records each completion separately."""
    if workload.kind != "Job":
        return False
    return workload.pods_to_succeed > 1 if workload.managed else workload.completion_mode == "Indexed"
