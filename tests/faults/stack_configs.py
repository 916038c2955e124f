"""The stacks of drawn configurations for an owner, a team and a tenant of a site."""

from typing import Any

from tests.faults.configurations import Configuration, Share

Config = dict[str, Any]


def stack_config(configuration: Configuration, *, launched: bool = True) -> Config:
    """Return the configuration's stack; `launched=False`: without runs."""
    shares = configuration.shares if launched else ()
    sections = {"owner": _owner, "team": _team, "site": _tenant}[configuration.environment](configuration)
    sections["trainstack:workloads"] = {"runs": [share.config for share in shares if not share.is_sweep]}
    sections["trainstack:sweeps"] = {"sweeps": [share.config for share in shares if share.is_sweep]}
    if configuration.environment == "owner":
        sections["trainstack:checks"] = {"silenced": [_silence(share) for share in shares]}
    return sections


def platform(*configurations: Configuration) -> Config:
    """Namespaces, queues and quota of some configurations, as sections of an owner's environment."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {
        "trainstack:environment": {
            "namespaces": [{"name": configuration.name, "labels": labels} for configuration in configurations],
            "existing": {"storageClasses": ["shared"]},
        },
        "trainstack:queues": {
            "flavors": [{"name": configuration.name} for configuration in configurations],
            "clusterQueues": [cluster_queue(configuration) for configuration in configurations],
            "localQueues": [
                {"name": configuration.queue, "namespace": configuration.name, "clusterQueue": configuration.name}
                for configuration in configurations
            ],
            # defaults.yaml declares classes whose names the dev environment uses already.
            "priorityClasses": None,
        },
    }


def platform_stack(configuration: Configuration) -> str:
    """Return the platform stack of a team's configuration; four configurations share one."""
    return f"again-platform-{configuration.number // 4}"


def cluster_queue(configuration: Configuration) -> Config:
    """Return a queue with exactly the quota of a configuration, in which higher priorities preempt lower ones."""
    quotas = [{"name": "cpu", "nominalQuota": f"{configuration.quota}m"}, {"name": "memory", "nominalQuota": "8Gi"}]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": configuration.name, "resources": quotas}]}
    return {
        "name": configuration.name,
        "resourceGroups": [group],
        "preemption": {"withinClusterQueue": "LowerPriority"},
    }


def _owner(configuration: Configuration) -> Config:
    return {**platform(configuration), "trainstack:storage": _storage(configuration)}


def _tenant(configuration: Configuration) -> Config:
    existing = {"namespaces": [configuration.name], "storageClasses": ["shared"]}
    return {
        "trainstack:environment": {"profile": "tenant", "layers": ["training"], "existing": existing},
        "trainstack:queues": {"priorityClasses": None},
        "trainstack:storage": _storage(configuration),
    }


def _team(configuration: Configuration) -> Config:
    sections = _tenant(configuration)
    sections["trainstack:environment"]["platform"] = f"organization/trainstack/{platform_stack(configuration)}"
    return sections


def _storage(configuration: Configuration) -> Config:
    claim = {"name": "again", "namespace": configuration.name, "storageClass": "shared", "size": "1Gi"}
    return {"volumes": [{**claim, "accessModes": ["ReadWriteMany"], "retain": False}]}


def _silence(share: Share) -> Config:
    path = f"sweeps.sweeps[{share.name}]" if share.is_sweep else f"workloads.runs[{share.name}]"
    return {"rule": "priority-unknown", "path": path, "reason": "the dev environment declares the class"}
