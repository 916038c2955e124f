"""An environment's runs beside what its cluster holds: who runs, who waits, what has been launched already."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trainstack.forecast.sweeps import Batch, Launched, together
from trainstack.forecast.tasks import UNBOUNDED, Duration, Owner, Task
from trainstack.kueue.model import Admitted, Snapshot, Workload
from trainstack.runs.launches import LiveLaunch
from trainstack.runs.records import Ledger

Body = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Held:
    """What a cluster holds, as far as a plan needs it."""

    snapshot: Snapshot
    now: float
    """When it was read: seconds since 1970."""
    runs: Mapping[str, str] = field(default_factory=dict)
    """From the key of a live Workload to that of the declared run whose it is."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """From the key of a live Workload to the seconds after which it is ended."""
    batches: Mapping[str, Batch] = field(default_factory=dict)
    """By the key of a live Workload the trials that its Job has."""
    batched: Collection[str] = ()
    """Keys of those trials."""
    launched: Collection[str] = ()
    """Keys of declared runs and trials that were launched and have ended: they are not launched again."""

    def knowing(self, trials: Launched) -> "Held":
        """The same with what there is of a sweep."""
        return replace(
            self,
            runs={**self.runs, **trials.runs},
            batches={**self.batches, **trials.batches},
            batched={*self.batched, *trials.batched},
            launched={*self.launched, *trials.ended},
        )

    @property
    def gone(self) -> set[str]:
        """Keys of what is not launched by itself any more."""
        return {*self.launched, *self.batched}


def beside(
    declared: Sequence[Task], held: Held, tried: Collection[str] = (), trials: Mapping[str, Duration] | None = None
) -> tuple[tuple[Task, ...], tuple[Admitted, ...]]:
    """All tasks, and who has quota: what the cluster holds first, then the declared runs that are still to be launched.

    A live Workload of a declared run has the run's name and duration.

    Args:
        declared: the environment's runs.
        held: what the cluster holds.
        tried: keys of runs that are to be as they are declared, also where they wait already: what-if changes.
        trials: how long a trial takes, by the key of its sweep.

    """
    by_key = {task.key: task for task in declared}
    admitted = []
    tasks = []
    for each in held.snapshot.admitted:
        task = _live(each.workload, by_key, held, trials or {})
        elapsed = max(0.0, held.now - each.reserved)
        # The plan's time begins now.
        admitted.append(replace(each, workload=task.workload, reserved=-elapsed))
        tasks.append(replace(task, elapsed=elapsed))
    for waiting in held.snapshot.pending:
        task = _live(waiting, by_key, held, trials or {})
        if task.key in tried:
            task = replace(task, workload=replace(by_key[task.key].workload, created=waiting.created))
        tasks.append(task)
    there = {task.key for task in tasks} | held.gone
    new = (task for task in declared if task.key not in there)
    tasks += (replace(task, workload=replace(task.workload, created=held.now)) for task in new)
    return tuple(tasks), tuple(admitted)


def _live(workload: Workload, declared: Mapping[str, Task], held: Held, trials: Mapping[str, Duration]) -> Task:
    batch = held.batches.get(workload.key)
    if batch is not None:
        at_once, each = workload.pod_sets[0].count, trials.get(batch.sweep, UNBOUNDED)
        named = replace(workload, name=f"{batch.sweep.partition('/')[2]} ({workload.name})")
        lasts = together(each, batch.trials, at_once, held.limits.get(workload.key))
        return Task(workload=named, duration=lasts, keeps=True)
    task = declared.get(held.runs.get(workload.key, ""))
    if task is not None:
        named = replace(workload, name=task.workload.name, path=task.workload.path)
        return replace(task, workload=named, after=())
    limit = held.limits.get(workload.key)
    lasts = UNBOUNDED if limit is None else Duration(limit, "deadline")
    return Task(workload=workload, duration=lasts, declared=False)


def owners(workloads: Iterable[Body]) -> dict[str, Owner]:
    """Whose pods Kueue's Workloads stand for, by their keys; without those that nobody owns."""
    found = {}
    for body in workloads:
        metadata = body["metadata"]
        for each in (metadata.get("ownerReferences") or ())[:1]:
            found[f"{metadata['namespace']}/{metadata['name']}"] = (each["kind"], metadata["namespace"], each["name"])
    return found


def limits(workloads: Iterable[Body], owned_by: Mapping[Owner, Body]) -> dict[str, float]:
    """After how many seconds Workloads are ended, by their keys: by Kueue, or by a deadline of their owner."""
    whose = owners(workloads)
    found = {}
    for body in workloads:
        key = f"{body['metadata']['namespace']}/{body['metadata']['name']}"
        spec = owned_by.get(whose.get(key, ("", "", "")), {}).get("spec") or {}
        said = (
            body["spec"].get("maximumExecutionTimeSeconds"),
            spec.get("activeDeadlineSeconds"),
            (spec.get("runPolicy") or {}).get("activeDeadlineSeconds"),
        )
        known = [float(each) for each in said if each is not None]
        if known:
            found[key] = min(known)
    return found


def matched(
    wanted: Iterable[Ledger], live: Iterable[LiveLaunch], ledgers: Iterable[Ledger], whose: Mapping[Owner, str]
) -> tuple[dict[str, str], set[str]]:
    """Which live Workloads are of declared runs, and which declared runs have ended.

    Args:
        wanted: the declared runs, as they would be launched and remembered now.
        live: the stack's launches in the cluster.
        ledgers: the stack's ledgers in the cluster.
        whose: the keys of the live Workloads, by their owners.

    Returns:
        From the key of a Workload to that of the declared run; and the keys of the runs that are not launched again.

    """
    objects: dict[str, list[LiveLaunch]] = {}
    for launch in live:
        objects.setdefault(launch.run_id, []).append(launch)
    remembered = {ledger.run_id for ledger in ledgers}
    runs: dict[str, str] = {}
    ended: set[str] = set()
    for each in wanted:
        name, found = f"{each.namespace}/{each.workload}", objects.get(each.run_id, [])
        for launch in (launch for launch in found if launch.active):
            key = whose.get((launch.kind, launch.namespace, launch.name))
            if key is not None:
                runs[key] = name
        failed = bool(found) and all(launch.phase == "failed" for launch in found)
        again = failed and each.launch_name not in {launch.launch for launch in found}
        if not any(launch.active for launch in found) and (found or each.run_id in remembered) and not again:
            ended.add(name)
    return runs, ended
