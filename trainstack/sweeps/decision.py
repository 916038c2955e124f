"""Decide which trials of a sweep a change may launch, must leave unchanged, or must refuse to change.

Pure. A trial is known by its ledger, by its live launch, or as part of a batch; a known trial keeps its launch,
whatever the sweep's form is now. Other trials are launched in the sweep's form. In addition to the rules of runs
(trainstack/runs/launches.py) and of batches (trainstack/sweeps/indexed.py):

- a trial whose set was removed is deleted if it is queued, and keeps running unless `stop` names it;
- a change that trains an active trial differently or removes its sweep is refused, unless `stop` names the trial or
  the sweep;
- of form `jobs` at most `parallelism` trials are declared at once; the others wait for a later `up`;
- two trials of one fixed name are refused: the number in the name is that of the set at the time of its launch.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from trainstack.runs import launches
from trainstack.runs.launches import LiveLaunch, age
from trainstack.runs.parameter_file import Data, file_name, file_of
from trainstack.runs.records import Claim, Ledger
from trainstack.sweeps import indexed as batches
from trainstack.sweeps.launches import PlannedSweep

_NAMED = 3
"""The number of trials that a message names; the others are counted."""


@dataclass(frozen=True, kw_only=True)
class SweepDecision:
    """What to declare of a sweep, and the reasons to refuse the change."""

    name: str
    launches: tuple[Ledger, ...] = ()
    ledgers: tuple[Ledger, ...] = ()
    files: tuple[tuple[str, str, Data], ...] = ()
    """The files that the launches mount, as namespace, name and content."""
    waiting: tuple[str, ...] = ()
    """Trials that are not launched yet because of `parallelism`."""
    held: tuple[str, ...] = ()
    """Trials that are not launched yet because runs that the sweep depends on have not succeeded."""
    refusals: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass
class _Found:
    """The intermediate state of a decision."""

    launches: list[Ledger] = field(default_factory=list)
    ledgers: list[Ledger] = field(default_factory=list)
    files: dict[str, Data] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    """Run ids of trials that keep their launch."""
    places: int = 0
    """Trials that may run at once in all declared launches."""

    def add(self, launch: Ledger | None, ledger: Ledger | None) -> None:
        self.launches += [launch] if launch else []
        self.ledgers += [ledger] if ledger else []


def decide(
    planned: PlannedSweep,
    live: Sequence[LiveLaunch],
    ledgers: Sequence[Ledger],
    files: Mapping[str, Data],
    stop: Sequence[str],
    now: datetime,
    *,
    held: bool = False,
    claims: Sequence[Claim] = (),
) -> SweepDecision:
    """Decide on a sweep's trials, given its launches, ledgers and files (by name) in the cluster.

    `stop`: run ids, ids of batches and names of sweeps that this change may stop. `held`: whether a run that the sweep
    depends on has not succeeded yet, so that no trial may be launched. `claims`: without an object in the cluster.

    Raises WorkloadError.
    """
    name, found = planned.sweep.name, _Found()
    _batches(planned, live, ledgers, files, stop, now, found)
    again = _jobs(planned, live, ledgers, stop, now, found)
    _claimed(planned, claims, now, found)
    unknown = dict.fromkeys(run_id for run_id in planned.trials if run_id not in found.known)
    new = [run_id for run_id in planned.trials if run_id in again or (run_id in unknown and not held)]
    waiting: tuple[str, ...] = ()
    if planned.sweep.form == "indexed":
        _launch_batch(planned, [run_id for run_id in new if run_id not in again], found)
        for run_id in again:
            found.add(again[run_id], again[run_id])
    else:
        most = planned.sweep.parallelism
        room = len(new) if most is None else max(most - found.places, 0)
        for run_id in new[:room]:
            ledger = again[run_id] if run_id in again else planned.job(run_id)
            found.add(ledger, ledger)
        waiting = tuple(new[room:])
        _keep_failed(waiting, again, live, ledgers, found)
        found.files.update(planned.file)
    found.refusals += _of_one_name(name, found.launches)
    if waiting:
        found.notes.append(
            f"{name}: {_several(waiting)} not launched yet because parallelism is {planned.sweep.parallelism}; "
            "`trainstack up` launches them as running trials end, and so does each later `up`"
        )
    return SweepDecision(
        name=name,
        launches=tuple(found.launches),
        ledgers=tuple(found.ledgers),
        files=tuple(_mounted(found.launches, {**files, **found.files})),
        waiting=waiting,
        held=tuple(unknown) if held else (),
        refusals=tuple(found.refusals),
        notes=tuple(found.notes),
    )


def undeclared(name: str, live: Sequence[LiveLaunch], stop: Sequence[str], now: datetime) -> SweepDecision:
    """Decide on the live launches of a removed sweep: active ones are deleted only if `stop` names them."""
    active = [each for each in live if each.active and not {each.run_id, name} & {*stop}]
    why = "the sweep was removed from the environment"
    return SweepDecision(name=name, refusals=(_stops(name, active, why, now),) if active else ())


def stoppable(live: Sequence[LiveLaunch], files: Mapping[str, Data]) -> set[str]:
    """The valid entries of `stop` for these launches: run ids of trials, ids of batches, names of sweeps."""
    names = set()
    for each in live:
        if each.sweep is not None:
            names |= {each.run_id, each.sweep.name, *batches.sets_of(files.get(each.sweep.file or "", {}))}
    return names


def _batches(
    planned: PlannedSweep,
    live: Sequence[LiveLaunch],
    ledgers: Sequence[Ledger],
    files: Mapping[str, Data],
    stop: Sequence[str],
    now: datetime,
    found: _Found,
) -> None:
    for batch in batches.batches(live, ledgers, files):
        judged = batches.judge(batch, planned, stop, now)
        found.add(judged.launch, judged.ledger)
        found.refusals += [judged.refusal] if judged.refusal else []
        found.notes += [judged.note] if judged.note else []
        # The trials of a refused batch are not launched elsewhere either.
        found.known |= {*(judged.ledger.trials if judged.ledger else batch.members if judged.refusal else ())}
        if judged.launch is not None and judged.data is not None:
            found.files[file_of(judged.launch.objects) or ""] = judged.data
        if judged.launch is not None and batch.launch is not None and batch.launch.active:
            found.places += int(judged.launch.launch["spec"]["parallelism"])


def _jobs(
    planned: PlannedSweep,
    live: Sequence[LiveLaunch],
    ledgers: Sequence[Ledger],
    stop: Sequence[str],
    now: datetime,
    found: _Found,
) -> dict[str, Ledger]:
    """Decide on trials with launches of their own; return those to launch again, by run id."""
    remembered = {each.run_id: each for each in ledgers if not each.trials}
    objects: dict[str, list[LiveLaunch]] = {}
    for each in live:
        if each.sweep is not None and each.sweep.set_id:
            objects.setdefault(each.run_id, []).append(each)
    own = [run_id for run_id in planned.trials if run_id in remembered or run_id in objects]
    again: dict[str, Ledger] = {}
    settled, frozen = [], []
    for run_id in own:
        if run_id in found.known:
            continue
        found.known.add(run_id)
        found_live, before = objects.get(run_id, []), remembered.get(run_id)
        launched = found_live[0].sweep if found_live and before is None else None
        wanted = planned.job(
            run_id, number=launched.number if launched else None, file=launched.file if launched else None
        )
        may_stop = bool({run_id, planned.sweep.name} & {*stop})
        judged = launches.judge(wanted, found_live, before, now, may_stop=may_stop)
        found.refusals += [judged.refusal] if judged.refusal else []
        if judged.launch is not None and judged.launch.launch_name not in {each.launch for each in found_live}:
            again[run_id] = judged.launch
            continue
        found.add(judged.launch, judged.ledger)
        found.places += any(each.active for each in found_live)
        settled += [run_id] if judged.note and not found_live else []
        frozen += [run_id] if judged.note and found_live else []
    if settled:
        found.notes.append(
            f"{planned.sweep.name}: {_several(settled)} already settled; raise `run.attempt` to train again"
        )
    if frozen:
        found.notes.append(
            f"{planned.sweep.name}: {_several(frozen)} active: the edit (memory, queue, labels, …) takes effect "
            "at the next launch"
        )
    others = [each for run_id, own_live in objects.items() if run_id not in planned.trials for each in own_live]
    _out(planned, others, remembered, stop, now, found)
    return again


def _claimed(planned: PlannedSweep, claims: Sequence[Claim], now: datetime, found: _Found) -> None:
    """Decide on claims by their trials that are still in the sweep and have no other launch."""
    for claim in claims:
        trials = {claim.ledger.run_id, *claim.ledger.trials} & ({*planned.trials} - found.known)
        if trials and (refusal := launches.may_have_ended(claim, now)):
            found.refusals.append(refusal)
            found.known |= trials


def _out(
    planned: PlannedSweep,
    live: Sequence[LiveLaunch],
    remembered: Mapping[str, Ledger],
    stop: Sequence[str],
    now: datetime,
    found: _Found,
) -> None:
    """Decide on the live launches of trials that are no longer in the sweep."""
    name = planned.sweep.name
    sets = {each.trial.set_id for each in planned.planned}
    active = [each for each in live if each.active and not {each.run_id, name} & {*stop}]
    edited = [each for each in active if each.sweep is not None and each.sweep.set_id in sets]
    if edited:
        found.refusals.append(_stops(name, edited, "their definition was edited", now))
    on = [each for each in active if each not in edited and each.phase == "running"]
    for each in on:
        before = remembered.get(each.run_id)
        if before is None or before.launch_name != each.launch:
            why = "their sets were removed, and an interrupted `up` left no ledger of their launch"
            found.refusals.append(_stops(name, [each], why, now))
            continue
        found.add(before, before)
        found.places += 1
    if on:
        ids = [each.run_id for each in on]
        found.notes.append(
            f"{name}: {_several(ids)} still running although the set was removed; to stop, set "
            f"trainstack:workloads: stop: [{', '.join(ids)}]"
        )


def _keep_failed(
    waiting: Sequence[str],
    again: Mapping[str, Ledger],
    live: Sequence[LiveLaunch],
    ledgers: Sequence[Ledger],
    found: _Found,
) -> None:
    """Keep failed launches until there is room to launch them again."""
    live_names = {each.launch for each in live}
    for each in ledgers:
        if each.run_id in waiting and each.run_id in again and each.launch_name in live_names:
            found.add(each, each)


def _launch_batch(planned: PlannedSweep, run_ids: Sequence[str], found: _Found) -> None:
    if not run_ids:
        return
    data = planned.batch_file(run_ids)
    file = file_name(planned.sweep.name, data)
    ledger = planned.batch(run_ids, file)
    found.files[file] = data
    found.add(ledger, ledger)


def _of_one_name(sweep: str, launched: Sequence[Ledger]) -> Iterator[str]:
    """Refuse launches with the same fixed object name, which occur after the sets were renumbered."""
    first: dict[tuple[str, str], Ledger] = {}
    for ledger in launched:
        name = ledger.launch["metadata"].get("name")
        other = first.setdefault((ledger.namespace, name), ledger) if name else ledger
        if other is not ledger:
            yield (
                f"sweep {sweep}: {other.run_id} and {ledger.run_id} cannot both be launched as {name}: the numbers of "
                "the sets have changed. Add new sets after the others, delete the completed launch, or set "
                "run.naming to derived or generated"
            )


def _mounted(launched: Sequence[Ledger], files: Mapping[str, Data]) -> Iterator[tuple[str, str, Data]]:
    """The files that the launches mount, as far as their content is known."""
    named = {(each.namespace, file_of(each.objects)) for each in launched}
    for namespace, name in sorted((namespace, name) for namespace, name in named if name in files and name):
        yield namespace, name, files[name]


def _stops(name: str, live: Sequence[LiveLaunch], why: str, now: datetime) -> str:
    oldest = min(live, key=lambda each: each.created)
    several, named = _several([each.run_id for each in live]), live[0].run_id if len(live) == 1 else name
    return (
        f"sweep {name}: {several} active (for {age(oldest, now)}), and this change would delete the launch, "
        f"because {why}. Undo the edit, wait for it (trainstack wait {named} -s {live[0].stack}), or stop it: "
        f"trainstack:workloads: stop: [{named}]"
    )


def _several(run_ids: Sequence[str]) -> str:
    """The trials as the subject of a sentence: `digits-… is`, `digits-… and 4 other trials are`."""
    named, left = ", ".join(run_ids[:_NAMED]), len(run_ids) - _NAMED
    if left > 0:
        return f"{named} and {left} other trial{'' if left == 1 else 's'} are"
    return f"{named} {'is' if len(run_ids) == 1 else 'are'}"
