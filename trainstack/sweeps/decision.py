"""Decide which trials of a sweep a change may launch, must leave unchanged, or must refuse to change.

Pure functions. A trial with a ledger, with a live launch or in a batch keeps its launch, whatever the sweep's form is
now. Other trials are launched in the sweep's form. These rules apply in addition to those of runs
(trainstack/runs/launches.py) and of batches (trainstack/sweeps/indexed.py):

- a trial whose set was removed is deleted if it is queued, and keeps running unless `stop` names it;
- a change that trains an active trial differently or removes its sweep is refused, unless `stop` names the trial or
  the sweep;
- a sweep of form `jobs` declares at most `parallelism` trials at once; the others wait for a later `up`;
- two trials of one fixed name are refused: the number in the name is that of the set at the time of its launch.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from trainstack.runs import launches
from trainstack.runs.launches import Decision, LiveLaunch, age
from trainstack.runs.ledgers import Claim, Ledger
from trainstack.runs.parameter_file import Data, file_name, file_of, sets_of
from trainstack.sweeps import indexed as batches
from trainstack.sweeps.launches import PlannedSweep

_NAMED = 3
"""The number of trials that a message names; the others are counted."""


@dataclass(frozen=True, kw_only=True)
class SweepDecision(Decision):
    """What to declare of a sweep, and the reasons to refuse the change."""

    name: str
    files: tuple[tuple[str, str, Data], ...] = ()
    """The files that the launches mount, as namespace, name and content."""
    waiting: tuple[str, ...] = ()
    """Trials that are not launched yet because of `parallelism`."""
    held: tuple[str, ...] = ()
    """Trials that are not launched yet because runs that the sweep depends on have not succeeded."""


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
    """Decide on a sweep's trials, given its launches, ledgers and files (by name) in the cluster. Raises WorkloadError.

    `stop`: run ids, ids of batches and names of sweeps that this change may stop. `blocked`: whether a run that the
    sweep depends on has not succeeded yet, so that no new trial may be launched. `claims`: the claims of launches that
    have no object in the cluster.
    """
    return _Decider(planned, live, ledgers, files, stop, now).decide(claims, held=held)


def undeclared(name: str, live: Sequence[LiveLaunch], stop: Sequence[str], now: datetime) -> SweepDecision:
    """Decide on the live launches of a removed sweep: active ones are deleted only if `stop` names them."""
    active = [each for each in live if each.active and not {each.run_id, name} & {*stop}]
    why = "the sweep was removed from the environment"
    return SweepDecision(name=name, refusals=(_stops(name, active, why, now),) if active else ())


def stoppable(live: Sequence[LiveLaunch], files: Mapping[str, Data]) -> set[str]:
    """Return the valid entries of `stop` for these launches: run ids of trials, ids of batches, names of sweeps."""
    names = set()
    for each in live:
        if each.sweep is not None:
            names |= {each.run_id, each.sweep.name, *sets_of(files.get(each.sweep.file or "", {}))}
    return names


@dataclass
class _Decider:
    """The inputs of a decision, and the decisions so far."""

    planned: PlannedSweep
    live: Sequence[LiveLaunch]
    remembered: Sequence[Ledger]
    files_before: Mapping[str, Data]
    stop: Sequence[str]
    now: datetime
    launches: list[Ledger] = field(default_factory=list)
    ledgers: list[Ledger] = field(default_factory=list)
    files: dict[str, Data] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    """Run ids of trials that need no new launch: they keep theirs, or their batch is refused."""
    places: int = 0
    """Trials that may run at once in all declared launches."""

    @property
    def name(self) -> str:
        return self.planned.sweep.name

    def decide(self, claims: Sequence[Claim], *, held: bool) -> SweepDecision:
        planned, sweep = self.planned, self.planned.sweep
        # Batches come first: their trials must not be launched a second time as jobs.
        self._batches()
        again = self._jobs()
        self._claimed(claims)
        unknown = [run_id for run_id in planned.trials if run_id not in self.known]
        new = [run_id for run_id in planned.trials if run_id in again or not (held or run_id in self.known)]
        waiting: list[str] = []
        if sweep.form == "indexed":
            self._launch_batch([run_id for run_id in new if run_id not in again])
            for ledger in again.values():
                self._add(ledger, ledger)
        else:
            room = len(new) if sweep.parallelism is None else max(sweep.parallelism - self.places, 0)
            for run_id in new[:room]:
                ledger = again[run_id] if run_id in again else planned.job(run_id)
                self._add(ledger, ledger)
            waiting = new[room:]
            # Without its ledger, a failed launch would be deleted now, before its successor has a place.
            self._keep_failed({*waiting} & again.keys())
            self.files.update(planned.file)
        self.refusals += _of_one_name(self.name, self.launches)
        if waiting:
            self.notes.append(
                f"{self.name}: {_several(waiting)} not launched yet because parallelism is {sweep.parallelism}; "
                "`trainstack up` launches them as running trials end, and so does each later `up`"
            )
        return SweepDecision(
            name=self.name,
            launches=tuple(self.launches),
            ledgers=tuple(self.ledgers),
            files=tuple(_mounted(self.launches, {**self.files_before, **self.files})),
            waiting=tuple(waiting),
            held=tuple(unknown) if held else (),
            refusals=tuple(self.refusals),
            notes=tuple(self.notes),
        )

    def _add(self, launch: Ledger | None, ledger: Ledger | None) -> None:
        self.launches += [launch] if launch else []
        self.ledgers += [ledger] if ledger else []

    def _may_stop(self, run_id: str) -> bool:
        return run_id in self.stop or self.name in self.stop

    def _batches(self) -> None:
        for batch in batches.batches(self.live, self.remembered, self.files_before):
            judged = batches.judge(batch, self.planned, self.stop, self.now)
            self._add(judged.launch, judged.ledger)
            self.refusals += filter(None, [judged.refusal])
            self.notes += filter(None, [judged.note])
            # The trials of a refused batch are not launched elsewhere either.
            self.known |= {*(judged.ledger.trials if judged.ledger else batch.members if judged.refusal else ())}
            if judged.launch is not None and judged.data is not None:
                self.files[file_of(judged.launch.objects) or ""] = judged.data
            if judged.launch is not None and batch.launch is not None and batch.launch.active:
                self.places += int(judged.launch.launch["spec"]["parallelism"])

    def _jobs(self) -> dict[str, Ledger]:
        """Decide on trials with launches of their own; return the new launches of failed ones, by run id."""
        remembered = {each.run_id: each for each in self.remembered if not each.trials}
        objects: dict[str, list[LiveLaunch]] = {}
        for each in self.live:
            if each.sweep is not None and each.sweep.set_id:
                objects.setdefault(each.run_id, []).append(each)
        again: dict[str, Ledger] = {}
        settled: list[str] = []
        frozen: list[str] = []
        for run_id in self.planned.trials:
            live, before = objects.get(run_id, []), remembered.get(run_id)
            if run_id in self.known or not (live or before):
                continue
            self.known.add(run_id)
            # Without a ledger, the number and file of the live launch reproduce its manifest.
            launched = live[0].sweep if live and before is None else None
            file = launched.file if launched else None
            wanted = self.planned.job(
                run_id,
                number=launched.number if launched else None,
                file=file,
                data=self.files_before.get(file or ""),
            )
            judged = launches.judge(wanted, live, before, self.now, may_stop=self._may_stop(run_id))
            self.refusals += filter(None, [judged.refusal])
            if judged.launch is not None and judged.launch.launch_name not in {each.launch for each in live}:
                again[run_id] = judged.launch
                continue
            self._add(judged.launch, judged.ledger)
            self.places += any(each.active for each in live)
            if judged.note:
                (frozen if live else settled).append(run_id)
        if settled:
            self.notes.append(f"{self.name}: {_several(settled)} already settled; raise `run.attempt` to train again")
        if frozen:
            self.notes.append(f"{self.name}: {_several(frozen)} active: {launches.EDIT_IS_LATER}")
        others = [each for run_id, live in objects.items() if run_id not in self.planned.trials for each in live]
        self._out(others, remembered)
        return again

    def _claimed(self, claims: Sequence[Claim]) -> None:
        """Decide on the claims of trials that are still in the sweep and have no other launch."""
        for claim in claims:
            trials = {claim.ledger.run_id, *claim.ledger.trials} & ({*self.planned.trials} - self.known)
            if trials and (refusal := launches.may_have_ended(claim)):
                self.refusals.append(refusal)
                self.known |= trials

    def _out(self, live: Sequence[LiveLaunch], remembered: Mapping[str, Ledger]) -> None:
        """Decide on the live launches of trials that are no longer in the sweep."""
        sets = {trial.set_id for trial in self.planned.trials.values()}
        active = [each for each in live if each.active and not self._may_stop(each.run_id)]
        edited = [each for each in active if each.sweep is not None and each.sweep.set_id in sets]
        if edited:
            self.refusals.append(_stops(self.name, edited, "their definition was edited", self.now))
        on = [each for each in active if each not in edited and each.phase == "running"]
        for each in on:
            before = remembered.get(each.run_id)
            if before is None or before.launch_name != each.launch:
                why = "their sets were removed, and an interrupted `up` left no ledger of their launch"
                self.refusals.append(_stops(self.name, [each], why, self.now))
                continue
            self._add(before, before)
            self.places += 1
        if on:
            ids = [each.run_id for each in on]
            self.notes.append(
                f"{self.name}: {_several(ids)} still running although the set was removed; to stop, set "
                f"trainstack:workloads: stop: [{', '.join(ids)}]"
            )

    def _keep_failed(self, run_ids: Collection[str]) -> None:
        """Keep failed launches until `parallelism` allows their new launches."""
        live_names = {each.launch for each in self.live}
        for each in self.remembered:
            if each.run_id in run_ids and each.launch_name in live_names:
                self._add(each, each)

    def _launch_batch(self, run_ids: Sequence[str]) -> None:
        if run_ids:
            data = self.planned.batch_file(run_ids)
            file = file_name(self.name, data)
            ledger = self.planned.batch(run_ids, file, data)
            self.files[file] = data
            self._add(ledger, ledger)


def _of_one_name(sweep: str, launched: Sequence[Ledger]) -> Iterator[str]:
    """Yield a refusal for every two launches with the same fixed object name, which renumbered sets cause."""
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
    """Yield the files with known content that the launches mount, as namespace, name and content."""
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
    """Return the trials as a subject with its verb: `digits-… is`, `digits-… and 4 other trials are`."""
    named, left = ", ".join(run_ids[:_NAMED]), len(run_ids) - _NAMED
    if left > 0:
        return f"{named} and {left} other trial{'' if left == 1 else 's'} are"
    return f"{named} {'is' if len(run_ids) == 1 else 'are'}"
