"""Decide on a sweep's Indexed Jobs, each of which executes many trials.

Pure functions. Like a run, a batch is launched once. A trial belongs to it until it is launched elsewhere: the batch's
ledger lists its trials by completion index. The rules (docs/decisions/0008-sweeps.md):

- a queued or running batch is frozen; trials whose sets were removed are withdrawn from it and do not start;
- a change that trains an active batch's trials differently is refused unless `stop` names the batch or its sweep;
- after a batch has failed and its launch part was edited, its trials that have not succeeded are launched again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from trainstack.runs.launches import (
    EDIT_AT_NEXT_LAUNCH,
    LiveLaunch,
    SingleRunDecision,
    describe_state,
    unrecorded_launch_refusal,
)
from trainstack.runs.ledgers import Ledger
from trainstack.runs.manifests.build import is_dispatched
from trainstack.runs.parameter_file import FileContents, set_ids_by_run, withdraw_trials
from trainstack.sweeps.planned_sweep import PlannedSweep


@dataclass(frozen=True)
class Batch:
    """An Indexed Job of many trials, as recorded in the cluster."""

    run_id: str
    """The batch's id, in place of a run id."""
    launch: LiveLaunch | None
    """None if its object was deleted."""
    ledger: Ledger | None
    """None if an `up` was interrupted after launching it."""
    members: tuple[str, ...]
    """Its trials by completion index; empty for a trial that no longer belongs to it."""
    data: FileContents
    """Its file; {} if it was deleted."""


@dataclass(frozen=True, kw_only=True)
class BatchDecision(SingleRunDecision):
    data: FileContents | None = None
    """The new content of its file, if it changes."""


def find_batches(
    live: Sequence[LiveLaunch], ledgers: Sequence[Ledger], files: Mapping[str, FileContents]
) -> list[Batch]:
    """Return a sweep's batches, the live ones last and by age. Each trial is in one batch.

    If an interrupted `up` left a trial in two batches, it belongs to a live one, and of two live ones to the newer.
    """
    ledgers_by_launch = {ledger.launch_name: ledger for ledger in ledgers if ledger.trials}
    candidates: list[Batch] = []
    for launch in sorted(live, key=lambda launch: launch.created, reverse=True):
        if launch.sweep is None or launch.sweep.set_id:
            continue
        data = files.get(launch.sweep.file or "", {})
        ledger = ledgers_by_launch.pop(launch.launch, None)
        members = tuple(set_ids_by_run(data)) if ledger is None else ledger.trials
        candidates.append(Batch(launch.run_id, launch, ledger, members, data))
    candidates += [
        Batch(ledger.run_id, None, ledger, ledger.trials, {}) for ledger in reversed(ledgers_by_launch.values())
    ]
    assigned_trials: set[str] = set()
    disjoint_batches = []
    for batch in candidates:
        remaining_members = tuple("" if run_id in assigned_trials else run_id for run_id in batch.members)
        assigned_trials.update(remaining_members)
        disjoint_batches.append(replace(batch, members=remaining_members))
    return disjoint_batches[::-1]


def decide_batch(batch: Batch, planned: PlannedSweep, stop: Sequence[str], now: datetime) -> BatchDecision:
    planned_members = tuple(run_id if run_id in planned.trials else "" for run_id in batch.members)
    launch = batch.launch
    if launch is None:
        settled_count = sum(map(bool, planned_members))
        note = (
            f"{batch.run_id}: {settled_count} trials were launched before and are settled; raise `run.attempt` to "
            "train again"
        )
        return replace(_keep_ledger(batch, planned_members), note=note if settled_count else "")
    if not launch.is_active:
        return _decide_ended(batch, launch, planned_members, planned)
    may_stop = batch.run_id in stop or planned.sweep.name in stop
    if may_stop and not (planned_members == batch.members and _is_unedited(batch, launch, planned)):
        return _keep_ledger(batch, _succeeded_members(launch, planned_members))
    if not may_stop and (edited_trials := _edited_trials(batch, launch, planned)):
        refusal = (
            f"{_describe_state(batch, launch, now)} and this change would train {len(edited_trials)} of its trials "
            f"anew, because their definition was edited. Undo the edit, wait for it (trainstack wait {batch.run_id} -s "
            f"{launch.stack}), or stop it: trainstack:workloads: stop: [{batch.run_id}]"
        )
        return BatchDecision(refusal=refusal)
    return _decide_active(batch, launch, planned_members, planned, stop, now)


def _decide_active(
    batch: Batch,
    launch: LiveLaunch,
    planned_members: tuple[str, ...],
    planned: PlannedSweep,
    stop: Sequence[str],
    now: datetime,
) -> BatchDecision:
    ledger = _live_ledger(batch, launch, planned)
    # Without a ledger there is no manifest to declare, and the change would delete the live object.
    if ledger is None:
        return BatchDecision(refusal=unrecorded_launch_refusal(_describe_state(batch, launch, now), batch.run_id))
    succeeded_trials = {*_succeeded_members(launch, batch.members)}
    unfinished_trials = [run_id for run_id in planned_members if run_id and run_id not in succeeded_trials]
    if launch.phase == "queued" and not unfinished_trials:
        note = f"{batch.run_id} is no longer queued: the sets of all its trials were removed"
        return replace(_keep_ledger(batch, _succeeded_members(launch, planned_members)), note=note)
    ledger = replace(ledger, trials=planned_members)
    kept_trials = {*planned_members}
    withdrawn_trials = [run_id for run_id in set_ids_by_run(batch.data) if run_id not in kept_trials]
    # The pods of a dispatched Job carry their own copy of the file, which cannot be changed.
    if is_dispatched(ledger.launch) and (removed_trials := {*batch.members} - kept_trials - succeeded_trials - {""}):
        refusal = (
            f"{_describe_state(batch, launch, now)} and this change would withdraw {len(removed_trials)} of its "
            "trials, which is not possible in the cluster that MultiKueue dispatches it to. Undo the edit, wait for "
            f"it (trainstack wait {batch.run_id} -s {launch.stack}), or stop it: trainstack:workloads: stop: "
            f"[{batch.run_id}]"
        )
        return BatchDecision(refusal=refusal)
    data = withdraw_trials(batch.data, withdrawn_trials, [run_id for run_id in withdrawn_trials if run_id in stop])
    note = ""
    if not _is_unedited(batch, launch, planned):
        note = f"{batch.run_id} is {launch.phase}: {EDIT_AT_NEXT_LAUNCH}"
    return BatchDecision(launch=ledger, ledger=ledger, data=data if batch.data else None, note=note)


def _decide_ended(
    batch: Batch, launch: LiveLaunch, planned_members: tuple[str, ...], planned: PlannedSweep
) -> BatchDecision:
    """Decide on a batch that has ended and whose object still exists."""
    if launch.phase == "failed" and not _is_unedited(batch, launch, planned):
        planned_members = _succeeded_members(launch, planned_members)
    if not any(planned_members):
        return BatchDecision()
    ledger = _live_ledger(batch, launch, planned)
    if ledger is None:
        note = f"{batch.run_id}, left without a ledger by an interrupted `up`, is settled; its object is deleted"
        planned_ledger = planned.batch_ledger([run_id for run_id in planned_members if run_id], "")
        return BatchDecision(ledger=replace(planned_ledger, run_id=batch.run_id, trials=planned_members), note=note)
    ledger = replace(ledger, trials=planned_members)
    return BatchDecision(launch=ledger, ledger=ledger)


def _keep_ledger(batch: Batch, members: tuple[str, ...]) -> BatchDecision:
    """Keep only the ledger, for the trials that still belong to the batch."""
    if batch.ledger is None or not any(members):
        return BatchDecision()
    return BatchDecision(ledger=replace(batch.ledger, trials=members))


def _live_ledger(batch: Batch, launch: LiveLaunch, planned: PlannedSweep) -> Ledger | None:
    """Return the ledger of the live object; None if it cannot be determined."""
    if batch.ledger is not None:
        return batch.ledger
    if not batch.members or not _is_unedited(batch, launch, planned):
        return None
    file = launch.sweep.file if launch.sweep else None
    ledger = planned.batch_ledger(batch.members, file or "", batch.data)
    return replace(ledger, run_id=batch.run_id, launch_name=launch.launch)


def _is_unedited(batch: Batch, launch: LiveLaunch, planned: PlannedSweep) -> bool:
    """Return whether the launch part, which all trials of a batch share, is the same as at its launch."""
    if planned.sweep.run.kind != "Job" or not planned.sweep.run.managed:
        return False
    recorded_job = dict(batch.ledger.launch) if batch.ledger else None
    return planned.batch_launch(batch.run_id, len(batch.members), recorded_job=recorded_job).name == launch.launch


def _edited_trials(batch: Batch, launch: LiveLaunch, planned: PlannedSweep) -> list[str]:
    """Return the trials that have not succeeded and whose sets are still in the sweep, with another definition."""
    set_ids, succeeded_trials = set_ids_by_run(batch.data), {*_succeeded_members(launch, batch.members)}
    planned_set_ids = {trial.set_id for trial in planned.trials.values()}
    return [
        run_id
        for run_id in batch.members
        if run_id
        and run_id not in succeeded_trials
        and run_id not in planned.trials
        and set_ids.get(run_id) in planned_set_ids
    ]


def _succeeded_members(launch: LiveLaunch, members: tuple[str, ...]) -> tuple[str, ...]:
    succeeded_indexes = frozenset(launch.sweep.succeeded if launch.sweep else ())
    return tuple(run_id if index in succeeded_indexes else "" for index, run_id in enumerate(members))


def _describe_state(batch: Batch, launch: LiveLaunch, now: datetime) -> str:
    return describe_state(launch, now, f"{len(batch.members)} trials")
