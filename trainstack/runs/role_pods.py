"""The pods of a workload by role, with each role's overrides applied."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from trainstack.settings.base import Toleration
from trainstack.settings.sections.affinity import Affinity
from trainstack.settings.sections.pod_options import Capabilities, Scratch
from trainstack.settings.sections.topology import TopologyRequest
from trainstack.settings.sections.workloads import Mount, PodOverrides, Resources, Workload

DEFAULT_ROLE = "Pod"
"""The name of the only role of a kind without roles."""
NODE = "node"
"""The name that Trainer requires for the Job and the container of a TrainJob's nodes. From v2.4 on, Trainer limits the
names of a runtime's Jobs to 20 characters."""


@dataclass(frozen=True, kw_only=True)
class RolePods:
    """The pods of one role, with the role's overrides of the workload applied."""

    role: str
    replicas: int
    """The number of replicas of the role, or of the pods of a Job that must succeed."""
    command: tuple[str, ...]
    args: tuple[str, ...]
    env: Mapping[str, str]
    volumes: tuple[Mount, ...]
    resources: Resources
    annotations: Mapping[str, str]
    topology_request: TopologyRequest | None
    restart_policy: str | None
    """The restart policy; None for the operator's default."""
    # A workload with a manifest has none of these settings: its templates have them.
    shared_memory: str | None = None
    scratch: tuple[Scratch, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    affinity: Affinity | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    run_as_user: int | None = None
    run_as_group: int | None = None
    fs_group: int | None = None
    security: Literal["restricted", "baseline"] = "restricted"
    capabilities: Capabilities | None = None
    pod_patch: Mapping[str, Any] | None = None


def role_pods(workload: Workload) -> tuple[RolePods, ...]:
    """Return the pods of a workload by role: in alphabetical order, master first, or in that of a JobSet's Jobs."""
    if workload.replicated_jobs:
        return tuple(
            apply_overrides(workload, job, job.name, job.replicas * job.pods_to_succeed)
            for job in workload.replicated_jobs
        )
    if not workload.roles:
        return (apply_overrides(workload, PodOverrides(), DEFAULT_ROLE, workload.pods_to_succeed),)
    return tuple(apply_overrides(workload, role, name, role.replicas) for name, role in sorted(workload.roles.items()))


def apply_overrides(workload: Workload, overrides: PodOverrides, role: str, replicas: int) -> RolePods:
    """Return the pods of a role with the workload's value of each setting that the role does not override."""

    def value(name: str) -> Any:
        overriding = getattr(overrides, name, None)
        return getattr(workload, name) if overriding is None else overriding

    keeps_policy = workload.managed or "restart_policy" in overrides.model_fields_set
    return RolePods(
        role=role,
        replicas=replicas,
        command=value("command"),
        args=value("args"),
        env=MappingProxyType(value("env")),
        volumes=value("volumes"),
        resources=value("resources"),
        annotations=MappingProxyType(value("annotations")),
        topology_request=value("topology_request"),
        restart_policy=getattr(overrides, "restart_policy", None) if keeps_policy else None,
        shared_memory=value("shared_memory"),
        scratch=value("scratch"),
        node_selector=MappingProxyType(value("node_selector")),
        tolerations=value("tolerations"),
        affinity=value("affinity"),
        labels=MappingProxyType(value("labels")),
        run_as_user=value("run_as_user"),
        run_as_group=value("run_as_group"),
        fs_group=value("fs_group"),
        security=value("security"),
        capabilities=value("capabilities"),
        pod_patch=value("pod_patch"),
    )
