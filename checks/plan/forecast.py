"""The plan of an environment: its queues, its runs, and what happens to them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from checks.admission.judging import Judge
from checks.admission.launches import declared_workloads
from checks.admission.model import Admitted, Model
from checks.admission.reading import declared_model
from checks.plan.beside import Held, beside
from checks.plan.node_changes import changed_nodes, limited
from checks.plan.nodes import Room
from checks.plan.schedule import Schedule
from checks.plan.simulation import simulate
from checks.plan.tasks import Task, tasks
from settings.model import Settings


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """A schedule with what it was made from."""

    settings: Settings
    model: Model
    schedule: Schedule
    notes: tuple[str, ...] = ()
    """What holds for the plan as a whole."""

    @property
    def judge(self) -> Judge:
        """Tells of a single run why it never starts."""
        return Judge(self.model)


def forecast(
    settings: Settings,
    *,
    measured: Mapping[str, float] | None = None,
    nodes: Sequence[str] = (),
    held: Held | None = None,
    unchanged: Settings | None = None,
) -> Forecast:
    """What would happen if an environment were brought up now.

    Args:
        settings: the environment, with what is tried.
        measured: seconds that earlier runs took, by `<namespace>/<name>` of the declared run.
        nodes: nodes that are tried, as `changed_nodes` has them.
        held: what its cluster holds, and will have once the environment is up; None: an idle cluster, of the files
            alone.
        unchanged: the environment as its files have it, where something is tried: runs that wait already and that it
            concerns are as they are tried.

    Raises ValueError where `nodes` cannot be.

    """
    model = declared_model(settings) if held is None else held.snapshot.model
    own = _tasks(settings, model, measured or {})
    everybody: tuple[Task, ...] = own
    admitted: tuple[Admitted, ...] = ()
    if held is not None:
        was = _tasks(unchanged, model, {}) if unchanged is not None else own
        before = {task.key: task.workload for task in was}
        everybody, admitted = beside(own, held, {task.key for task in own if before.get(task.key) != task.workload})
    flavors = model.flavors or {}
    there = changed_nodes(model.nodes or (), nodes, flavors)
    room = None
    if model.nodes is not None or nodes:
        room = Room(there, flavors, limited(nodes) if model.nodes is None else None)
    schedule = simulate(everybody, replace(model, nodes=there or None), admitted, room)
    return Forecast(settings=settings, model=model, schedule=schedule, notes=tuple(_notes(model, room, held)))


def _tasks(settings: Settings, model: Model, measured: Mapping[str, float]) -> tuple[Task, ...]:
    runs = {f"{run.namespace}/{run.name}": run for run in settings.workloads.runs}
    held = declared_workloads(settings, model)
    others = declared_workloads(settings, model, queued=False)
    workloads = {each.key: each for each in (*held, *others)}
    return tasks({key: workloads[key] for key in runs if key in workloads}, runs, measured)


def _notes(model: Model, room: Room | None, held: Held | None) -> list[str]:
    notes = []
    if room is None:
        notes.append("nodes are not known here, so quota alone decides (`--nodes` tries some)")
    checks = sorted({name for queue in (model.cluster_queues or {}).values() for name in queue.checks})
    if checks:
        notes.append(f"admission checks are taken to pass at once: {', '.join(checks)}")
    if held is not None and held.launched:
        notes.append(f"launched before, and ended: {', '.join(sorted(held.launched))}")
    return notes
