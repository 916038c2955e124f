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

from trainstack.runs.launches import EDIT_IS_LATER, Judgement, LiveLaunch, left_behind, state_of
from trainstack.runs.ledgers import Ledger
from trainstack.runs.manifests.build import is_dispatched
from trainstack.runs.parameter_file import Data, sets_of, withdrawn
from trainstack.sweeps.launches import PlannedSweep


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
    data: Data
    """Its file; {} if it was deleted."""


@dataclass(frozen=True, kw_only=True)
class BatchJudgement(Judgement):
    data: Data | None = None
    """The new content of its file, if it changes."""


def batches(live: Sequence[LiveLaunch], ledgers: Sequence[Ledger], files: Mapping[str, Data]) -> list[Batch]:
    """Return a sweep's batches, the live ones last and by age. Each trial is in one batch.

    If an interrupted `up` left a trial in two batches, it belongs to a live one, and of two live ones to the newer.
    """
    remembered = {ledger.launch_name: ledger for ledger in ledgers if ledger.trials}
    found: list[Batch] = []
    for launch in sorted(live, key=lambda each: each.created, reverse=True):
        if launch.sweep is None or launch.sweep.set_id:
            continue
        data = files.get(launch.sweep.file or "", {})
        ledger = remembered.pop(launch.launch, None)
        members = tuple(sets_of(data)) if ledger is None else ledger.trials
        found.append(Batch(launch.run_id, launch, ledger, members, data))
    found += [Batch(each.run_id, None, each, each.trials, {}) for each in reversed(remembered.values())]
    taken: set[str] = set()
    result = []
    for each in found:
        own = tuple("" if run_id in taken else run_id for run_id in each.members)
        taken.update(own)
        result.append(replace(each, members=own))
    return result[::-1]


def judge(batch: Batch, planned: PlannedSweep, stop: Sequence[str], now: datetime) -> BatchJudgement:
    wanted = tuple(run_id if run_id in planned.trials else "" for run_id in batch.members)
    launch = batch.launch
    if launch is None:
        settled = sum(map(bool, wanted))
        note = (
            f"{batch.run_id}: {settled} trials were launched before and are settled; raise `run.attempt` to train again"
        )
        return replace(_remembered(batch, wanted), note=note if settled else "")
    if not launch.active:
        return _ended(batch, launch, wanted, planned)
    named = batch.run_id in stop or planned.sweep.name in stop
    if named and not (wanted == batch.members and _as_launched(batch, launch, planned)):
        return _remembered(batch, _succeeded(launch, wanted))
    if not named and (edited := _edited(batch, launch, planned)):
        refusal = (
            f"{_state(batch, launch, now)} and this change would train {len(edited)} of its trials anew, because "
            f"their definition was edited. Undo the edit, wait for it (trainstack wait {batch.run_id} -s "
            f"{launch.stack}), or stop it: trainstack:workloads: stop: [{batch.run_id}]"
        )
        return BatchJudgement(refusal=refusal)
    return _active(batch, launch, wanted, planned, stop, now)


def _active(
    batch: Batch,
    launch: LiveLaunch,
    wanted: tuple[str, ...],
    planned: PlannedSweep,
    stop: Sequence[str],
    now: datetime,
) -> BatchJudgement:
    ledger = _known(batch, launch, planned)
    # Without a ledger there is no manifest to declare, and the change would delete the live object.
    if ledger is None:
        return BatchJudgement(refusal=left_behind(_state(batch, launch, now), batch.run_id))
    done = {*_succeeded(launch, batch.members)}
    left = [run_id for run_id in wanted if run_id and run_id not in done]
    if launch.phase == "queued" and not left:
        note = f"{batch.run_id} is no longer queued: the sets of all its trials were removed"
        return replace(_remembered(batch, _succeeded(launch, wanted)), note=note)
    ledger = replace(ledger, trials=wanted)
    own = {*wanted}
    out = [run_id for run_id in sets_of(batch.data) if run_id not in own]
    # The pods of a dispatched Job carry their own copy of the file, which cannot be changed.
    if is_dispatched(ledger.launch) and (removed := {*batch.members} - own - done - {""}):
        refusal = (
            f"{_state(batch, launch, now)} and this change would withdraw {len(removed)} of its trials, which is not "
            f"possible in the cluster that MultiKueue dispatches it to. Undo the edit, wait for it (trainstack wait "
            f"{batch.run_id} -s {launch.stack}), or stop it: trainstack:workloads: stop: [{batch.run_id}]"
        )
        return BatchJudgement(refusal=refusal)
    data = withdrawn(batch.data, out, [run_id for run_id in out if run_id in stop])
    note = ""
    if not _as_launched(batch, launch, planned):
        note = f"{batch.run_id} is {launch.phase}: {EDIT_IS_LATER}"
    return BatchJudgement(launch=ledger, ledger=ledger, data=data if batch.data else None, note=note)


def _ended(batch: Batch, launch: LiveLaunch, wanted: tuple[str, ...], planned: PlannedSweep) -> BatchJudgement:
    """Decide on a batch that has ended and whose object still exists."""
    if launch.phase == "failed" and not _as_launched(batch, launch, planned):
        wanted = _succeeded(launch, wanted)
    if not any(wanted):
        return BatchJudgement()
    ledger = _known(batch, launch, planned)
    if ledger is None:
        note = f"{batch.run_id}, left without a ledger by an interrupted `up`, is settled; its object is deleted"
        now = planned.batch([run_id for run_id in wanted if run_id], "")
        return BatchJudgement(ledger=replace(now, run_id=batch.run_id, trials=wanted), note=note)
    ledger = replace(ledger, trials=wanted)
    return BatchJudgement(launch=ledger, ledger=ledger)


def _remembered(batch: Batch, kept: tuple[str, ...]) -> BatchJudgement:
    """Keep only the ledger, for the trials that still belong to the batch."""
    if batch.ledger is None or not any(kept):
        return BatchJudgement()
    return BatchJudgement(ledger=replace(batch.ledger, trials=kept))


def _known(batch: Batch, launch: LiveLaunch, planned: PlannedSweep) -> Ledger | None:
    """Return the ledger of the live object; None if it cannot be determined."""
    if batch.ledger is not None:
        return batch.ledger
    if not batch.members or not _as_launched(batch, launch, planned):
        return None
    file = launch.sweep.file if launch.sweep else None
    ledger = planned.batch(batch.members, file or "", batch.data)
    return replace(ledger, run_id=batch.run_id, launch_name=launch.launch)


def _as_launched(batch: Batch, launch: LiveLaunch, planned: PlannedSweep) -> bool:
    """Return whether the launch part, which all trials of a batch share, is the same as at its launch."""
    if planned.sweep.run.kind != "Job" or not planned.sweep.run.managed:
        return False
    like = dict(batch.ledger.launch) if batch.ledger else None
    return planned.batch_launch(batch.run_id, len(batch.members), like=like).name == launch.launch


def _edited(batch: Batch, launch: LiveLaunch, planned: PlannedSweep) -> list[str]:
    """Return the trials that have not succeeded and whose sets are still in the sweep, with another definition."""
    sets, done = sets_of(batch.data), {*_succeeded(launch, batch.members)}
    wanted = {trial.set_id for trial in planned.trials.values()}
    return [
        run_id
        for run_id in batch.members
        if run_id and run_id not in done and run_id not in planned.trials and sets.get(run_id) in wanted
    ]


def _succeeded(launch: LiveLaunch, members: tuple[str, ...]) -> tuple[str, ...]:
    done = frozenset(launch.sweep.succeeded if launch.sweep else ())
    return tuple(run_id if index in done else "" for index, run_id in enumerate(members))


def _state(batch: Batch, launch: LiveLaunch, now: datetime) -> str:
    return state_of(launch, now, f"{len(batch.members)} trials")
