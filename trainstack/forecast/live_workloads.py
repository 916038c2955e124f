"""The declared runs together with the workloads of a live cluster."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trainstack.forecast.sweep_tasks import LiveTrials, indexed_duration
from trainstack.forecast.tasks import UNBOUNDED, Duration, Owner, Task
from trainstack.kueue.model import AdmittedWorkload, QueueState, Workload
from trainstack.runs.launches import LiveLaunch
from trainstack.runs.ledgers import Ledger

Body = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class LiveWorkloads(LiveTrials):
    """The part of a cluster's state that a forecast reads, with runs and the trials of all sweeps.

    All keys are `<namespace>/<name>`; the inherited fields contain the declared runs too.
    """

    snapshot: QueueState
    now: float
    """The time at which the cluster was read, in seconds since 1970."""
    deadlines: Mapping[str, float] = field(default_factory=dict)
    """The deadlines of live Workloads in seconds, by key."""

    def with_trials(self, trials: LiveTrials) -> "LiveWorkloads":
        return replace(
            self,
            runs={**self.runs, **trials.runs},
            indexed_jobs={**self.indexed_jobs, **trials.indexed_jobs},
            trials_in_indexed_jobs={*self.trials_in_indexed_jobs, *trials.trials_in_indexed_jobs},
            ended={*self.ended, *trials.ended},
        )

    @property
    def settled_keys(self) -> set[str]:
        """The keys of the runs and trials that are no longer launched on their own."""
        return {*self.ended, *self.trials_in_indexed_jobs}


def add_live_workloads(
    declared_tasks: Sequence[Task],
    live: LiveWorkloads,
    changed_keys: Collection[str] = (),
    trial_durations: Mapping[str, Duration] | None = None,
) -> tuple[tuple[Task, ...], tuple[AdmittedWorkload, ...]]:
    """Return all tasks and the admitted workloads: the live ones first, then the declared runs not launched yet.

    A live Workload of a declared run gets the run's name and duration. `changed_keys`: keys of runs with what-if
    changes, which also apply to pending Workloads. `trial_durations`: the duration of a trial by the key of its sweep.
    """
    tasks_by_key = {task.key: task for task in declared_tasks}
    admissions = []
    tasks = []
    for admission in live.snapshot.admitted:
        task = _live_task(admission.workload, tasks_by_key, live, trial_durations or {})
        elapsed = max(0.0, live.now - admission.reserved_at)
        # Times of a forecast are relative to now.
        workload = replace(task.workload, requeue_at=None)
        admissions.append(replace(admission, workload=workload, reserved_at=-elapsed))
        tasks.append(replace(task, workload=workload, elapsed=elapsed))
    for pending in live.snapshot.pending:
        task = _live_task(pending, tasks_by_key, live, trial_durations or {})
        if task.key in changed_keys:
            task = replace(task, workload=replace(tasks_by_key[task.key].workload, created=pending.created))
        seconds_to_start = max(0.0, (pending.requeue_at or 0.0) - live.now)
        workload = replace(task.workload, requeue_at=None)
        tasks.append(replace(task, workload=workload, earliest_start=seconds_to_start, is_pending=True))
    covered_keys = {task.key for task in tasks} | live.settled_keys
    new_tasks = (task for task in declared_tasks if task.key not in covered_keys)
    tasks += (replace(task, workload=replace(task.workload, created=live.now)) for task in new_tasks)
    return tuple(tasks), tuple(admissions)


def _live_task(
    workload: Workload, declared_tasks: Mapping[str, Task], live: LiveWorkloads, trial_durations: Mapping[str, Duration]
) -> Task:
    job, limit = live.indexed_jobs.get(workload.key), live.deadlines.get(workload.key)
    if job is not None:
        renamed_workload = replace(workload, name=f"{job.sweep.partition('/')[2]} ({workload.name})")
        parallelism = workload.pod_sets[0].count + workload.pod_sets[0].reclaimed_count
        job_duration = indexed_duration(trial_durations.get(job.sweep, UNBOUNDED), job.trials, parallelism, limit)
        return Task(workload=renamed_workload, duration=job_duration, is_resumable=True)
    task = declared_tasks.get(live.runs.get(workload.key, ""))
    if task is not None:
        renamed_workload = replace(workload, name=task.workload.name, path=task.workload.path)
        return replace(task, workload=renamed_workload, dependencies=())
    return Task(
        workload=workload, duration=UNBOUNDED if limit is None else Duration(limit, "deadline"), is_declared=False
    )


def owners_by_workload(workloads: Iterable[Body]) -> dict[str, Owner]:
    """Return the owner of each of Kueue's Workloads that has one, by key."""
    owners_by_key = {}
    for body in workloads:
        metadata = body["metadata"]
        for owner in (metadata.get("ownerReferences") or ())[:1]:
            owners_by_key[_workload_key(body)] = (owner["kind"], metadata["namespace"], owner["name"])
    return owners_by_key


def deadlines_by_workload(workloads: Iterable[Body], owner_objects: Mapping[Owner, Body]) -> dict[str, float]:
    """Return the deadlines of Workloads in seconds, set by Kueue or by the owner, by key."""
    owners_by_key = owners_by_workload(workloads)
    deadlines_by_key = {}
    for body in workloads:
        spec = owner_objects.get(owners_by_key.get(_workload_key(body), ("", "", "")), {}).get("spec") or {}
        deadlines = (
            body["spec"].get("maximumExecutionTimeSeconds"),
            spec.get("activeDeadlineSeconds"),
            (spec.get("runPolicy") or {}).get("activeDeadlineSeconds"),
        )
        known_deadlines = [float(seconds) for seconds in deadlines if seconds is not None]
        if known_deadlines:
            deadlines_by_key[_workload_key(body)] = min(known_deadlines)
    return deadlines_by_key


def _workload_key(body: Body) -> str:
    return f"{body['metadata']['namespace']}/{body['metadata']['name']}"


def match_runs(
    declared_ledgers: Iterable[Ledger],
    live_launches: Iterable[LiveLaunch],
    ledgers: Iterable[Ledger],
    workloads: Mapping[Owner, str],
) -> tuple[dict[str, str], set[str]]:
    """Match the declared runs with the stack's launches and ledgers in the cluster.

    Return the declared run's key by the key of its live Workload, and the keys of the declared runs that have ended and
    are not launched again. `declared_ledgers`: the ledgers of the runs if they were launched now.
    """
    launches: dict[str, list[LiveLaunch]] = {}
    for launch in live_launches:
        launches.setdefault(launch.run_id, []).append(launch)
    recorded_ids = {ledger.run_id for ledger in ledgers}
    runs: dict[str, str] = {}
    ended: set[str] = set()
    for declared_ledger in declared_ledgers:
        run_key, run_launches = (
            f"{declared_ledger.namespace}/{declared_ledger.workload}",
            launches.get(declared_ledger.run_id, []),
        )
        active_launches = [launch for launch in run_launches if launch.is_active]
        for launch in active_launches:
            workload_key = workloads.get((launch.kind, launch.namespace, launch.name))
            if workload_key is not None:
                runs[workload_key] = run_key
        # A failed run is launched again only if its launch was edited, which gives it another launch name.
        has_failed = bool(run_launches) and all(launch.phase == "failed" for launch in run_launches)
        is_launched_again = has_failed and declared_ledger.launch_name not in {launch.launch for launch in run_launches}
        if not active_launches and (run_launches or declared_ledger.run_id in recorded_ids) and not is_launched_again:
            ended.add(run_key)
    return runs, ended
