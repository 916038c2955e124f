"""Decide which trials of a sweep a change may launch, must leave unchanged, or must refuse to change.

Pure functions. A trial with a ledger, with a live launch or in a batch keeps its launch, whatever the sweep's form is
now. Other trials are launched in the sweep's form. These rules apply in addition to those of runs
(trainstack/runs/launches.py) and of batches (trainstack/sweeps/batches.py):

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
from trainstack.runs.launches import LaunchDecision, LiveLaunch, launch_age
from trainstack.runs.ledgers import Claim, Ledger
from trainstack.runs.parameter_file import FileContents, mounted_parameter_file, parameter_file_name, set_ids_by_run
from trainstack.sweeps import batches
from trainstack.sweeps.planned_sweep import PlannedSweep

_MOST_NAMED_TRIALS = 3
"""The number of trials that a message names; the others are counted."""


@dataclass(frozen=True, kw_only=True)
class SweepDecision(LaunchDecision):
    """What to declare of a sweep, and the reasons to refuse the change."""

    name: str
    files: tuple[tuple[str, str, FileContents], ...] = ()
    """The files that the launches mount, as namespace, name and content."""
    waiting: tuple[str, ...] = ()
    """Trials that are not launched yet because of `parallelism`."""
    blocked: tuple[str, ...] = ()
    """Trials that are not launched yet because runs that the sweep depends on have not succeeded."""


def decide(
    planned: PlannedSweep,
    live: Sequence[LiveLaunch],
    ledgers: Sequence[Ledger],
    files: Mapping[str, FileContents],
    stop: Sequence[str],
    now: datetime,
    *,
    blocked: bool = False,
    claims: Sequence[Claim] = (),
) -> SweepDecision:
    """Decide on a sweep's trials, given its launches, ledgers and files (by name) in the cluster. Raises WorkloadError.

    `stop`: run ids, ids of batches and names of sweeps that this change may stop. `blocked`: whether a run that the
    sweep depends on has not succeeded yet, so that no new trial may be launched. `claims`: the claims of launches that
    have no object in the cluster.
    """
    return _Decider(planned, live, ledgers, files, stop, now).decide(claims, blocked=blocked)


def decide_removed_sweep(name: str, live: Sequence[LiveLaunch], stop: Sequence[str], now: datetime) -> SweepDecision:
    """Decide on the live launches of a removed sweep: active ones are deleted only if `stop` names them."""
    active = [launch for launch in live if launch.is_active and not {launch.run_id, name} & {*stop}]
    reason = "the sweep was removed from the environment"
    return SweepDecision(name=name, refusals=(_stop_refusal(name, active, reason, now),) if active else ())


def stoppable_names(live: Sequence[LiveLaunch], files: Mapping[str, FileContents]) -> set[str]:
    """Return the valid entries of `stop` for these launches: run ids of trials, ids of batches, names of sweeps."""
    names = set()
    for launch in live:
        if launch.sweep is not None:
            names |= {launch.run_id, launch.sweep.name, *set_ids_by_run(files.get(launch.sweep.file or "", {}))}
    return names


@dataclass
class _Decider:
    """The inputs of a decision, and the decisions so far."""

    planned: PlannedSweep
    live: Sequence[LiveLaunch]
    ledgers_before: Sequence[Ledger]
    files_before: Mapping[str, FileContents]
    stop: Sequence[str]
    now: datetime
    launches: list[Ledger] = field(default_factory=list)
    ledgers: list[Ledger] = field(default_factory=list)
    files: dict[str, FileContents] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    decided_trials: set[str] = field(default_factory=set)
    """Run ids of trials that need no new launch: they keep theirs, or their batch is refused."""
    used_parallelism: int = 0
    """Trials that may run at once in all declared launches."""

    @property
    def name(self) -> str:
        return self.planned.sweep.name

    def decide(self, claims: Sequence[Claim], *, blocked: bool) -> SweepDecision:
        planned, sweep = self.planned, self.planned.sweep
        # Batches come first: their trials must not be launched a second time as jobs.
        self._decide_batches()
        relaunches = self._decide_jobs()
        self._decide_claims(claims)
        unlaunched_trials = [run_id for run_id in planned.trials if run_id not in self.decided_trials]
        trials_to_launch = [
            run_id
            for run_id in planned.trials
            if run_id in relaunches or not (blocked or run_id in self.decided_trials)
        ]
        waiting: list[str] = []
        if sweep.form == "indexed":
            self._launch_batch([run_id for run_id in trials_to_launch if run_id not in relaunches])
            for ledger in relaunches.values():
                self._add(ledger, ledger)
        else:
            launch_limit = (
                len(trials_to_launch)
                if sweep.parallelism is None
                else max(sweep.parallelism - self.used_parallelism, 0)
            )
            for run_id in trials_to_launch[:launch_limit]:
                ledger = relaunches[run_id] if run_id in relaunches else planned.job_ledger(run_id)
                self._add(ledger, ledger)
            waiting = trials_to_launch[launch_limit:]
            # Without its ledger, a failed launch would be deleted now, before its successor has a place.
            self._keep_failed_launches({*waiting} & relaunches.keys())
            self.files.update(planned.jobs_file)
        self.refusals += _name_conflicts(self.name, self.launches)
        if waiting:
            self.notes.append(
                f"{self.name}: {_trials_with_verb(waiting)} not launched yet because parallelism is "
                f"{sweep.parallelism}; `trainstack up` launches them as running trials end, and so does each later `up`"
            )
        return SweepDecision(
            name=self.name,
            launches=tuple(self.launches),
            ledgers=tuple(self.ledgers),
            files=tuple(_mounted_files(self.launches, {**self.files_before, **self.files})),
            waiting=tuple(waiting),
            blocked=tuple(unlaunched_trials) if blocked else (),
            refusals=tuple(self.refusals),
            notes=tuple(self.notes),
        )

    def _add(self, launch: Ledger | None, ledger: Ledger | None) -> None:
        self.launches += [launch] if launch else []
        self.ledgers += [ledger] if ledger else []

    def _may_stop(self, run_id: str) -> bool:
        return run_id in self.stop or self.name in self.stop

    def _decide_batches(self) -> None:
        for batch in batches.find_batches(self.live, self.ledgers_before, self.files_before):
            decision = batches.decide_batch(batch, self.planned, self.stop, self.now)
            self._add(decision.launch, decision.ledger)
            self.refusals += filter(None, [decision.refusal])
            self.notes += filter(None, [decision.note])
            # The trials of a refused batch are not launched elsewhere either.
            self.decided_trials |= {
                *(decision.ledger.trials if decision.ledger else batch.members if decision.refusal else ())
            }
            if decision.launch is not None and decision.data is not None:
                self.files[mounted_parameter_file(decision.launch.objects) or ""] = decision.data
            if decision.launch is not None and batch.launch is not None and batch.launch.is_active:
                self.used_parallelism += int(decision.launch.launch["spec"]["parallelism"])

    def _decide_jobs(self) -> dict[str, Ledger]:
        """Decide on trials with launches of their own; return the new launches of failed ones, by run id."""
        ledgers_by_run_id = {ledger.run_id: ledger for ledger in self.ledgers_before if not ledger.trials}
        launches_by_run_id: dict[str, list[LiveLaunch]] = {}
        for launch in self.live:
            if launch.sweep is not None and launch.sweep.set_id:
                launches_by_run_id.setdefault(launch.run_id, []).append(launch)
        relaunches: dict[str, Ledger] = {}
        settled: list[str] = []
        frozen: list[str] = []
        for run_id in self.planned.trials:
            live, ledger = launches_by_run_id.get(run_id, []), ledgers_by_run_id.get(run_id)
            # `_decide_batches` has decided the trials of Indexed Jobs; `decide` launches new trials.
            if run_id in self.decided_trials or not (live or ledger):
                continue
            self.decided_trials.add(run_id)
            # Without a ledger, the number and file of the live launch reproduce its manifest.
            live_sweep = live[0].sweep if live and ledger is None else None
            file = live_sweep.file if live_sweep else None
            planned_ledger = self.planned.job_ledger(
                run_id,
                number=live_sweep.number if live_sweep else None,
                file=file,
                data=self.files_before.get(file or ""),
            )
            decision = launches.decide_single_run(
                planned_ledger, live, ledger, self.now, may_stop=self._may_stop(run_id)
            )
            self.refusals += filter(None, [decision.refusal])
            # A new launch of a failed trial needs a place under `parallelism`, which `decide` assigns.
            if decision.launch is not None and decision.launch.launch_name not in {launch.launch for launch in live}:
                relaunches[run_id] = decision.launch
                continue
            self._add(decision.launch, decision.ledger)
            self.used_parallelism += any(launch.is_active for launch in live)
            if decision.note:
                (frozen if live else settled).append(run_id)
        if settled:
            self.notes.append(
                f"{self.name}: {_trials_with_verb(settled)} already settled; raise `run.attempt` to train again"
            )
        if frozen:
            self.notes.append(f"{self.name}: {_trials_with_verb(frozen)} active: {launches.EDIT_AT_NEXT_LAUNCH}")
        removed_launches = [
            launch
            for run_id, live in launches_by_run_id.items()
            if run_id not in self.planned.trials
            for launch in live
        ]
        self._decide_removed_trials(removed_launches, ledgers_by_run_id)
        return relaunches

    def _decide_claims(self, claims: Sequence[Claim]) -> None:
        """Decide on the claims of trials that are still in the sweep and have no other launch."""
        for claim in claims:
            trials = {claim.ledger.run_id, *claim.ledger.trials} & ({*self.planned.trials} - self.decided_trials)
            if trials and (refusal := launches.ended_claim_refusal(claim)):
                self.refusals.append(refusal)
                self.decided_trials |= trials

    def _decide_removed_trials(self, live: Sequence[LiveLaunch], ledgers_by_run_id: Mapping[str, Ledger]) -> None:
        """Decide on the live launches of trials that are no longer in the sweep."""
        set_ids = {trial.set_id for trial in self.planned.trials.values()}
        active = [launch for launch in live if launch.is_active and not self._may_stop(launch.run_id)]
        edited = [launch for launch in active if launch.sweep is not None and launch.sweep.set_id in set_ids]
        if edited:
            self.refusals.append(_stop_refusal(self.name, edited, "their definition was edited", self.now))
        running = [launch for launch in active if launch not in edited and launch.phase == "running"]
        for launch in running:
            ledger = ledgers_by_run_id.get(launch.run_id)
            if ledger is None or ledger.launch_name != launch.launch:
                reason = "their sets were removed, and an interrupted `up` left no ledger of their launch"
                self.refusals.append(_stop_refusal(self.name, [launch], reason, self.now))
                continue
            self._add(ledger, ledger)
            self.used_parallelism += 1
        if running:
            run_ids = [launch.run_id for launch in running]
            self.notes.append(
                f"{self.name}: {_trials_with_verb(run_ids)} still running although the set was removed; to stop, set "
                f"trainstack:workloads: stop: [{', '.join(run_ids)}]"
            )

    def _keep_failed_launches(self, run_ids: Collection[str]) -> None:
        """Keep failed launches until `parallelism` allows their new launches."""
        live_names = {launch.launch for launch in self.live}
        for ledger in self.ledgers_before:
            if ledger.run_id in run_ids and ledger.launch_name in live_names:
                self._add(ledger, ledger)

    def _launch_batch(self, run_ids: Sequence[str]) -> None:
        if run_ids:
            data = self.planned.batch_file(run_ids)
            file = parameter_file_name(self.name, data)
            ledger = self.planned.batch_ledger(run_ids, file, data)
            self.files[file] = data
            self._add(ledger, ledger)


def _name_conflicts(sweep: str, ledgers: Sequence[Ledger]) -> Iterator[str]:
    """Yield a refusal for every two launches with the same fixed object name, which renumbered sets cause."""
    ledgers_by_name: dict[tuple[str, str], Ledger] = {}
    for ledger in ledgers:
        name = ledger.launch["metadata"].get("name")
        earlier = ledgers_by_name.setdefault((ledger.namespace, name), ledger) if name else ledger
        if earlier is not ledger:
            yield (
                f"sweep {sweep}: {earlier.run_id} and {ledger.run_id} cannot both be launched as {name}: the numbers "
                "of the sets have changed. Add new sets after the others, delete the completed launch, or set "
                "run.naming to derived or generated"
            )


def _mounted_files(
    ledgers: Sequence[Ledger], files: Mapping[str, FileContents]
) -> Iterator[tuple[str, str, FileContents]]:
    """Yield the files with known content that the launches mount, as namespace, name and content."""
    mounted_names = {(ledger.namespace, mounted_parameter_file(ledger.objects)) for ledger in ledgers}
    for namespace, name in sorted((namespace, name) for namespace, name in mounted_names if name in files and name):
        yield namespace, name, files[name]


def _stop_refusal(name: str, live: Sequence[LiveLaunch], reason: str, now: datetime) -> str:
    oldest = min(live, key=lambda launch: launch.created)
    subject, stop_name = (
        _trials_with_verb([launch.run_id for launch in live]),
        live[0].run_id if len(live) == 1 else name,
    )
    return (
        f"sweep {name}: {subject} active (for {launch_age(oldest, now)}), and this change would delete the launch, "
        f"because {reason}. Undo the edit, wait for it (trainstack wait {stop_name} -s {live[0].stack}), or stop it: "
        f"trainstack:workloads: stop: [{stop_name}]"
    )


def _trials_with_verb(run_ids: Sequence[str]) -> str:
    """Return the trials as a subject with its verb: `digits-… is`, `digits-… and 4 other trials are`."""
    listed, unlisted_count = ", ".join(run_ids[:_MOST_NAMED_TRIALS]), len(run_ids) - _MOST_NAMED_TRIALS
    if unlisted_count > 0:
        return f"{listed} and {unlisted_count} other trial{'' if unlisted_count == 1 else 's'} are"
    return f"{listed} {'is' if len(run_ids) == 1 else 'are'}"
