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
from trainstack.runs.manifests.kind import FAILED, SUCCEEDED
from trainstack.runs.names import ledger_name
from trainstack.runs.parameter_file import file_of, number_of
from trainstack.runs.status.attempts import endless, last_attempt
from trainstack.runs.status.kinds import launch_conditions

LATE_SECONDS = 90
"""The longest time between the claim of a launch and the effect of its create request, if `up` was interrupted or got
no answer. The API server abandons a request after `--request-timeout`, by default 60 s.
"""
EDIT_IS_LATER = "the edit (memory, queue, labels, …) takes effect at the next launch"
"""The note on an edit of an active launch."""

Phase = Literal["queued", "running", "succeeded", "failed"]


@dataclass(frozen=True, kw_only=True)
class OfSweep:
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
    sweep: OfSweep | None = None
    """The sweep of a trial or batch; None for a run outside sweeps."""
    lost_labels: Mapping[str, str] = field(default_factory=dict)
    """Recorded labels that the live object lacks and that the stack needs to list the launch."""
    endless: bool = False
    """A Pod with `restartPolicy: Always` and no deadline: it stays active until it is deleted."""
    completed: bool = False
    """Whether the last finished attempt of an endless Pod succeeded; False for other launches."""
    stack: str = ""
    """The name of the environment, for the commands in messages."""

    @property
    def active(self) -> bool:
        return self.phase in ("queued", "running")

    @property
    def awaited(self) -> bool:
        """Whether the launch has not ended. An endless Pod counts as ended once an attempt has succeeded."""
        return self.active and not self.completed


@dataclass(frozen=True)
class Decision:
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
    true = ({status.get("phase")} if body["kind"] == "Pod" else set()) | {
        c["type"] for c in launch_conditions(body) if c.get("status") == "True"
    }
    suspended = spec.get("suspend") or (spec.get("runPolicy") or {}).get("suspend") or spec.get("schedulingGates")
    phase: Phase
    # The types are described at `WorkloadKind.conditions`; the phases of a Pod have the same names.
    if true & SUCCEEDED:
        phase = "succeeded"
    elif true & FAILED:
        phase = "failed"
    else:
        phase = "queued" if suspended else "running"
    attempt = last_attempt(body) if endless(body) else None
    return LiveLaunch(
        run_id=metadata["labels"][labels.RUN],
        name=metadata["name"],
        kind=body["kind"],
        namespace=metadata["namespace"],
        phase=phase,
        created=datetime.fromisoformat(metadata["creationTimestamp"]),
        launch=metadata["labels"][labels.LAUNCH],
        sweep=_of_sweep(body),
        # `status --json` copies the launch with `asdict`, which cannot copy a MappingProxyType.
        lost_labels=dict(lost_labels),
        endless=endless(body),
        completed=attempt is not None and attempt.succeeded,
        stack=metadata["labels"].get(labels.STACK, ""),
    )


def _of_sweep(body: Mapping[str, Any]) -> OfSweep | None:
    marks = body["metadata"]["labels"]
    if labels.SWEEP not in marks:
        return None
    return OfSweep(
        name=marks[labels.SWEEP],
        set_id=marks.get(labels.SET, ""),
        number=number_of(body),
        file=file_of([body]),
        succeeded=tuple(indexes((body.get("status") or {}).get("completedIndexes") or "")),
    )


def indexes(text: str) -> Iterator[int]:
    """Parse completion indexes in the notation of Kubernetes, such as `1,3-5,7`."""
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


@dataclass(frozen=True)
class Judgement:
    """The decision about one declared run."""

    launch: Ledger | None = None
    """The launch to declare; None if the run is settled or the change is refused."""
    ledger: Ledger | None = None
    """The ledger to keep; None if the change is refused."""
    refusal: str = ""
    note: str = ""


def judge(
    wanted: Ledger,
    found: Sequence[LiveLaunch],
    before: Ledger | None,
    now: datetime,
    *,
    may_stop: bool,
    claim: Claim | None = None,
) -> Judgement:
    """Decide on one declared run.

    `planned_ledger`: the run as it would be launched and recorded now. `recorded_ledger`: its ledger in the cluster.
    `may_stop`: whether this change may stop the run.
    """
    active = [launch for launch in found if launch.active]
    if active and not may_stop:
        return _frozen_launch(wanted, active, before, now)
    if found:
        return _ended(wanted, found, before, active=bool(active))
    if before is not None:
        note = f"{wanted.run_id} was launched before and is settled; raise its `attempt` to train again"
        return Judgement(None, before, note=note)
    if claim is not None and (refusal := may_have_ended(claim)):
        return Judgement(refusal=refusal)
    return Judgement(wanted, wanted)


def _frozen_launch(wanted: Ledger, active: Sequence[LiveLaunch], before: Ledger | None, now: datetime) -> Judgement:
    if len(active) > 1:
        return Judgement(refusal=_twice(active, now))
    launch = active[0]
    # A launch is declared again as it was created, since any other manifest would delete or replace it.
    kept = _named(launch.launch, before, wanted)
    if kept is None:
        return Judgement(refusal=left_behind(state_of(launch, now), launch.run_id))
    if kept.launch_name == wanted.launch_name:
        return Judgement(kept, kept)
    return Judgement(kept, kept, note=f"{launch.run_id} is {launch.phase} as {launch.launch}: {EDIT_IS_LATER}")


def _ended(wanted: Ledger, found: Sequence[LiveLaunch], before: Ledger | None, *, active: bool) -> Judgement:
    """Keep a launch that has succeeded. Replace a failed launch, or one that may be stopped, if it was edited."""
    succeeded = next((launch for launch in found if launch.phase == "succeeded"), None)
    if succeeded and not active:
        if kept := _named(succeeded.launch, before, wanted):
            return Judgement(kept, kept)
        note = (
            f"{succeeded.run_id} succeeded as {succeeded.launch}, which an interrupted `up` left without a ledger: the "
            "run is settled and its object is deleted; raise its `attempt` to train again"
        )
        return Judgement(None, wanted, note=note)
    launch = _named(wanted.launch_name, before, wanted) or wanted
    return Judgement(launch, launch)


def decide(
    declared: Sequence[Ledger],
    live: Sequence[LiveLaunch],
    ledgers: Sequence[Ledger],
    stop: Sequence[str],
    now: datetime,
    claims: Sequence[Claim] = (),
    excluded: Sequence[Ledger] = (),
) -> Decision:
    """Decide on the declared runs, given the live launches and the ledgers of this stack.

    `planned_ledgers`: every declared run as it would be launched and recorded now. `stop`: the run ids that this change
    may stop. `claims`: claims whose object is not in the cluster. `excluded_ledgers`: those of excluded runs. They
    are kept so that a run that is included again is not launched again, unless its launch failed or is stopped.
    """
    remembered = {ledger.run_id: ledger for ledger in ledgers}
    claimed = {claim.ledger.run_id: claim for claim in claims}
    objects: dict[str, list[LiveLaunch]] = {}
    for launch in live:
        objects.setdefault(launch.run_id, []).append(launch)
    judged = [
        judge(
            wanted,
            objects.pop(wanted.run_id, []),
            remembered.get(wanted.run_id),
            now,
            may_stop=wanted.run_id in stop,
            claim=claimed.get(wanted.run_id),
        )
        for wanted in declared
    ]
    refusals = [each.refusal for each in judged if each.refusal]
    # The remaining launches belong to no declared run: this change would delete them.
    for run_id, rest in sorted(objects.items()):
        refusals.extend(_stops(launch, now) for launch in rest if launch.active and run_id not in stop)
    settled = [ledger for ledger in excluded if _has_trained(objects.get(ledger.run_id, ()))]
    return Decision(
        launches=tuple(each.launch for each in judged if each.launch),
        ledgers=(*(each.ledger for each in judged if each.ledger), *settled),
        refusals=tuple(refusals),
        notes=tuple(each.note for each in judged if each.note),
    )


def _has_trained(found: Sequence[LiveLaunch]) -> bool:
    """Return whether a launched run is settled: no launch is left, or one succeeded and none is active."""
    return not found or (any(one.phase == "succeeded" for one in found) and not any(one.active for one in found))


def idle_stops(stop: Sequence[str], known: Collection[str]) -> tuple[str, ...]:
    """Return notes on the entries of `stop` that are not among the known names."""
    return tuple(
        f"stop names {name}, which is not a run of this stack: remove the entry" for name in sorted({*stop} - {*known})
    )


def _named(launch: str, before: Ledger | None, wanted: Ledger) -> Ledger | None:
    """Return the ledger of this launch. The recorded one takes precedence because its commit may be an earlier one."""
    return next((each for each in (before, wanted) if each is not None and each.launch_name == launch), None)


def _stops(launch: LiveLaunch, now: datetime) -> str:
    either = "or " if launch.endless else ""
    return (
        f"{state_of(launch, now)} and this change would delete it, because its definition was edited or removed. "
        f"Undo the edit, {either}{wait_or_stop(launch)}: trainstack:workloads: stop: [{launch.run_id}]"
    )


def wait_or_stop(launch: LiveLaunch) -> str:
    """Return the remedies for an active launch that prevents a change."""
    if launch.endless:
        return "stop it, because it never completes (restartPolicy: Always)"
    return f"wait for it (trainstack wait {launch.run_id} -s {launch.stack}), or stop it"


def left_behind(state: str, run_id: str) -> str:
    return (
        f"{state}; an interrupted `up` left it without a ledger, and its definition was edited since. Undo the edit "
        f"and run `up` once, or stop it: trainstack:workloads: stop: [{run_id}]"
    )


def _twice(active: Sequence[LiveLaunch], now: datetime) -> str:
    listed = "; ".join(state_of(launch, now) for launch in active)
    run_id = active[0].run_id
    return (
        f"run {run_id} has {len(active)} active launches, and this change would delete all but one: {listed}. Delete "
        f"those that are not needed (kubectl delete {active[-1].kind.lower()} -n {active[-1].namespace} "
        f"{active[-1].name}), or stop them with this change: trainstack:workloads: stop: [{run_id}]"
    )


def without_labels(launch: LiveLaunch, now: datetime) -> str:
    """Return the refusal of a change while a launch lacks labels that the stack needs to list it."""
    restored = " ".join(f"{key}={value}" for key, value in sorted(launch.lost_labels.items()))
    return (
        f"{state_of(launch, now)}, and its labels {', '.join(sorted(launch.lost_labels))} were removed or changed. "
        "Without them the stack cannot find it, so nothing was changed. Restore them: kubectl label --overwrite "
        f"{launch.kind.lower()} -n {launch.namespace} {launch.name} {restored}"
    )


def may_have_ended(claim: Claim, launch: Mapping[str, Any] | None = None) -> str:
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


def state_of(launch: LiveLaunch, now: datetime, content: str = "") -> str:
    """Return a launch's name, phase and age as a sentence. `content`: what the launch executes, by default its run."""
    described = f"{launch.kind} {launch.namespace}/{launch.name} ({content or f'run {launch.run_id}'})"
    return f"{described} has been {launch.phase} for {age(launch, now)}"


def age(launch: LiveLaunch, now: datetime) -> str:
    """Return the age of a launch in the largest unit that fits, such as `3 h`."""
    seconds = int((now - launch.created).total_seconds())
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{max(seconds, 0)} s"


def utc_now() -> datetime:
    return datetime.now(UTC)
