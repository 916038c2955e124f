"""What a plan is made from beside the environment: earlier records here, and what its cluster holds."""

from collections.abc import Callable
from dataclasses import replace
from statistics import median

from trainstack.cli.session import Session
from trainstack.declared.declared import Declared
from trainstack.forecast.live_workloads import LiveWorkloads, limits, match_runs, owners
from trainstack.forecast.sweeps import live_trials
from trainstack.kueue.from_live_objects import snapshot
from trainstack.live.holding import read_holding
from trainstack.reports.durations import Took, took
from trainstack.runs.pods import pods
from trainstack.settings.model import Settings
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.workloads import Workload


def measured(session: Session) -> dict[str, float]:
    """How long earlier runs took, by the key of the declared run that says the same: the median of their records."""
    records = took(session.results)
    found = {}
    settings = session.settings
    sweeps = {sweep.name for sweep in settings.sweeps.sweeps}
    for _, run in settings.trained():
        seconds = [record.seconds for record in records if _says(record, run, any_set=run.name in sweeps)]
        if seconds:
            found[f"{run.namespace}/{run.name}"] = median(seconds)
    return found


def _says(record: Took, run: Workload, *, any_set: bool) -> bool:
    """Whether a record is of the same program with as many replicas and the same arguments; of a trial with any."""
    first, together = pods(run)[0], sum(each.replicas for each in pods(run))
    alike = (record.workload, record.command) == (run.name, first.command) and record.world_size in (None, together)
    return alike and (any_set or (record.args, record.env) == (first.args, first.env))


def held_by(session: Session) -> Callable[[Settings], LiveWorkloads]:
    """Read the cluster once; what it holds then, and will have once an environment with other settings is up.

    Raises ClusterError, and ValueError where files are not there that the runs are named after.
    """
    settings, read = session.settings, read_holding(session.settings)
    without = settings.model_copy(update={"operators": Operators()})
    declared = Declared.from_files(without, session.root)
    wanted = [each.ledger for each in declared.runs]
    live, ledgers = read.runs.live, read.runs.ledgers
    whose = {owner: key for key, owner in owners(read.workloads).items()}
    runs, ended = match_runs(wanted, live, ledgers, whose)
    there = LiveWorkloads(
        snapshot=snapshot(read.lists, declared, kueue=read.kueue),
        now=read.now,
        runs=runs,
        limits=limits(read.workloads, read.owners),
        ended=ended,
    )
    for sweep in declared.sweeps:
        there = there.with_trials(live_trials(sweep, live, ledgers, whose))
    return lambda tried: replace(there, snapshot=snapshot(read.lists, Declared(tried), kueue=read.kueue))
