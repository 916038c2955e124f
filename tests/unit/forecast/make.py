"""Tasks and queues for tests of plans."""

from typing import Any

from tests.unit.kueue.make import make_model, make_pods, make_queue, make_workload
from trainstack.forecast.schedule import Schedule
from trainstack.forecast.simulation import simulate
from trainstack.forecast.tasks import Duration, Task
from trainstack.kueue.model import ClusterNode, Model


def make_task(name: str, seconds: float | None = 10.0, cpu: int = 1, **changes: Any) -> Task:
    """Return a run of one pod in the queue `q`, with this cpu and duration."""
    workload_changes = {key: changes.pop(key) for key in ("queue", "priority", "created") if key in changes}
    pods = changes.pop("pods", None) or make_pods(cpu=cpu)
    duration = Duration(seconds, "unbounded" if seconds is None else "declared")
    return Task(**{"workload": make_workload(pods, name=name, **workload_changes), "duration": duration, **changes})


def make_plan(*tasks: Task, model: Model | None = None, **changes: Any) -> Schedule:
    """Return the schedule of tasks, by default in one queue with 4 cpu."""
    return simulate(tasks, model or make_model(make_queue()), **changes)


def make_node(name: str = "node", labels: dict[str, str] | None = None, **allocatable: int) -> ClusterNode:
    """Return a node, by default with 4 cpu (in thousandths) and capacity for 110 pods."""
    return ClusterNode(name, labels or {}, (), {"cpu": 4000, "pods": 110, **allocatable})


def times(schedule: Schedule) -> dict[str, tuple[float | None, float | None]]:
    """Return start and end by run, in whole seconds: scheduling cycles take some milliseconds."""

    def rounded(seconds: float | None) -> float | None:
        return None if seconds is None else round(seconds)

    return {
        timeline.task.workload.name: (rounded(timeline.start), rounded(timeline.end)) for timeline in schedule.timelines
    }
