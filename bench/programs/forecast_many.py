"""Simulate the forecast of many runs, and print its seconds, without the start of Python.

    python -m bench.programs.forecast_many 10000

Four teams in one cohort lend to each other and reclaim, with two flavors each, three priorities with preemption within
a team, and runs of 1 to 16 GPUs that all start to wait at once.
"""

import random
import sys
from collections.abc import Mapping

from bench.programs.clock import Clock
from trainstack.forecast.simulation import simulate
from trainstack.forecast.tasks import Duration, Task
from trainstack.kueue.model import (
    ClusterQueue,
    Flavor,
    LocalQueue,
    Model,
    PodSet,
    Preemption,
    Quota,
    ResourceGroup,
    Workload,
)

_TEAMS = ("vision", "speech", "text", "robots")
_GPU = "nvidia.com/gpu"
_QUOTAS: Mapping[str, Mapping[str, int]] = {
    "a100": {"cpu": 256_000, "memory": 2 << 40, _GPU: 16},
    "h100": {"cpu": 96_000, "memory": 1 << 40, _GPU: 8},
}
"""Quota of each team, in thousandths of a core, bytes and GPUs."""


def model() -> Model:
    quotas = {
        (flavor, resource): Quota(number, borrowing_limit=number // 2)
        for flavor, resources in _QUOTAS.items()
        for resource, number in resources.items()
    }
    group = ResourceGroup(frozenset(("cpu", "memory", _GPU)), tuple(_QUOTAS))
    preemption = Preemption(within_cluster_queue="LowerPriority", reclaim_within_cohort="Any")
    return Model(
        flavors={name: Flavor(name, {"nvidia.com/gpu.product": name}) for name in _QUOTAS},
        cluster_queues={
            name: ClusterQueue(name, (group,), quotas, cohort="lab", preemption=preemption) for name in _TEAMS
        },
        local_queues={(name, name): LocalQueue(name, name, name) for name in _TEAMS},
    )


def tasks(count: int, seed: int = 1, shapes: int = 20) -> list[Task]:
    """Return runs of all teams. There are few shapes, as in sweeps, whose trials differ only in their duration."""
    draw = random.Random(seed)  # noqa: S311 (a load, no secret)
    drawn = [_shape(draw) for _ in range(shapes)]
    drawn_tasks = []
    for number in range(count):
        team, pods, priority = draw.choice(drawn)
        workload = Workload(
            name=f"run-{number}", namespace=team, queue=team, pod_sets=(pods,), priority=priority, created=0.0
        )
        seconds = float(draw.randrange(600, 86400, 60))
        drawn_tasks.append(
            Task(workload=workload, duration=Duration(seconds, "declared"), is_resumable=draw.random() < 0.5)
        )
    return drawn_tasks


def _shape(draw: random.Random) -> tuple[str, PodSet, int]:
    """Return a team, the pods of a run and its priority."""
    gpus, pods = draw.choice((1, 1, 1, 2, 4, 8)), draw.choice((1, 1, 2))
    product = draw.choice(({}, {"nvidia.com/gpu.product": "a100"}, {"nvidia.com/gpu.product": "h100"}))
    of_pod = {"cpu": 8000 * gpus, "memory": (32 << 30) * gpus, _GPU: gpus}
    requests = {resource: amount * pods for resource, amount in of_pod.items()}
    priority = draw.choice((100, 1000, 1000, 1000, 10000))
    return draw.choice(_TEAMS), PodSet("main", pods, requests, selector=product), priority


def main(count: int) -> None:
    queues, runs = model(), tasks(count)
    clock = Clock()
    schedule = simulate(runs, queues)
    seconds = clock.seconds()
    left = [unfinished.task.key for unfinished in schedule.endless_timelines if _fits(unfinished.task)]
    if left:
        raise SystemExit(f"{len(left)} runs never ended, {left[0]} among them")
    clock.show(seconds)


def _fits(task: Task) -> bool:
    """Return whether a run is at most as large as the largest that a team can ever have."""
    pods = task.workload.pod_sets[0]
    most = 12 if pods.selector.get("nvidia.com/gpu.product") == "h100" else 24
    return pods.requests[_GPU] <= most


if __name__ == "__main__":
    main(int(sys.argv[1]))
