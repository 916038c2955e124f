"""Inputs of a forecast besides the environment: fetched records, and the workloads in the cluster."""

from collections.abc import Callable
from dataclasses import replace
from statistics import median

from trainstack.cli.session import Session
from trainstack.forecast.live_workloads import LiveWorkloads, deadlines_by_workload, match_runs, owners_by_workload
from trainstack.forecast.sweep_tasks import match_trials
from trainstack.kueue.from_live_objects import queue_state_after_up
from trainstack.kueue.model import QueueState
from trainstack.live.cluster_workloads import read_cluster_workloads
from trainstack.reports.durations import MeasuredRun, read_measured_runs
from trainstack.runs.manifests.user_manifest import roles_of_manifest
from trainstack.runs.role_pods import role_pods
from trainstack.settings.model import Settings
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.workloads import Workload
from trainstack.stack_objects.stack_objects import StackObjects


def measured_durations(session: Session) -> dict[str, float]:
    """Return the median seconds of each declared run's earlier records, by NAMESPACE/NAME."""
    records = read_measured_runs(session.results)
    durations = {}
    sweeps = {sweep.name for sweep in session.settings.sweeps.sweeps}
    for _, run in session.settings.runs_and_trials():
        seconds = [record.seconds for record in records if _matches(record, run, any_set=run.name in sweeps)]
        if seconds:
            durations[f"{run.namespace}/{run.name}"] = median(seconds)
    return durations


def _matches(record: MeasuredRun, run: Workload, *, any_set: bool) -> bool:
    """Return whether a record has the run's command, replicas and, unless `any_set`, arguments and variables."""
    roles = role_pods(run) if run.manifest is None else roles_of_manifest(run)
    first, world_size = roles[0], sum(role.replicas for role in roles)
    is_same = (record.workload, record.command) == (run.name, first.command) and record.world_size in (None, world_size)
    return is_same and (any_set or (record.args, record.env) == (first.args, first.env))


def live_workloads_reader(session: Session) -> Callable[[Settings], LiveWorkloads]:
    """Read the cluster once, and return a function from settings to its workloads in the queues of these settings.

    Raises ClusterError, and ValueError if files that run ids depend on are missing.
    """
    settings, holding = session.settings, read_cluster_workloads(session.settings)

    def snapshot_after_up(stack_objects: StackObjects) -> QueueState:
        return queue_state_after_up(
            holding.lists, stack_objects, kueue_configuration=holding.kueue, release=holding.kueue_release
        )

    without_operators = settings.model_copy(update={"operators": Operators()})
    # Run ids do not depend on the operators, whose releases are slow to parse.
    stack_objects = StackObjects.from_files(without_operators, session.root)
    declared_ledgers = [run.ledger for run in stack_objects.runs]
    live_launches, ledgers = holding.runs.live, holding.runs.ledgers
    workload_keys = {owner: key for key, owner in owners_by_workload(holding.workloads).items()}
    runs, ended_runs = match_runs(declared_ledgers, live_launches, ledgers, workload_keys)
    live_workloads = LiveWorkloads(
        snapshot=snapshot_after_up(stack_objects),
        now=holding.now,
        runs=runs,
        deadlines=deadlines_by_workload(holding.workloads, holding.owners),
        ended=ended_runs,
    )
    for sweep in stack_objects.sweeps:
        live_workloads = live_workloads.with_trials(match_trials(sweep, live_launches, ledgers, workload_keys))
    return lambda variant: replace(live_workloads, snapshot=snapshot_after_up(StackObjects(variant)))
