"""Inputs of a forecast besides the environment: fetched records, and the workloads in the cluster."""

from collections.abc import Callable
from dataclasses import replace
from statistics import median

from trainstack.cli.session import Session
from trainstack.declared.declared import Declared
from trainstack.forecast.live_workloads import LiveWorkloads, limits, match_runs, owners
from trainstack.forecast.sweeps import live_trials
from trainstack.kueue.from_live_objects import snapshot
from trainstack.live.holding import read_holding
from trainstack.reports.durations import MeasuredRun, measured_runs
from trainstack.runs.pods import pods
from trainstack.settings.model import Settings
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.workloads import Workload


def measured(session: Session) -> dict[str, float]:
    """Return the median seconds of each declared run's earlier records, by NAMESPACE/NAME."""
    records = measured_runs(session.results)
    found = {}
    sweeps = {sweep.name for sweep in session.settings.sweeps.sweeps}
    for _, run in session.settings.trained():
        seconds = [record.seconds for record in records if _matches(record, run, any_set=run.name in sweeps)]
        if seconds:
            found[f"{run.namespace}/{run.name}"] = median(seconds)
    return found


def _matches(record: MeasuredRun, run: Workload, *, any_set: bool) -> bool:
    """Return whether a record has the run's command, replicas and, unless `any_set`, arguments and variables."""
    first, world_size = pods(run)[0], sum(role.replicas for role in pods(run))
    same = (record.workload, record.command) == (run.name, first.command) and record.world_size in (None, world_size)
    return same and (any_set or (record.args, record.env) == (first.args, first.env))


def held_by(session: Session) -> Callable[[Settings], LiveWorkloads]:
    """Read the cluster once; the result returns its workloads as other settings would change its queues.

    Raises ClusterError, and ValueError if files that run ids depend on are missing.
    """
    settings, read = session.settings, read_holding(session.settings)
    without = settings.model_copy(update={"operators": Operators()})
    declared = Declared.from_files(without, session.root)
    wanted = [run.ledger for run in declared.runs]
    live, ledgers = read.runs.live, read.runs.ledgers
    workload_keys = {owner: key for key, owner in owners(read.workloads).items()}
    runs, ended = match_runs(wanted, live, ledgers, workload_keys)
    held = LiveWorkloads(
        snapshot=snapshot(read.lists, declared, kueue=read.kueue),
        now=read.now,
        runs=runs,
        limits=limits(read.workloads, read.owners),
        ended=ended,
    )
    for sweep in declared.sweeps:
        held = held.with_trials(live_trials(sweep, live, ledgers, workload_keys))
    return lambda tried: replace(held, snapshot=snapshot(read.lists, Declared(tried), kueue=read.kueue))
