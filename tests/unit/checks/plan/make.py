"""Tasks and queues for tests of plans."""

from typing import Any

from tests.unit.checks.admission.make import make_model, make_pods, make_queue, make_workload
from trainstack.forecast.schedule import Schedule
from trainstack.forecast.simulation import simulate
from trainstack.forecast.tasks import Duration, Task
from trainstack.kueue.model import Model, Node


def make_task(name: str, seconds: float | None = 10.0, cpu: int = 1, **changes: Any) -> Task:
    """A run of one pod in the queue `q`, of so many cpu and seconds."""
    own = {key: changes.pop(key) for key in ("queue", "priority", "created") if key in changes}
    pods = changes.pop("pods", None) or make_pods(cpu=cpu)
    lasts = Duration(seconds, "unbounded" if seconds is None else "declared")
    return Task(**{"workload": make_workload(pods, name=name, **own), "duration": lasts, **changes})


def make_plan(*tasks: Task, model: Model | None = None, **changes: Any) -> Schedule:
    """What happens to them in one queue with 4 cpu."""
    return simulate(tasks, model or make_model(make_queue()), **changes)


def make_node(name: str = "node", labels: dict[str, str] | None = None, **allocatable: int) -> Node:
    """A node with 4 cpu (in thousandths) and room for many pods, if nothing else is said."""
    return Node(name, labels or {}, (), {"cpu": 4000, "pods": 110, **allocatable})


def times(schedule: Schedule) -> dict[str, tuple[float | None, float | None]]:
    """By run its start and end, in whole seconds: scheduling cycles take some thousandths."""

    def whole(seconds: float | None) -> float | None:
        return None if seconds is None else round(seconds)

    return {each.task.workload.name: (whole(each.start), whole(each.end)) for each in schedule.timelines}
