"""Small environments drawn by a seed: cohorts, queues, runs that wait, train and have ended, volumes of all kinds."""

import random
from dataclasses import dataclass
from typing import Any

from tests.cluster.lab import Config, unmanaged_run

STACK = "drawn"
_CLASS = {"name": "drawn", "provisioner": "rancher.io/local-path"}
BRIEF = ["true"]
ENDLESS = ["sh", "-c", "trap 'exit 1' TERM; sleep 36000 & wait"]
"""It exits on SIGTERM, as a training does, and not after the 30 s for which a shell would delay it."""


@dataclass(frozen=True)
class DrawnStack:
    """An environment."""

    config: Config
    operators: bool
    """Whether it installs Kueue itself; otherwise another stack's Kueue serves it."""
    runs: int
    protected: tuple[str, ...]
    """The claims that stop a teardown, as `<namespace>/<name>`."""
    retained: frozenset[str]
    """The claims that stay."""


def draw(seed: int, number: int) -> DrawnStack:
    """Return the environment with this number in the series of a seed; every fourth has operators."""
    rng, operators = random.Random(f"{seed}/{number}"), number % 4 == 3
    namespaces = [f"drawn-{letter}" for letter in "ab"[: rng.randint(1, 2)]]
    volumes = [_volume(rng, index, rng.choice(namespaces)) for index in range(rng.randint(1, 3))]
    queues = _queues(rng, namespaces)
    runs = [_run(rng, index, queues, volumes) for index in range(rng.randint(1, 4))]
    config: Config = {
        "trainstack:environment": {"namespaces": [{"name": name} for name in namespaces]},
        "trainstack:storage": {
            "classes": [_CLASS],
            "volumes": volumes,
        },
        "trainstack:queues": queues,
        "trainstack:workloads": {"runs": runs},
    }
    if operators:
        config |= kueue()
    return DrawnStack(
        config=config,
        operators=operators,
        runs=len(runs),
        protected=tuple(f"{volume['namespace']}/{volume['name']}" for volume in volumes if volume["protect"]),
        retained=frozenset(f"{volume['namespace']}/{volume['name']}" for volume in volumes if volume["retain"]),
    )


def kueue() -> Config:
    """Return a configuration of Kueue with small requests."""
    return {"trainstack:operators": {"kueue": {"requests": {"cpu": "50m", "memory": "128Mi"}}}}


def operators_config() -> Config:
    """Return the configuration of a stack with only Kueue."""
    return {
        "trainstack:environment": {"layers": ["platform"]},
        "trainstack:queues": {"priorityClasses": None},
        **kueue(),
    }


def _volume(rng: random.Random, index: int, namespace: str) -> Config:
    claim = {"name": f"volume-{index}", "namespace": namespace, "storageClass": _CLASS["name"], "size": "1Gi"}
    modes = {"accessModes": ["ReadWriteMany"], "retain": rng.random() < 0.5, "protect": rng.random() < 0.25}
    return {**claim, **modes}


def _queues(rng: random.Random, namespaces: list[str]) -> Config:
    cohorts = rng.choice([[], [{"name": "drawn"}], [{"name": "drawn"}, {"name": "drawn-inner", "parent": "drawn"}]])
    flavors = [f"drawn-{index}" for index in range(rng.randint(1, 2))]
    cluster_queues = [
        {
            "name": f"drawn-{index}",
            **({"cohort": rng.choice(cohorts)["name"]} if cohorts else {}),
            **({"stopPolicy": "Hold"} if rng.random() < 0.25 else {}),
            "resourceGroups": [_group(rng.choice(flavors))],
        }
        for index in range(rng.randint(1, 3))
    ]
    local_queues = [
        {
            "name": f"drawn-{index}",
            "namespace": rng.choice(namespaces),
            "clusterQueue": rng.choice(cluster_queues)["name"],
        }
        for index in range(rng.randint(1, 4))
    ]
    return {
        "flavors": [{"name": name} for name in flavors],
        "cohorts": cohorts,
        "clusterQueues": cluster_queues,
        "localQueues": local_queues,
        "priorityClasses": None,
    }


def _group(flavor: str) -> dict[str, Any]:
    quotas = [{"name": "cpu", "nominalQuota": "500m"}, {"name": "memory", "nominalQuota": "1Gi"}]
    return {"coveredResources": ["cpu", "memory"], "flavors": [{"name": flavor, "resources": quotas}]}


def _run(rng: random.Random, index: int, queues: Config, volumes: list[Config]) -> Config:
    """Return a run that requests about half of a queue's quota, or a tenth, so that some wait."""
    queue = rng.choice(queues["localQueues"])
    claims = [volume["name"] for volume in volumes if volume["namespace"] == queue["namespace"]]
    mounted = rng.sample(claims, rng.randint(0, len(claims)))
    return unmanaged_run(
        f"run-{index}",
        namespace=queue["namespace"],
        queue=queue["name"],
        volumes=[{"volume": name, "mountPath": f"/mnt/{name}"} for name in mounted],
        resources={"requests": {"cpu": rng.choice(["50m", "300m"]), "memory": "32Mi"}},
        command=rng.choice([BRIEF, ENDLESS, ENDLESS]),
    )
