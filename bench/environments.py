"""Generated environments: many queues, teams and runs."""

from typing import Any

Settings = dict[str, Any]

FLAVORS, COHORTS = 4, 10


def environment(*, teams: int, queues: int, runs: int, oversized: bool = False) -> Settings:
    """Return the configuration of an environment, as its file has it.

    Each queue is in the namespace of one team. Runs are Jobs, Jobs of two pods and PyTorchJobs. `oversized`: every
    tenth requests more than its queue can ever admit, so that remedies are computed. Otherwise all queues are on hold:
    no pod starts.
    """
    namespaces = [f"team-{number}" for number in range(teams)]
    flavors = [f"gpu-{number}" for number in range(FLAVORS)]
    quotas: list[Settings] = [{"name": "cpu", "nominalQuota": "256"}, {"name": "memory", "nominalQuota": "2Ti"}]
    quotas.append({"name": "nvidia.com/gpu", "nominalQuota": "8", "borrowingLimit": "8"})
    group = {
        "coveredResources": [quota["name"] for quota in quotas],
        "flavors": [{"name": flavor, "resources": quotas} for flavor in flavors],
    }
    held = {} if oversized else {"stopPolicy": "Hold"}
    return {
        "environment": {"state": "embedded", "namespaces": [{"name": name} for name in namespaces]},
        "tenants": {"teams": [{"name": name, "namespace": name, "groups": [f"lab:{name}"]} for name in namespaces]},
        "queues": {
            "flavors": [{"name": flavor, "nodeLabels": {"pool": flavor}} for flavor in flavors],
            "cohorts": [{"name": f"lab-{number}"} for number in range(COHORTS)],
            "clusterQueues": [
                {"name": f"queue-{number}", "cohort": f"lab-{number % COHORTS}", "resourceGroups": [group], **held}
                for number in range(queues)
            ],
            "localQueues": [
                {
                    "name": f"queue-{number}",
                    "namespace": namespaces[number % teams],
                    "clusterQueue": f"queue-{number}",
                }
                for number in range(queues)
            ],
            # Those of defaults.yaml belong to `dev`.
            "priorityClasses": None,
        },
        "workloads": {
            "runs": [
                _run(number, number % queues, namespaces[number % queues % teams], oversized=oversized)
                for number in range(runs)
            ]
        },
    }


def _run(number: int, queue: int, namespace: str, *, oversized: bool) -> Settings:
    gpus = 64 if oversized and number % 10 == 9 else 1 + number % 4
    requests = {"cpu": str(4 * gpus), "memory": f"{16 * gpus}Gi", "nvidia.com/gpu": str(gpus)}
    run: Settings = {
        "name": f"run-{number}",
        "namespace": namespace,
        "kind": "Job",
        "managed": False,
        "queue": f"queue-{queue}",
        "image": {"name": "python:3.11"},
        "command": ["python3", "train.py"],
        "resources": {"requests": requests, "limits": {"nvidia.com/gpu": str(gpus)}},
    }
    if number % 3 == 1:
        return {**run, "completions": 2, "parallelism": 2}
    if number % 3 == 2:
        return {**run, "kind": "PyTorchJob", "roles": {"Master": {}, "Worker": {"replicas": 2}}}
    return run


def as_config(settings: Settings) -> Settings:
    """Return the content of `Pulumi.<stack>.yaml`."""
    return {"config": {f"trainstack:{section}": content for section, content in settings.items()}}
