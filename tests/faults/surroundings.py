"""The stacks of drawn configurations for an owner, a team and a tenant of a site."""

from typing import Any

from tests.faults.configurations import Configuration, Share

Config = dict[str, Any]


def stack_config(whole: Configuration, *, launched: bool = True) -> Config:
    """Return the configuration's stack; `launched=False`: without runs."""
    shares = whole.shares if launched else ()
    sections = {"owner": _owner, "team": _team, "site": _tenant}[whole.environment](whole)
    sections["trainstack:workloads"] = {"runs": [share.config for share in shares if not share.swept]}
    sections["trainstack:sweeps"] = {"sweeps": [share.config for share in shares if share.swept]}
    if whole.environment == "owner":
        sections["trainstack:checks"] = {"silenced": [_silence(share) for share in shares]}
    return sections


def platform(*wholes: Configuration) -> Config:
    """Namespaces, queues and quota of some configurations, as sections of an owner's environment."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {
        "trainstack:environment": {
            "namespaces": [{"name": whole.name, "labels": labels} for whole in wholes],
            "existing": {"storageClasses": ["shared"]},
        },
        "trainstack:queues": {
            "flavors": [{"name": whole.name} for whole in wholes],
            "clusterQueues": [cluster_queue(whole) for whole in wholes],
            "localQueues": [
                {"name": whole.queue, "namespace": whole.name, "clusterQueue": whole.name} for whole in wholes
            ],
            # defaults.yaml declares classes whose names the dev environment uses already.
            "priorityClasses": None,
        },
    }


def platform_stack(whole: Configuration) -> str:
    """Return the platform stack of a team's configuration; four configurations share one."""
    return f"again-platform-{whole.number // 4}"


def cluster_queue(whole: Configuration) -> Config:
    """Return a queue with exactly the quota of a configuration, in which higher priorities preempt lower ones."""
    quotas = [{"name": "cpu", "nominalQuota": f"{whole.quota}m"}, {"name": "memory", "nominalQuota": "8Gi"}]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": whole.name, "resources": quotas}]}
    return {"name": whole.name, "resourceGroups": [group], "preemption": {"withinClusterQueue": "LowerPriority"}}


def _owner(whole: Configuration) -> Config:
    return {**platform(whole), "trainstack:storage": _storage(whole)}


def _tenant(whole: Configuration) -> Config:
    existing = {"namespaces": [whole.name], "storageClasses": ["shared"]}
    return {
        "trainstack:environment": {"profile": "tenant", "layers": ["training"], "existing": existing},
        "trainstack:queues": {"priorityClasses": None},
        "trainstack:storage": _storage(whole),
    }


def _team(whole: Configuration) -> Config:
    sections = _tenant(whole)
    sections["trainstack:environment"]["platform"] = f"organization/trainstack/{platform_stack(whole)}"
    return sections


def _storage(whole: Configuration) -> Config:
    claim = {"name": "again", "namespace": whole.name, "storageClass": "shared", "size": "1Gi"}
    return {"volumes": [{**claim, "accessModes": ["ReadWriteMany"], "retain": False}]}


def _silence(share: Share) -> Config:
    path = f"sweeps.sweeps[{share.name}]" if share.swept else f"workloads.runs[{share.name}]"
    return {"rule": "priority-unknown", "path": path, "reason": "the dev environment declares the class"}
