"""The trials of a sweep as tasks: a task each, or one for the Job of many."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from math import ceil

from trainstack.forecast.tasks import UNBOUNDED, Duration, Owner, Task, duration
from trainstack.kueue.model import Workload
from trainstack.runs.launches import LiveLaunch
from trainstack.runs.records import Ledger
from trainstack.settings.sections.sweeps import Sweep
from trainstack.sweeps.launches import PlannedSweep


def trial_key(sweep: Sweep, number: int) -> str:
    """Of a trial's task; no run has a name with a space."""
    return f"{sweep.run.namespace}/{sweep.name} {number}"


def sweep_tasks(
    sweep: Sweep,
    workload: Workload,
    measured: float | None = None,
    gone: Collection[str] = (),
    alone: Collection[str] = (),
) -> Iterator[Task]:
    """The trials that have not ended, in the order of their numbers; those of a live Job of many are no tasks here.

    Of form `jobs` a trial joins the queue when one of the places is free that `parallelism` says.

    Args:
        sweep: as it is declared.
        workload: of a trial; of form `indexed` of the Job of them all.
        measured: seconds that earlier trials took; None: there are none.
        gone: keys of trials that have ended, or that a live Job of many has.
        alone: keys of trials that have live objects of their own, whatever form the sweep has now.

    """
    sets = sweep.expansion.sets if sweep.expansion else ()
    left = {trial_key(sweep, each.number): each.number for each in sets}
    left = {key: number for key, number in left.items() if key not in gone}
    one = Task(
        workload=workload,
        duration=duration(sweep.run, measured),
        keeps=sweep.run.managed,
        after=tuple(f"{workload.namespace}/{name}" for name in sweep.run.depends_on),
    )
    jobs = sweep.form == "jobs"
    for key in [key for key in left if jobs or key in alone]:
        del left[key]
        named = replace(workload, name=key.partition("/")[2])
        yield replace(one, workload=named, line=sweep.name, places=sweep.parallelism if jobs else None)
    if left:
        at_once = min(sweep.parallelism or len(left), len(left))
        lasts = together(one.duration, len(left), at_once, sweep.active_deadline_seconds)
        yield replace(one, workload=_of(workload, at_once), duration=lasts)


def together(each: Duration, count: int, at_once: int, most: float | None = None) -> Duration:
    """How long so many trials of one Job take, so many of them at once; `most`: seconds after which it is ended."""
    seconds = None if each.seconds is None else ceil(count / at_once) * each.seconds
    if most is not None and (seconds is None or seconds > most):
        return Duration(float(most), "deadline")
    return UNBOUNDED if seconds is None else Duration(seconds, each.source)


def _of(workload: Workload, count: int) -> Workload:
    """A Job with so many pods at once."""
    (pods,) = workload.pod_sets
    requests = {name: number * count for name, number in pods.per_pod.items()}
    return replace(workload, pod_sets=(replace(pods, count=count, requests=requests),))


@dataclass(frozen=True, kw_only=True)
class Batch:
    """A live Job of many trials."""

    sweep: str
    """The key of the sweep: `<namespace>/<name>`."""
    trials: int


@dataclass(frozen=True, kw_only=True)
class Launched:
    """What a cluster knows of a sweep's trials."""

    runs: Mapping[str, str] = field(default_factory=dict)
    """From the key of a live Workload to that of its trial."""
    batches: Mapping[str, Batch] = field(default_factory=dict)
    """By the key of the live Workload."""
    batched: AbstractSet[str] = frozenset()
    """Keys of the trials in them."""
    ended: AbstractSet[str] = frozenset()
    """Keys of trials that were launched before, and have ended."""


def launched(
    planned: PlannedSweep, live: Sequence[LiveLaunch], ledgers: Sequence[Ledger], whose: Mapping[Owner, str]
) -> Launched:
    """Which trials of a sweep a cluster knows already.

    Args:
        planned: the sweep, as it would be launched now.
        live: the stack's launches in the cluster.
        ledgers: the stack's ledgers in the cluster.
        whose: the keys of the live Workloads, by their owners.

    """
    sweep = planned.sweep
    keys = {run_id: trial_key(sweep, each.trial.number) for run_id, each in planned.trials.items()}
    own = [each for each in live if each.sweep is not None and each.sweep.name == sweep.name]
    remembered = {each.launch_name: each for each in ledgers if each.sweep == sweep.name}
    runs: dict[str, str] = {}
    batches: dict[str, Batch] = {}
    batched: set[str] = set()
    active: set[str] = set()
    for each in (each for each in own if each.active):
        workload = whose.get((each.kind, each.namespace, each.name))
        alone = each.sweep is not None and each.sweep.set_id
        ledger = remembered.get(each.launch)
        members = [each.run_id] if alone else [run_id for run_id in (ledger.trials if ledger else ()) if run_id]
        active.update(members)
        if alone and workload is not None and each.run_id in keys:
            runs[workload] = keys[each.run_id]
        elif workload is not None:
            batches[workload] = Batch(sweep=f"{sweep.run.namespace}/{sweep.name}", trials=len(members))
            batched.update(keys[run_id] for run_id in members if run_id in keys)
    known = {run_id for each in remembered.values() for run_id in (each.trials or (each.run_id,))}
    known |= {each.run_id for each in own}
    ended = {run_id for run_id in keys if run_id in known - active and not _again(run_id, planned, own)}
    return Launched(runs=runs, batches=batches, batched=batched, ended={keys[run_id] for run_id in ended})


def _again(run_id: str, planned: PlannedSweep, live: Sequence[LiveLaunch]) -> bool:
    """Whether a trial that failed by itself is launched again, since its launch was edited."""
    here = [each for each in live if each.run_id == run_id]
    failed = bool(here) and all(each.phase == "failed" for each in here)
    return failed and planned.job(run_id).launch_name not in {each.launch for each in here}
