"""The stacks of drawn configurations: what an owner, a team and a tenant of a site say in their environments."""

from typing import Any

from tests.faults.configurations import Configuration, Share

Config = dict[str, Any]


def stack_config(whole: Configuration, *, launched: bool = True) -> Config:
    """The configuration's stack; `launched=False`: before anybody trains."""
    shares = whole.shares if launched else ()
    said = {"owner": _owner, "team": _team, "site": _tenant}[whole.environment](whole)
    said["trainstack:workloads"] = {"runs": [share.config for share in shares if not share.swept]}
    said["trainstack:sweeps"] = {"sweeps": [share.config for share in shares if share.swept]}
    if whole.environment == "owner":
        said["trainstack:checks"] = {"silenced": [_silence(share) for share in shares]}
    return said


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
            # defaults.yaml brings classes, and those of this name are the dev environment's.
            "priorityClasses": None,
        },
    }


def platform_stack(whole: Configuration) -> str:
    """The stack of the platform that a team's configuration stands on: four of them share one."""
    return f"again-platform-{whole.number // 4}"


def cluster_queue(whole: Configuration) -> Config:
    """A queue with just the quota of a configuration, where the higher priority puts out the lower."""
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
    said = _tenant(whole)
    said["trainstack:environment"]["platform"] = f"organization/trainstack/{platform_stack(whole)}"
    return said


def _storage(whole: Configuration) -> Config:
    claim = {"name": "again", "namespace": whole.name, "storageClass": "shared", "size": "1Gi"}
    return {"volumes": [{**claim, "accessModes": ["ReadWriteMany"], "retain": False}]}


def _silence(share: Share) -> Config:
    path = f"sweeps.sweeps[{share.name}]" if share.swept else f"workloads.runs[{share.name}]"
    return {"rule": "priority-unknown", "path": path, "reason": "the dev environment declares the class"}
