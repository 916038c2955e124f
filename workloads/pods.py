"""The pods of a workload: its roles, each with what it says differently from the workload."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from settings.workloads import Mount, Resources, Workload

ONLY_ROLE = "Pod"
"""The role of pods of a kind that has no roles."""


@dataclass(frozen=True, kw_only=True)
class Pod:
    """A role's pods as they will be."""

    role: str
    replicas: int
    """How many: the role's replicas, or the Job's completions."""
    args: tuple[str, ...]
    env: Mapping[str, str]
    volumes: tuple[Mount, ...]
    resources: Resources
    annotations: Mapping[str, str]
    restart_policy: str | None
    """Of a role; None: the operator's own default."""


def pods(workload: Workload) -> tuple[Pod, ...]:
    """The workload's pods by role, the master first."""
    if not workload.roles:
        return (
            Pod(
                role=ONLY_ROLE,
                replicas=workload.completions,
                args=workload.args,
                env=MappingProxyType(workload.env),
                volumes=workload.volumes,
                resources=workload.resources,
                annotations=MappingProxyType(workload.annotations),
                restart_policy=None,
            ),
        )
    return tuple(
        Pod(
            role=name,
            replicas=role.replicas,
            args=workload.args if role.args is None else role.args,
            env=MappingProxyType(workload.env if role.env is None else role.env),
            volumes=workload.volumes if role.volumes is None else role.volumes,
            resources=workload.resources if role.resources is None else role.resources,
            annotations=MappingProxyType(workload.annotations if role.annotations is None else role.annotations),
            restart_policy=role.restart_policy
            if workload.managed or "restart_policy" in role.model_fields_set
            else None,
        )
        for name, role in sorted(workload.roles.items())
    )
