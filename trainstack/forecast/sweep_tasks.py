"""The tasks of a sweep: one for each trial, or one for the indexed Job of all trials."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from math import ceil

from trainstack.forecast.tasks import UNBOUNDED, Duration, Owner, Task, build_task
from trainstack.kueue.model import Workload
from trainstack.runs.launches import LiveLaunch
from trainstack.runs.ledgers import Ledger
from trainstack.settings.sections.sweeps import Sweep
from trainstack.sweeps.planned_sweep import PlannedSweep


def trial_key(sweep: Sweep, number: int) -> str:
    """Return the key of a trial's task; names of runs contain no space."""
    return f"{sweep.run.namespace}/{sweep.name} {number}"


def sweep_tasks(
    sweep: Sweep,
    workload: Workload,
    measured_seconds: float | None = None,
    settled_keys: Collection[str] = (),
    single_keys: Collection[str] = (),
) -> Iterator[Task]:
    """Yield the tasks of the trials that have not ended, except those in a live indexed Job.

    With form `jobs`, at most `parallelism` trials are submitted at once.

    Args:
        workload: the Workload of a trial; with form `indexed`, of the Job of all trials.
        measured_seconds: the seconds that earlier trials took.
        settled_keys: the keys of the trials that have ended or belong to a live indexed Job.
        single_keys: the keys of the trials with their own live Job; also with form `indexed`, if the form was changed.

    """
    parameter_sets = sweep.expansion.sets if sweep.expansion else ()
    keys = [key for key in (trial_key(sweep, trial.number) for trial in parameter_sets) if key not in settled_keys]
    task = build_task(sweep.run, workload, measured_seconds)
    has_own_jobs = sweep.form == "jobs"
    keys_with_own_job = [key for key in keys if has_own_jobs or key in single_keys]
    for key in keys_with_own_job:
        trial_workload = replace(workload, name=key.partition("/")[2])
        yield replace(
            task, workload=trial_workload, sweep=sweep.name, slots=sweep.parallelism if has_own_jobs else None
        )
    remaining_count = len(keys) - len(keys_with_own_job)
    if remaining_count:
        parallelism = min(sweep.parallelism or remaining_count, remaining_count)
        job_duration = indexed_duration(task.duration, remaining_count, parallelism, sweep.active_deadline_seconds)
        yield replace(task, workload=_with_pod_count(workload, parallelism), duration=job_duration)


def indexed_duration(trial: Duration, count: int, parallelism: int, deadline: float | None = None) -> Duration:
    """Return the duration of an indexed Job of `count` trials, of which `parallelism` run at the same time."""
    seconds = None if trial.seconds is None else ceil(count / parallelism) * trial.seconds
    if deadline is not None and (seconds is None or seconds > deadline):
        return Duration(float(deadline), "deadline")
    return UNBOUNDED if seconds is None else Duration(seconds, trial.source)


def _with_pod_count(workload: Workload, count: int) -> Workload:
    (pods,) = workload.pod_sets
    requests = {name: number * count for name, number in pods.per_pod.items()}
    return replace(workload, pod_sets=(replace(pods, count=count, requests=requests),))


@dataclass(frozen=True, kw_only=True)
class IndexedJob:
    """A live indexed Job of a sweep's trials."""

    sweep: str
    """`<namespace>/<name>`."""
    trials: int


@dataclass(frozen=True, kw_only=True)
class LiveTrials:
    """The trials of a sweep that the cluster has launched."""

    runs: Mapping[str, str] = field(default_factory=dict)
    """The key of the trial (or run) by the key of the live Workload."""
    indexed_jobs: Mapping[str, IndexedJob] = field(default_factory=dict)
    """The live indexed Jobs, by the key of their Workload."""
    trials_in_indexed_jobs: AbstractSet[str] = frozenset()
    """The keys of the trials in these Jobs."""
    ended: AbstractSet[str] = frozenset()
    """The keys of the trials (or runs) that have ended and are not launched again."""


def match_trials(
    planned_sweep: PlannedSweep,
    live_launches: Sequence[LiveLaunch],
    ledgers: Sequence[Ledger],
    workloads: Mapping[Owner, str],
) -> LiveTrials:
    """Match the trials of a sweep with the stack's launches and ledgers in the cluster.

    `workloads`: the keys of the live Workloads by owner.
    """
    sweep = planned_sweep.sweep
    keys = {run_id: trial_key(sweep, trial.number) for run_id, trial in planned_sweep.trials.items()}
    sweep_launches = [
        launch for launch in live_launches if launch.sweep is not None and launch.sweep.name == sweep.name
    ]
    ledgers_by_launch = {ledger.launch_name: ledger for ledger in ledgers if ledger.sweep == sweep.name}
    runs: dict[str, str] = {}
    indexed_jobs: dict[str, IndexedJob] = {}
    trials_in_indexed_jobs: set[str] = set()
    active_ids: set[str] = set()
    for launch in (launch for launch in sweep_launches if launch.is_active):
        workload = workloads.get((launch.kind, launch.namespace, launch.name))
        has_own_job = launch.sweep is not None and launch.sweep.set_id
        ledger = ledgers_by_launch.get(launch.launch)
        trial_ids = (
            [launch.run_id] if has_own_job else [run_id for run_id in (ledger.trials if ledger else ()) if run_id]
        )
        active_ids.update(trial_ids)
        if has_own_job and workload is not None and launch.run_id in keys:
            runs[workload] = keys[launch.run_id]
        elif workload is not None:
            indexed_jobs[workload] = IndexedJob(sweep=f"{sweep.run.namespace}/{sweep.name}", trials=len(trial_ids))
            trials_in_indexed_jobs.update(keys[run_id] for run_id in trial_ids if run_id in keys)
    # A trial is launched if a ledger names it or its launch exists; either may be missing.
    launched_ids = {run_id for ledger in ledgers_by_launch.values() for run_id in (ledger.trials or (ledger.run_id,))}
    launched_ids |= {launch.run_id for launch in sweep_launches}
    ended_ids = {
        run_id
        for run_id in keys
        if run_id in launched_ids - active_ids and not _is_launched_again(run_id, planned_sweep, sweep_launches)
    }
    return LiveTrials(
        runs=runs,
        indexed_jobs=indexed_jobs,
        trials_in_indexed_jobs=trials_in_indexed_jobs,
        ended={keys[run_id] for run_id in ended_ids},
    )


def _is_launched_again(run_id: str, planned_sweep: PlannedSweep, live_launches: Sequence[LiveLaunch]) -> bool:
    """Return whether a failed trial is launched again because its launch was edited."""
    launches = [launch for launch in live_launches if launch.run_id == run_id]
    has_failed = bool(launches) and all(launch.phase == "failed" for launch in launches)
    return has_failed and planned_sweep.job_ledger(run_id).launch_name not in {launch.launch for launch in launches}
