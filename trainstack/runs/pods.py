"""The pods of a workload by role, with each role's overrides applied."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from trainstack.settings.sections.workloads import Mount, ReplicatedJob, Resources, Role, Workload

ONLY_ROLE = "Pod"
"""The role of pods of a kind without roles."""
NODE = "node"
"""Trainer's name of the Job, and of the container, in which the nodes of a TrainJob train."""


@dataclass(frozen=True, kw_only=True)
class Pod:
    """A role's pods with its overrides applied."""

    role: str
    replicas: int
    """The role's replicas, or the Job's completions."""
    command: tuple[str, ...]
    args: tuple[str, ...]
    env: Mapping[str, str]
    volumes: tuple[Mount, ...]
    resources: Resources
    annotations: Mapping[str, str]
    restart_policy: str | None
    """None for the operator's default."""


def pods(workload: Workload) -> tuple[Pod, ...]:
    """The workload's pods by role, the master first; for a JobSet in the order of its Jobs."""
    if workload.replicated_jobs:
        return tuple(
            _overridden(workload, job, job.name, job.replicas * (job.completions or job.parallelism))
            for job in workload.replicated_jobs
        )
    if not workload.roles:
        return (
            Pod(
                role=ONLY_ROLE,
                replicas=workload.completions,
                command=workload.command,
                args=workload.args,
                env=MappingProxyType(workload.env),
                volumes=workload.volumes,
                resources=workload.resources,
                annotations=MappingProxyType(workload.annotations),
                restart_policy=None,
            ),
        )
    return tuple(_overridden(workload, role, name, role.replicas) for name, role in sorted(workload.roles.items()))


def _overridden(workload: Workload, own: Role | ReplicatedJob, role: str, replicas: int) -> Pod:
    command = own.command if isinstance(own, ReplicatedJob) else None
    return Pod(
        role=role,
        replicas=replicas,
        command=workload.command if command is None else command,
        args=workload.args if own.args is None else own.args,
        env=MappingProxyType(workload.env if own.env is None else own.env),
        volumes=workload.volumes if own.volumes is None else own.volumes,
        resources=workload.resources if own.resources is None else own.resources,
        annotations=MappingProxyType(workload.annotations if own.annotations is None else own.annotations),
        restart_policy=own.restart_policy if workload.managed or "restart_policy" in own.model_fields_set else None,
    )
