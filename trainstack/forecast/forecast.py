"""The forecast of an environment: its queues, its runs, and their schedule."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from trainstack.forecast.live_workloads import LiveWorkloads, add_live_workloads
from trainstack.forecast.node_changes import apply_node_changes, flavors_of_changes
from trainstack.forecast.node_pool import NodePool
from trainstack.forecast.notes import join_names, simulation_limits
from trainstack.forecast.schedule import Schedule
from trainstack.forecast.simulation import simulate
from trainstack.forecast.sweep_tasks import sweep_tasks
from trainstack.forecast.tasks import Task, build_task, run_duration
from trainstack.forecast.variation import Variation, vary_schedule
from trainstack.kueue.from_objects import stack_model
from trainstack.kueue.model import AdmittedWorkload, Model
from trainstack.kueue.releases import MODELED_MINORS, has_rules
from trainstack.kueue.workloads import run_workloads
from trainstack.settings.model import Settings
from trainstack.settings.sections.sweeps import Sweep
from trainstack.stack_objects.stack_objects import StackObjects

_MOST_NAMES = 10


@dataclass(frozen=True, kw_only=True)
class Forecast:
    settings: Settings
    model: Model
    schedule: Schedule
    variation: Variation | None = None
    """The spread of the schedule; None if there are too many runs to vary them."""
    notes: tuple[str, ...] = ()
    """Notes on the forecast as a whole."""


def forecast(
    settings: Settings,
    *,
    measured_seconds: Mapping[str, float] | None = None,
    nodes: Sequence[str] = (),
    live: LiveWorkloads | None = None,
    unchanged_settings: Settings | None = None,
) -> Forecast:
    """Return the forecast of an environment, with its what-if changes, if it is brought up now.

    Args:
        measured_seconds: seconds that earlier runs, or the trials of a sweep, took, by `<namespace>/<name>`.
        nodes: as in `apply_node_changes`.
        live: the cluster's workloads, with its queues once the environment is up; None: an idle cluster.
        unchanged_settings: the environment without what-if changes; a change of a run also applies to its pending
            Workload.

    Raises ValueError for invalid `nodes`.

    """
    model = stack_model(StackObjects(settings)) if live is None else live.snapshot.model
    tasks_of_plan = declared_tasks = _build_tasks(settings, model, measured_seconds or {}, live)
    admitted_workloads: tuple[AdmittedWorkload, ...] = ()
    if live is not None:
        # A pending Workload keeps its spec unless the what-if changes edit its run, so both versions are compared.
        workloads_by_key = {
            task.key: task.workload
            for task in (_build_tasks(unchanged_settings, model, {}, live) if unchanged_settings else declared_tasks)
        }
        changed_keys = {task.key for task in declared_tasks if workloads_by_key.get(task.key) != task.workload}
        trial_durations = {
            key: run_duration(sweep.run, (measured_seconds or {}).get(key))
            for key, sweep in _sweeps_by_key(settings).items()
        }
        tasks_of_plan, admitted_workloads = add_live_workloads(declared_tasks, live, changed_keys, trial_durations)
    flavors = model.flavors or {}
    # Without nodes in the model, `--nodes` describes only the named flavors: pods on other flavors always fit.
    nodes_of_plan = apply_node_changes(model.nodes or (), nodes, flavors)
    flavors_with_nodes = flavors_of_changes(nodes) if model.nodes is None else None
    has_nodes = model.nodes is not None or bool(nodes)
    simulated_model = replace(model, nodes=nodes_of_plan or None)

    def simulate_tasks(tasks: Sequence[Task]) -> Schedule:
        return simulate(
            tasks,
            simulated_model,
            admitted_workloads,
            NodePool(nodes_of_plan, flavors, flavors_with_nodes) if has_nodes else None,
        )

    schedule = simulate_tasks(tasks_of_plan)
    return Forecast(
        settings=settings,
        model=model,
        schedule=schedule,
        variation=vary_schedule(tasks_of_plan, schedule, simulate_tasks),
        notes=tuple(_notes(model, live, has_nodes=has_nodes)),
    )


def _build_tasks(
    settings: Settings, model: Model, measured_seconds: Mapping[str, float], live: LiveWorkloads | None
) -> tuple[Task, ...]:
    """Return the tasks of all runs, then of the sweeps' trials."""
    runs = {f"{run.namespace}/{run.name}": run for run in settings.workloads.runs}
    stack_objects = StackObjects(settings)
    queued_workloads = run_workloads(stack_objects, model)
    unqueued_workloads = run_workloads(stack_objects, model, is_queued=False)
    workloads = {workload.key: workload for workload in (*queued_workloads, *unqueued_workloads)}
    tasks = [
        build_task(run, workloads[key], measured_seconds.get(key)) for key, run in runs.items() if key in workloads
    ]
    for key, sweep in _sweeps_by_key(settings).items():
        if key in workloads:
            settled_keys, single_keys = (live.settled_keys, {*live.runs.values()}) if live is not None else ((), ())
            tasks += sweep_tasks(sweep, workloads[key], measured_seconds.get(key), settled_keys, single_keys)
    return tuple(tasks)


def _sweeps_by_key(settings: Settings) -> dict[str, Sweep]:
    return {f"{sweep.run.namespace}/{sweep.name}": sweep for sweep in settings.sweeps.sweeps}


def _notes(model: Model, live: LiveWorkloads | None, *, has_nodes: bool) -> list[str]:
    notes = []
    if not has_nodes:
        notes.append("the nodes are unknown, so quota alone decides (describe them with `--nodes`)")
    checks = sorted({name for queue in (model.cluster_queues or {}).values() for name in queue.checks})
    if checks:
        notes.append(f"admission checks are assumed to pass at once: {', '.join(checks)}")
    if not has_rules(model.release.name):
        minors = ", ".join(MODELED_MINORS)
        notes.append(f"the plan models Kueue {minors}, but Kueue {model.release.name} admits the runs")
    if model.blocks_admission:
        notes.append("Kueue admits nothing while admitted pods are not ready (blockAdmission): starts may be later")
    notes += simulation_limits(model)
    if live is not None and live.ended:
        notes.append(f"ended before, not launched again: {join_names(sorted(live.ended), _MOST_NAMES)}")
    return notes
