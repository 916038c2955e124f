"""The queued workloads of an environment and their pods, with the paths of their settings."""

from collections.abc import Iterator
from dataclasses import dataclass

from trainstack.runs.pods import NODE
from trainstack.settings.model import Settings
from trainstack.settings.sections.workloads import Mount, PodOverrides, Resources, Workload
from trainstack.settings.values.paths import elements


def queued(settings: Settings) -> Iterator[tuple[str, Workload]]:
    """The workloads that Kueue queues, by path: the runs, and of each sweep one trial or its Indexed Job."""
    runs, sweeps = settings.workloads.runs, settings.sweeps.sweeps
    yield from zip(elements("workloads.runs", [run.name for run in runs]), runs, strict=True)
    for path, sweep in zip(elements("sweeps.sweeps", [sweep.name for sweep in sweeps]), sweeps, strict=True):
        indices = {
            "completions": len(sweep.expansion.sets) if sweep.expansion and sweep.expansion.sets else 1,
            "parallelism": sweep.parallelism,
        }
        yield f"{path}.run", sweep.run.model_copy(update=indices if sweep.form == "indexed" else {})


@dataclass(frozen=True)
class PodSet:
    """Pods of a run that share a template."""

    path: str
    name: str
    """The role, or the kind of a run without roles."""
    count: int
    """The number of pods that run at the same time."""
    resources: Resources
    resources_path: str
    mounts: tuple[Mount, ...]
    mounts_path: str


def pod_sets(path: str, run: Workload) -> Iterator[PodSet]:
    """The pod sets of a run, the leading one (of rank 0) first."""
    if run.kind == "TrainJob":
        # Kueue treats its nodes as one pod set, whatever their roles.
        name, role = min(run.roles.items())
        count = sum(each.replicas for each in run.roles.values())
        yield _overridden(f"{path}.roles.{name}", path, run, role, NODE, count)
    elif run.kind == "JobSet":
        jobs = run.replicated_jobs
        for job_path, job in zip(elements(f"{path}.replicatedJobs", [job.name for job in jobs]), jobs, strict=True):
            count = job.replicas * min(job.parallelism, job.completions or job.parallelism)
            yield _overridden(job_path, path, run, job, job.name, count)
    elif run.roles:
        for name, role in sorted(run.roles.items()):
            yield _overridden(f"{path}.roles.{name}", path, run, role, name, role.replicas)
    else:
        count = min(run.parallelism, run.completions)
        yield PodSet(path, run.kind, count, run.resources, f"{path}.resources", run.volumes, f"{path}.volumes")


def _overridden(own_path: str, path: str, run: Workload, own: PodOverrides, name: str, count: int) -> PodSet:
    """The pods of a role at `own_path`, which overrides settings of its run at `path`."""
    return PodSet(
        path=own_path,
        name=name,
        count=count,
        resources=own.resources or run.resources,
        resources_path=f"{own_path if own.resources else path}.resources",
        mounts=run.volumes if own.volumes is None else own.volumes,
        mounts_path=f"{path if own.volumes is None else own_path}.volumes",
    )
