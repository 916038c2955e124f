"""The decision which runs a change launches, leaves unchanged, or must not change.

It is a pure function of the declared runs and the objects in the cluster. The rules (docs/decisions/0003-runs.md):

- a run is launched once: its ledger records the launch, even after the object was deleted;
- a ledger whose launch was claimed but not confirmed, because an `up` was interrupted, is a claim: the run is launched,
  unless its object may have been created and removed in the meantime;
- a queued or running launch is frozen: its original manifest is declared again, so nothing changes;
- a failed launch is replaced if its launch part (memory, queue, …) was edited since; otherwise it stays;
- a change that would delete or replace a queued or running launch is refused unless `stop` names its run;
- so is a change of a run with two active launches, or of a launch whose labels were removed.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Literal

from trainstack.objects import labels
from trainstack.runs.ledgers import Claim, Ledger, ttl_seconds
from trainstack.runs.manifests.kind import FAILED_CONDITIONS, SUCCEEDED_CONDITIONS
from trainstack.runs.names import ledger_name, prefix_of_run
from trainstack.runs.parameter_file import mounted_parameter_file, read_trial_number
from trainstack.runs.status.attempts import is_endless, last_attempt
from trainstack.runs.status.launch_kinds import launch_conditions

LATE_SECONDS = 90
"""The longest time between the claim of a launch and the effect of its create request, if `up` was interrupted or got
no answer. The API server abandons a request after `--request-timeout`, by default 60 s.
"""
EDIT_AT_NEXT_LAUNCH = "the edit (memory, queue, labels, …) takes effect at the next launch"
"""The note on an edit of an active launch."""

Phase = Literal["queued", "running", "succeeded", "failed"]


@dataclass(frozen=True, kw_only=True)
class SweepOfLaunch:
    """The sweep of a live launch, read from its object."""

    name: str
    set_id: str
    """The id of the trial's set; empty for an Indexed Job of many trials."""
    number: int | None
    """The trial number in the environment of its pods."""
    file: str | None
    """The name of the ConfigMap that its pods mount; None for a TrainJob, whose volumes are in its runtime."""
    succeeded: tuple[int, ...] = ()
    """The completion indexes of an Indexed Job that have succeeded."""


@dataclass(frozen=True)
class LiveLaunch:
    """The state of a launch, read from its live object."""

    run_id: str
    name: str
    kind: str
    namespace: str
    phase: Phase
    created: datetime
    launch: str
    """The launch's name; also the object's name if `naming` is `derived`."""
    sweep: SweepOfLaunch | None = None
    """The sweep of a trial or batch; None for a run outside sweeps."""
    lost_labels: Mapping[str, str] = field(default_factory=dict)
    """Recorded labels that the live object lacks and that the stack needs to list the launch."""
    endless: bool = False
    """A Pod with `restartPolicy: Always` and no deadline: it stays active until it is deleted."""
    completed: bool = False
    """Whether the last finished attempt of an endless Pod succeeded; False for other launches."""
    stack: str = ""
    """The name of the environment, for the commands in messages."""
    workload: str = ""
    """The name in the object's label; empty if it has none."""

    @property
    def workload_name(self) -> str:
        """The name of the workload, or of a trial's sweep."""
        return self.workload or prefix_of_run(self.run_id)

    @property
    def is_active(self) -> bool:
        return self.phase in ("queued", "running")

    @property
    def is_unfinished(self) -> bool:
        """Whether the launch has not ended. An endless Pod counts as ended once an attempt has succeeded."""
        return self.is_active and not self.completed


@dataclass(frozen=True)
class LaunchDecision:
    """The launches and ledgers to declare for a change, and the reasons to refuse the change."""

    launches: tuple[Ledger, ...] = ()
    """The launches to declare: new ones, and live ones exactly as they were launched."""
    ledgers: tuple[Ledger, ...] = ()
    """The ledgers to keep: those of `launches`, and those of settled runs whose object was deleted."""
    refusals: tuple[str, ...] = ()
    """Reasons to refuse the change; empty if it is allowed."""
    notes: tuple[str, ...] = ()
    """Notes for the user on settled runs, edits that take effect later, and unknown entries of `stop`."""


def live_launch(body: Mapping[str, Any], lost_labels: Mapping[str, str] = MappingProxyType({})) -> LiveLaunch:
    """Read the state of a launch from its live object, in which `lost_labels` have been restored."""
    metadata, spec, status = body["metadata"], body["spec"], body.get("status") or {}
    # A Pod has no conditions for its end, but a phase.
    true_conditions = ({status.get("phase")} if body["kind"] == "Pod" else set()) | {
        condition["type"] for condition in launch_conditions(body) if condition.get("status") == "True"
    }
    suspended = spec.get("suspend") or (spec.get("runPolicy") or {}).get("suspend") or spec.get("schedulingGates")
    phase: Phase
    # The types are described at `WorkloadKind.conditions`; the phases of a Pod have the same names.
    if true_conditions & SUCCEEDED_CONDITIONS:
        phase = "succeeded"
    elif true_conditions & FAILED_CONDITIONS:
        phase = "failed"
    else:
        phase = "queued" if suspended else "running"
    attempt = last_attempt(body) if is_endless(body) else None
    return LiveLaunch(
        run_id=metadata["labels"][labels.RUN],
        name=metadata["name"],
        kind=body["kind"],
        namespace=metadata["namespace"],
        phase=phase,
        created=datetime.fromisoformat(metadata["creationTimestamp"]),
        launch=metadata["labels"][labels.LAUNCH],
        sweep=_sweep_of_launch(body),
        # `status --json` copies the launch with `asdict`, which cannot copy a MappingProxyType.
        lost_labels=dict(lost_labels),
        endless=is_endless(body),
        completed=attempt is not None and attempt.succeeded,
        stack=metadata["labels"].get(labels.STACK, ""),
        workload=metadata["labels"].get(labels.WORKLOAD, ""),
    )


def _sweep_of_launch(body: Mapping[str, Any]) -> SweepOfLaunch | None:
    live_labels = body["metadata"]["labels"]
    if labels.SWEEP not in live_labels:
        return None
    return SweepOfLaunch(
        name=live_labels[labels.SWEEP],
        set_id=live_labels.get(labels.SET, ""),
        number=read_trial_number(body),
        file=mounted_parameter_file([body]),
        succeeded=tuple(parse_indexes((body.get("status") or {}).get("completedIndexes") or "")),
    )


def parse_indexes(text: str) -> Iterator[int]:
    """Parse completion indexes in the notation of Kubernetes, such as `1,3-5,7`."""
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


@dataclass(frozen=True)
class SingleRunDecision:
    """The decision about one declared run."""

    launch: Ledger | None = None
    """The launch to declare; None if the run is settled or the change is refused."""
    ledger: Ledger | None = None
    """The ledger to keep; None if the change is refused."""
    refusal: str = ""
    note: str = ""


def decide_single_run(
    planned_ledger: Ledger,
    live_launches: Sequence[LiveLaunch],
    recorded_ledger: Ledger | None,
    now: datetime,
    *,
    may_stop: bool,
    claim: Claim | None = None,
    is_adopted: bool = False,
) -> SingleRunDecision:
    """Decide on one declared run.

    `planned_ledger`: the run as it would be launched and recorded now. `recorded_ledger`: its ledger in the cluster.
    `may_stop`: whether this change may stop the run. `is_adopted`: whether the run was launched without Trainstack.
    """
    active_launches = [launch for launch in live_launches if launch.is_active]
    if active_launches and not may_stop:
        return _decide_active_run(planned_ledger, active_launches, recorded_ledger, now)
    if live_launches:
        return _decide_ended_run(
            planned_ledger, live_launches, recorded_ledger, has_active_launch=bool(active_launches)
        )
    if recorded_ledger is not None:
        note = f"{planned_ledger.run_id} was launched before and is settled; raise its `attempt` to train again"
        return SingleRunDecision(None, recorded_ledger, note=note)
    if claim is not None and (refusal := ended_claim_refusal(claim)):
        return SingleRunDecision(refusal=refusal)
    if is_adopted and claim is None:
        note = f"{planned_ledger.run_id} is recorded as launched (`adopt`); its object stays as it is"
        return SingleRunDecision(None, planned_ledger, note=note)
    return SingleRunDecision(planned_ledger, planned_ledger)


def _decide_active_run(
    planned_ledger: Ledger, active_launches: Sequence[LiveLaunch], recorded_ledger: Ledger | None, now: datetime
) -> SingleRunDecision:
    if len(active_launches) > 1:
        return SingleRunDecision(refusal=_duplicate_launch_refusal(active_launches, now))
    launch = active_launches[0]
    # A launch is declared again as it was created, since any other manifest would delete or replace it.
    ledger = _ledger_of_launch(launch.launch, recorded_ledger, planned_ledger)
    if ledger is None:
        return SingleRunDecision(refusal=unrecorded_launch_refusal(describe_state(launch, now), launch.run_id))
    if ledger.launch_name == planned_ledger.launch_name:
        return SingleRunDecision(ledger, ledger)
    return SingleRunDecision(
        ledger, ledger, note=f"{launch.run_id} is {launch.phase} as {launch.launch}: {EDIT_AT_NEXT_LAUNCH}"
    )


def _decide_ended_run(
    planned_ledger: Ledger,
    live_launches: Sequence[LiveLaunch],
    recorded_ledger: Ledger | None,
    *,
    has_active_launch: bool,
) -> SingleRunDecision:
    """Keep a launch that has succeeded. Replace a failed launch, or one that may be stopped, if it was edited."""
    succeeded = next((launch for launch in live_launches if launch.phase == "succeeded"), None)
    if succeeded and not has_active_launch:
        if succeeded_ledger := _ledger_of_launch(succeeded.launch, recorded_ledger, planned_ledger):
            return SingleRunDecision(succeeded_ledger, succeeded_ledger)
        note = (
            f"{succeeded.run_id} succeeded as {succeeded.launch}, which an interrupted `up` left without a ledger: the "
            "run is settled and its object is deleted; raise its `attempt` to train again"
        )
        return SingleRunDecision(None, planned_ledger, note=note)
    launch = _ledger_of_launch(planned_ledger.launch_name, recorded_ledger, planned_ledger) or planned_ledger
    return SingleRunDecision(launch, launch)


def decide_launches(
    planned_ledgers: Sequence[Ledger],
    live_launches: Sequence[LiveLaunch],
    ledgers: Sequence[Ledger],
    stop: Sequence[str],
    now: datetime,
    claims: Sequence[Claim] = (),
    excluded_ledgers: Sequence[Ledger] = (),
    adopted_ids: Collection[str] = (),
) -> LaunchDecision:
    """Decide on the declared runs, given the live launches and the ledgers of this stack.

    `planned_ledgers`: every declared run as it would be launched and recorded now. `stop`: the run ids that this change
    may stop. `claims`: claims whose object is not in the cluster. `excluded_ledgers`: those of excluded runs. They
    are kept so that a run that is included again is not launched again, unless its launch failed or is stopped.
    `adopted_ids`: the ids of runs that were launched without Trainstack.
    """
    ledgers_by_run = {ledger.run_id: ledger for ledger in ledgers}
    claims_by_run = {claim.ledger.run_id: claim for claim in claims}
    launches_by_run: dict[str, list[LiveLaunch]] = {}
    for launch in live_launches:
        launches_by_run.setdefault(launch.run_id, []).append(launch)
    decisions = [
        decide_single_run(
            planned_ledger,
            launches_by_run.pop(planned_ledger.run_id, []),
            ledgers_by_run.get(planned_ledger.run_id),
            now,
            may_stop=planned_ledger.run_id in stop,
            claim=claims_by_run.get(planned_ledger.run_id),
            is_adopted=planned_ledger.run_id in adopted_ids,
        )
        for planned_ledger in planned_ledgers
    ]
    refusals = [decision.refusal for decision in decisions if decision.refusal]
    # The remaining launches belong to no declared run: this change would delete them.
    for run_id, unplanned_launches in sorted(launches_by_run.items()):
        refusals.extend(
            _deletion_refusal(launch, now) for launch in unplanned_launches if launch.is_active and run_id not in stop
        )
    settled_ledgers = [ledger for ledger in excluded_ledgers if _is_settled(launches_by_run.get(ledger.run_id, ()))]
    return LaunchDecision(
        launches=tuple(decision.launch for decision in decisions if decision.launch),
        ledgers=(*(decision.ledger for decision in decisions if decision.ledger), *settled_ledgers),
        refusals=tuple(refusals),
        notes=tuple(decision.note for decision in decisions if decision.note),
    )


def _is_settled(live_launches: Sequence[LiveLaunch]) -> bool:
    """Return whether a launched run is settled: no launch is left, or one succeeded and none is active."""
    return not live_launches or (
        any(launch.phase == "succeeded" for launch in live_launches)
        and not any(launch.is_active for launch in live_launches)
    )


def unknown_stop_notes(stop: Sequence[str], known_names: Collection[str]) -> tuple[str, ...]:
    """Return notes on the entries of `stop` that are not among the known names."""
    return tuple(
        f"stop names {name}, which is not a run of this stack: remove the entry"
        for name in sorted({*stop} - {*known_names})
    )


def _ledger_of_launch(launch_name: str, recorded_ledger: Ledger | None, planned_ledger: Ledger) -> Ledger | None:
    """Return the ledger of this launch. The recorded one takes precedence because its commit may be an earlier one."""
    return next(
        (
            ledger
            for ledger in (recorded_ledger, planned_ledger)
            if ledger is not None and ledger.launch_name == launch_name
        ),
        None,
    )


def _deletion_refusal(launch: LiveLaunch, now: datetime) -> str:
    conjunction = "or " if launch.endless else ""
    return (
        f"{describe_state(launch, now)} and this change would delete it, because its definition was edited or removed. "
        f"Undo the edit, {conjunction}{wait_or_stop(launch)}: trainstack:workloads: stop: [{launch.run_id}]"
    )


def wait_or_stop(launch: LiveLaunch) -> str:
    """Return the remedies for an active launch that prevents a change."""
    if launch.endless:
        return "stop it, because it never completes (restartPolicy: Always)"
    return f"wait for it (trainstack wait {launch.run_id} -s {launch.stack}), or stop it"


def unrecorded_launch_refusal(state: str, run_id: str) -> str:
    return (
        f"{state}; an interrupted `up` left it without a ledger, and its definition was edited since. Undo the edit "
        f"and run `up` once, or stop it: trainstack:workloads: stop: [{run_id}]"
    )


def _duplicate_launch_refusal(active_launches: Sequence[LiveLaunch], now: datetime) -> str:
    states = "; ".join(describe_state(launch, now) for launch in active_launches)
    run_id = active_launches[0].run_id
    return (
        f"run {run_id} has {len(active_launches)} active launches, and this change would delete all but one: {states}. "
        f"Delete those that are not needed (kubectl delete {active_launches[-1].kind.lower()} -n "
        f"{active_launches[-1].namespace} {active_launches[-1].name}), or stop them with this change: "
        f"trainstack:workloads: stop: [{run_id}]"
    )


def lost_labels_refusal(launch: LiveLaunch, now: datetime) -> str:
    """Return the refusal of a change while a launch lacks labels that the stack needs to list it."""
    label_arguments = " ".join(f"{key}={value}" for key, value in sorted(launch.lost_labels.items()))
    return (
        f"{describe_state(launch, now)}, and its labels {', '.join(sorted(launch.lost_labels))} were removed or "
        "changed. Without them the stack cannot find it, so nothing was changed. Restore them: kubectl label "
        f"--overwrite {launch.kind.lower()} -n {launch.namespace} {launch.name} {label_arguments}"
    )


def ended_claim_refusal(claim: Claim, launch: Mapping[str, Any] | None = None) -> str:
    """Return the refusal of a launch that may have ended and been removed by its TTL; empty if that is impossible.

    `launch`: the claimed launch as the API server would store it, if known. A cluster may add a TTL.
    """
    ledger, age = claim.ledger, claim.age
    ttl = ttl_seconds(ledger.launch if launch is None else launch)
    # Until LATE_SECONDS have passed, the object may still be created, end and be removed while `up` waits.
    if ttl is None or (age is not None and ttl > max(age.total_seconds(), LATE_SECONDS)):
        return ""
    name = f"configmap -n {ledger.namespace} {ledger_name(ledger.run_id)}"
    stack = (ledger.launch["metadata"].get("labels") or {}).get(labels.STACK, "<environment>")
    since = f"at {claim.since:%Y-%m-%d %H:%M:%S} UTC" if claim.since is not None else "at an unknown time"
    return (
        f"run {ledger.run_id}: an `up` claimed its launch {ledger.launch_name} {since} and was interrupted, or got no "
        f"answer. Its TTL is {ttl} s, so it may have been launched, ended and removed. Check for its record "
        f"(trainstack fetch {ledger.run_id} -s {stack}). If it did not run, delete the claim (kubectl delete {name}) "
        f"and run `up` again; if it did, confirm the claim (kubectl annotate {name} {labels.CLAIM}-)"
    )


def describe_state(launch: LiveLaunch, now: datetime, content: str = "") -> str:
    """Return a launch's name, phase and age as a sentence. `content`: what the launch executes, by default its run."""
    description = f"{launch.kind} {launch.namespace}/{launch.name} ({content or f'run {launch.run_id}'})"
    return f"{description} has been {launch.phase} for {launch_age(launch, now)}"


def launch_age(launch: LiveLaunch, now: datetime) -> str:
    """Return the age of a launch in the largest unit that fits, such as `3 h`."""
    seconds = int((now - launch.created).total_seconds())
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{max(seconds, 0)} s"


def utc_now() -> datetime:
    return datetime.now(UTC)
