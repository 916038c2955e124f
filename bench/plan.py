"""How long `trainstack forecast` reckons: the simulation of 10,000 runs, beside that of 1,000.

    .venv/bin/python -m bench.plan          # a table
    .venv/bin/python -m bench.plan --json   # for programs

Four teams in one cohort, who lend to each other and take back, with two flavors each, three priorities that evict each
other within a team, and runs of 1 to 16 GPUs that all want to start at once. The ratio is 10 where the time grows as
the number of runs does; it tells machines apart from changes of ours.
"""

import random
import statistics
import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from bench.results import show
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
"""Of each team, in thousandths of a core, bytes and GPUs."""


def model() -> Model:
    """The teams' queues."""
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
    """So many runs of all teams, of so many shapes: the trials of a sweep are alike, but for how long they take."""
    draw = random.Random(seed)  # noqa: S311 (a load, no secret)
    drawn = [_shape(draw) for _ in range(shapes)]
    made = []
    for number in range(count):
        team, pods, priority = draw.choice(drawn)
        workload = Workload(
            name=f"run-{number}", namespace=team, queue=team, pod_sets=(pods,), priority=priority, created=0.0
        )
        seconds = float(draw.randrange(600, 86400, 60))
        made.append(Task(workload=workload, duration=Duration(seconds, "declared"), resumes=draw.random() < 0.5))
    return made


def _shape(draw: random.Random) -> tuple[str, PodSet, int]:
    """A team, the pods of a run and its priority."""
    gpus, pods = draw.choice((1, 1, 1, 2, 4, 8)), draw.choice((1, 1, 2))
    product = draw.choice(({}, {"nvidia.com/gpu.product": "a100"}, {"nvidia.com/gpu.product": "h100"}))
    each = {"cpu": 8000 * gpus, "memory": (32 << 30) * gpus, _GPU: gpus}
    requests = {resource: amount * pods for resource, amount in each.items()}
    priority = draw.choice((100, 1000, 1000, 1000, 10000))
    return draw.choice(_TEAMS), PodSet("main", pods, requests, selector=product), priority


def seconds(count: int) -> float:
    """What so many runs take; ends the program where one of them has no end."""
    queues, runs = model(), tasks(count)
    began = time.process_time()
    schedule = simulate(runs, queues)
    took = time.process_time() - began
    left = [each.task.key for each in schedule.open if _fits(each.task)]
    if left:
        raise SystemExit(f"{len(left)} runs never ended, {left[0]} among them")
    return took


def _fits(task: Task) -> bool:
    """Whether a run is no larger than a team may ever have."""
    pods = task.workload.pod_sets[0]
    most = 12 if pods.selector.get("nvidia.com/gpu.product") == "h100" else 24
    return pods.requests[_GPU] <= most


def measure(times: int) -> dict[str, Any]:
    """Medians in seconds of processor time, and their ratio."""
    few, many = ([round(seconds(count), 3) for _ in range(times)] for count in (1000, 10_000))
    medians = {"seconds": statistics.median(many), "thousand_seconds": statistics.median(few)}
    ratio = round(medians["seconds"] / medians["thousand_seconds"], 2)
    return {**medians, "ratio": ratio, "all_seconds": many, "all_thousand_seconds": few}


def main(
    *,
    times: Annotated[int, typer.Option(help="Simulations of each size; the median counts.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure the simulation of many runs."""
    result = measure(times)
    rows = [
        ("10,000 runs", f"{result['seconds']:.2f} s", result["all_seconds"]),
        ("1,000 runs", f"{result['thousand_seconds']:.2f} s", result["all_thousand_seconds"]),
        ("ratio", f"{result['ratio']:.2f}", ()),
    ]
    show(result, rows, as_json=as_json)


if __name__ == "__main__":
    typer.run(main)
