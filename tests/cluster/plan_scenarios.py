"""Environments with many random runs on simulated GPU nodes, for tests of `trainstack forecast`."""

import random
from dataclasses import dataclass
from typing import Any

from trainstack.local_cluster.simulated_gpus import DURATION_ANNOTATION, SIMULATED_NODE_KEY

Config = dict[str, Any]
GPU = "nvidia.com/gpu"
KINDS = ("a100", "h100")
"""Flavors; each has half of the nodes."""
LABEL, OWNER = "plan.example.org/kind", "plan.example.org/scenario"
"""Labels of a node, and of a flavor's nodes."""
GATE = "gate"
"""A flavor that all queues list last. A queue with a missing flavor admits nothing, so that all runs start at once when
the flavor is created."""
PRIORITIES = {f"p{number}": 100 * number for number in range(1, 9)}
PER_NODE = 8
_TURN = len(PRIORITIES)
"""Runs that may join within one second."""


@dataclass(frozen=True)
class Scenario:
    """The parameters of an environment."""

    seed: int
    runs: int
    queues: int = 2
    nodes: int = 8
    """The nodes covered by quota, of both kinds together."""
    seconds: tuple[int, int] = (10, 30)
    """The durations of the shortest and the longest run."""
    spare: int = 0
    """Nodes beyond quota. The scheduler places pods partly by chance; spare nodes guarantee a place for a pod of
    several GPUs."""
    gpus: tuple[int, ...] = (1,)
    """The GPU requests of pods, to choose from."""
    pods: tuple[int, ...] = (1, 1, 2, 2, 4)
    """The numbers of pods of a run, to choose from. It is partly chance when a very large run starts."""
    strict: bool = False
    borrowing: bool = True
    """The queues are in one cohort."""
    preemption: bool = False
    """Higher priority evicts lower within a queue."""
    declared: bool = False
    """The runs declare their durations, in whole seconds."""
    tag: str = ""
    """A suffix of its names: objects of an earlier scenario may still be terminating."""

    @property
    def name(self) -> str:
        """The name of the environment and of its namespace."""
        return f"plan-{self.seed}{self.tag}"

    @property
    def description(self) -> str:
        """A short description."""
        kinds = (("strict", self.strict), ("borrowing", self.borrowing), ("preemption", self.preemption))
        words = [word for word, enabled in kinds if enabled]
        return ", ".join((f"{self.name}: {self.runs} runs, {self.queues} queues", *words))

    def config(self) -> Config:
        """Return the environment's settings."""
        draw = random.Random(self.seed)
        names = [f"{self.name}-{index}" for index in range(self.queues)]
        return {
            "trainstack:environment": {"namespaces": [{"name": self.name}]},
            "trainstack:queues": {
                "flavors": [*(_flavor(self.name, kind) for kind in KINDS), _gate(self.name)],
                "cohorts": [{"name": self.name}] if self.borrowing else [],
                "clusterQueues": [self._queue(draw, name) for name in names],
                "localQueues": [{"name": name, "namespace": self.name, "clusterQueue": name} for name in names],
                "priorityClasses": [{"name": name, "value": value} for name, value in PRIORITIES.items()],
            },
            "trainstack:workloads": {"runs": [self._run(draw, index, names) for index in range(self.runs)]},
        }

    def duration_seconds(self, index: int) -> float:
        """Return the seconds that the pods of a run take, with fractions so that no two runs end at the same time."""
        shortest, longest = self.seconds
        return round(random.Random(f"{self.seed} lasts {index}").uniform(shortest, longest), 2)

    def measured(self, overhead: float, jitter: float = 0.0, draw: int = 0) -> dict[str, float]:
        """Return the duration of each run, by its key.

        Args:
            overhead: seconds in addition to those of its pods.
            jitter: the largest random change of a duration, in seconds.
            draw: the seed of the random changes.

        """
        chance = random.Random(draw)
        return {
            f"{self.name}/{run_name(index)}": self.duration_seconds(index) + overhead + chance.uniform(-jitter, jitter)
            for index in range(self.runs)
        }

    def turns(self) -> list[list[int]]:
        """Return the indexes of the runs that may join within one second: one per priority, so without ties."""
        return [[*range(start, min(start + _TURN, self.runs))] for start in range(0, self.runs, _TURN)]

    def _queue(self, draw: random.Random, name: str) -> Config:
        whole = self.nodes // 2 * PER_NODE // self.queues
        order = draw.sample(KINDS, len(KINDS))
        flavors = [
            {
                "name": f"{self.name}-{kind}",
                "resources": [
                    {"name": "cpu", "nominalQuota": 64 // PER_NODE * whole},
                    {"name": GPU, "nominalQuota": whole},
                ],
            }
            for kind in order
        ]
        nothing = [{"name": "cpu", "nominalQuota": 0}, {"name": GPU, "nominalQuota": 0}]
        group = {
            "coveredResources": ["cpu", GPU],
            "flavors": [*flavors, {"name": f"{self.name}-{GATE}", "resources": nothing}],
        }
        return {
            "name": name,
            "namespaces": [self.name],
            "resourceGroups": [group],
            "queueingStrategy": "StrictFIFO" if self.strict else "BestEffortFIFO",
            **({"cohort": self.name} if self.borrowing else {}),
            **({"preemption": {"withinClusterQueue": "LowerPriority"}} if self.preemption else {}),
        }

    def _run(self, draw: random.Random, index: int, queues: list[str]) -> Config:
        # The runs of one second have different priorities, so their order of arrival does not matter.
        turn = random.Random(f"{self.seed} {index // _TURN}").sample(list(PRIORITIES), _TURN)
        gpus, pods = draw.choice(self.gpus), draw.choice(self.pods)
        kind = draw.choice((None, None, *KINDS))
        return {
            "name": run_name(index),
            "kind": "Job",
            "namespace": self.name,
            "queue": draw.choice(queues),
            "priority": turn[index % _TURN],
            "managed": False,
            "image": {"name": "busybox:1.35"},
            "completions": pods,
            "parallelism": pods,
            # Without requests, Kueue derives them from the limits and retries the workload at an undefined time.
            "resources": {"requests": {"cpu": gpus, GPU: gpus}, "limits": {GPU: gpus}},
            "annotations": {DURATION_ANNOTATION: f"{self.duration_seconds(index)}s"},
            **({"nodeSelector": {LABEL: kind}} if kind else {}),
            **({"expectedDurationSeconds": round(self.duration_seconds(index))} if self.declared else {}),
        }


def run_name(index: int) -> str:
    """Return the name of a run."""
    return f"run-{index:03}"


def _flavor(name: str, kind: str) -> Config:
    return {
        "name": f"{name}-{kind}",
        "nodeLabels": {LABEL: kind, OWNER: name},
        "tolerations": [{"key": SIMULATED_NODE_KEY, "operator": "Exists"}],
    }


def _gate(name: str) -> Config:
    return {"name": f"{name}-{GATE}", "nodeTaints": [{"key": "gate", "value": "closed", "effect": "NoSchedule"}]}
