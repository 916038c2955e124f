"""From a workload to the manifest of its launch."""

from dataclasses import replace

from trainstack.objects.labels import Manifest
from trainstack.runs import names
from trainstack.runs.identity import Facts, digest, run_id
from trainstack.runs.launch import InSweep, Launch
from trainstack.runs.manifests.data_loader import data_loader
from trainstack.runs.manifests.job import job
from trainstack.runs.manifests.jobset import jobset
from trainstack.runs.manifests.pod import pod
from trainstack.runs.manifests.pytorchjob import pytorchjob
from trainstack.runs.manifests.trainjob import training_runtime, trainjob
from trainstack.settings.sections.workloads import Workload

_BUILDERS = {
    "DataLoader": data_loader,
    "Job": job,
    "JobSet": jobset,
    "Pod": pod,
    "PyTorchJob": pytorchjob,
    "TrainJob": trainjob,
}
_COMPANIONS = {"TrainJob": training_runtime}
"""The builders of the second object, for kinds that need one."""


def manifest(workload: Workload, stack: str, launch: Launch) -> Manifest:
    """The object that executes the run.

    Raises WorkloadError.
    """
    return _BUILDERS[workload.kind](workload, stack, launch)


def companions(workload: Workload, stack: str, launch: Launch) -> tuple[Manifest, ...]:
    """The objects that the launch refers to, for this launch alone; none for most kinds. Raises WorkloadError."""
    build = _COMPANIONS.get(workload.kind)
    return () if build is None else (build(workload, stack, launch),)


def plan(workload: Workload, stack: str, facts: Facts, sweep: InSweep | None = None) -> Launch:
    """The launch of a workload as currently declared, with its name.

    The name is a hash of the whole object except for the name itself, its copies in labels and environment, and the
    commit: an object with immutable fields never needs an edit under the same name. The number of a trial and its
    sweep's file are excluded too.

    Raises WorkloadError when it cannot be built or a name derived from it would be too long.
    """
    run = run_id(workload, facts)
    draft = Launch(run_id=run, name="", facts=replace(facts, commit=""), sweep=sweep and sweep.unnumbered)
    launched, others = manifest(workload, stack, draft), companions(workload, stack, draft)
    name = names.launch_name(run, digest([launched, *others] if others else launched))
    launch = Launch(run_id=run, name=name, facts=facts, sweep=sweep)
    names.check(workload, launch.name, launch.number)
    return launch
