"""The plan of an environment: its queues, its runs, and what happens to them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from trainstack.declared.declared import Declared
from trainstack.forecast.node_changes import changed_nodes, limited
from trainstack.forecast.nodes import Room
from trainstack.forecast.other_workloads import Held, beside
from trainstack.forecast.reasons import few
from trainstack.forecast.schedule import Schedule
from trainstack.forecast.simulation import simulate
from trainstack.forecast.sweeps import sweep_tasks
from trainstack.forecast.tasks import Duration, Task, duration, tasks
from trainstack.kueue.admission_simulator import AdmissionSimulator
from trainstack.kueue.from_objects import declared_model
from trainstack.kueue.model import Admitted, Model
from trainstack.kueue.workloads import declared_workloads
from trainstack.settings.model import Settings
from trainstack.settings.sections.sweeps import Sweep

_MOST_NAMES = 10


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """A schedule with what it was made from."""

    settings: Settings
    model: Model
    schedule: Schedule
    notes: tuple[str, ...] = ()
    """What holds for the plan as a whole."""

    @property
    def simulator(self) -> AdmissionSimulator:
        """Tells of a single run why it never starts."""
        return AdmissionSimulator(self.model)


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
        measured: seconds that earlier runs took, by `<namespace>/<name>` of the declared run; of a sweep its trials.
        nodes: nodes that are tried, as `changed_nodes` has them.
        held: what its cluster holds, and will have once the environment is up; None: an idle cluster, of the files
            alone.
        unchanged: the environment as its files have it, where something is tried: runs that wait already and that it
            concerns are as they are tried.

    Raises ValueError where `nodes` cannot be.

    """
    model = declared_model(Declared(settings)) if held is None else held.snapshot.model
    own = _tasks(settings, model, measured or {}, held)
    everybody: tuple[Task, ...] = own
    admitted: tuple[Admitted, ...] = ()
    if held is not None:
        was = _tasks(unchanged, model, {}, held) if unchanged is not None else own
        before = {task.key: task.workload for task in was}
        tried = {task.key for task in own if before.get(task.key) != task.workload}
        everybody, admitted = beside(own, held, tried, _trials(settings, measured or {}))
    flavors = model.flavors or {}
    there = changed_nodes(model.nodes or (), nodes, flavors)
    room = None
    if model.nodes is not None or nodes:
        room = Room(there, flavors, limited(nodes) if model.nodes is None else None)
    schedule = simulate(everybody, replace(model, nodes=there or None), admitted, room)
    return Forecast(settings=settings, model=model, schedule=schedule, notes=tuple(_notes(model, room, held)))


def _tasks(settings: Settings, model: Model, measured: Mapping[str, float], held: Held | None) -> tuple[Task, ...]:
    """The runs, and the trials of the sweeps."""
    runs = {f"{run.namespace}/{run.name}": run for run in settings.workloads.runs}
    declared = Declared(settings)
    waiting = declared_workloads(declared, model)
    others = declared_workloads(declared, model, queued=False)
    workloads = {each.key: each for each in (*waiting, *others)}
    found = [*tasks({key: workloads[key] for key in runs if key in workloads}, runs, measured)]
    for key, sweep in _sweeps(settings).items():
        if key in workloads:
            gone, alone = (held.gone, {*held.runs.values()}) if held is not None else ((), ())
            found += sweep_tasks(sweep, workloads[key], measured.get(key), gone, alone)
    return tuple(found)


def _sweeps(settings: Settings) -> dict[str, Sweep]:
    """By key."""
    return {f"{sweep.run.namespace}/{sweep.name}": sweep for sweep in settings.sweeps.sweeps}


def _trials(settings: Settings, measured: Mapping[str, float]) -> dict[str, Duration]:
    """How long a trial takes, by the key of its sweep."""
    return {key: duration(sweep.run, measured.get(key)) for key, sweep in _sweeps(settings).items()}


def _notes(model: Model, room: Room | None, held: Held | None) -> list[str]:
    notes = []
    if room is None:
        notes.append("nodes are not known here, so quota alone decides (`--nodes` tries some)")
    checks = sorted({name for queue in (model.cluster_queues or {}).values() for name in queue.checks})
    if checks:
        notes.append(f"admission checks are taken to pass at once: {', '.join(checks)}")
    if model.fair_sharing:
        notes.append("Kueue shares fairly there, which is not in this plan: who gives way to whom may be another")
    if held is not None and held.launched:
        notes.append(f"launched before, and ended: {few(sorted(held.launched), _MOST_NAMES)}")
    return notes
