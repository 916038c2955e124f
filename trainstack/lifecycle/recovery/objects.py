"""Differences between the engine's state and the cluster. Pure."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from trainstack.guards.states import NO_ID, entry
from trainstack.lifecycle.recovery.problem import Problem, RecoveryCommands
from trainstack.lifecycle.recovery.state import Recorded, State
from trainstack.objects.labels import LAUNCH, LEDGER, RUN, STACK, SWEEP, WORKLOAD, WRAPPER
from trainstack.objects.ownership import Identity, kubectl_arguments, shown

STUCK_AFTER = timedelta(minutes=5)
"""How long an object may be terminating. A pod's default grace period is 30 s, and its Job is deleted afterwards."""


@dataclass(frozen=True)
class LiveObject:
    uid: str
    labels: Mapping[str, str] = field(default_factory=dict)
    deleted: datetime | None = None
    """The deletion timestamp."""
    finalizers: tuple[str, ...] = ()
    owned: bool = False
    """Whether another object owns it."""
    state: str = NO_ID
    """The identity of the engine's state that declared it."""
    drained: bool = False
    """Whether it is a ClusterQueue that a teardown has stopped."""

    def of_run(self, workloads: Collection[str]) -> bool:
        """Whether it is a wrapper, or an object of one of the workloads or sweeps."""
        return WRAPPER in self.labels or {self.labels.get(WORKLOAD), self.labels.get(SWEEP)} & {*workloads} != set()


@dataclass(frozen=True)
class Seen:
    objects: Mapping[Identity, LiveObject]
    """The live objects with the stack's label, and those in the state."""
    unreadable: frozenset[str] = frozenset()
    """The kinds that the user may not read, or that this program does not know."""


def pending_problems(state: State, seen: Seen | None, recovery: RecoveryCommands) -> Iterator[Problem]:
    """Report interrupted operations, unfinished replacements, and objects that did not become ready."""
    for operation in state.pending:
        target = operation.object
        name = operation.urn if target is None else shown(target.identity)
        message = f"the engine was interrupted while {operation.doing} it"
        if target and seen and target.kind not in seen.unreadable:
            message += f"; {_now(target, seen)}"
        yield Problem("operation-pending", name, message, (recovery.refresh, recovery.up))
    for replaced in state.replaced:
        message = "another object has replaced it, but it has not been deleted yet"
        yield Problem("replacement-unfinished", shown(replaced.identity), message, (recovery.up,))
    for recorded in state.objects:
        if recorded.errors:
            message = f"it was created, but did not become ready ({recorded.errors[0].splitlines()[0]})"
            yield Problem("object-unready", shown(recorded.identity), message, (recovery.up,))


def recorded_problems(state: State, seen: Seen, stack: str, recovery: RecoveryCommands) -> Iterator[Problem]:
    """Report objects of the state that the cluster does not have, or has with another UID, label or owner."""
    pending = {operation.object.identity for operation in state.pending if operation.object is not None}
    for recorded in state.objects:
        if recorded.kind in seen.unreadable or recorded.identity in pending:
            continue
        live, name = seen.objects.get(recorded.identity), shown(recorded.identity)
        if live is None:
            # A launch may be deleted, by its TTL or by a user: its ledger records it.
            if not recorded.is_launch:
                message = "the object is in the state, but not in the cluster"
                yield Problem("object-missing", name, message, (recovery.refresh, recovery.up))
        elif recorded.uid and live.uid != recorded.uid:
            message = "the object in the state was deleted, and another one of its name was created"
            yield Problem("object-replaced", name, message, (recovery.refresh, recovery.up))
        elif (label := live.labels.get(STACK)) != stack:
            message = (
                f"the object is in the state, but its label {STACK} {f'is {label!r}' if label else 'was removed'}, so "
                "`up` refuses to change it. If it is this stack's object, restore the label"
            )
            restored = f"kubectl label --overwrite {kubectl_arguments(recorded.identity)} {STACK}={stack}"
            yield Problem("object-unmarked", name, message, (restored, recovery.up))
        elif live.state not in (NO_ID, state.identity):
            how = "the object is in the state, but another state of the stack"
            yield _of_another(recorded.identity, live.state, stack, how)
        elif live.drained:
            message = "a teardown that did not end has stopped it (stopPolicy HoldAndDrain), so it admits no run"
            yield Problem("queue-drained", name, message, (recovery.refresh, recovery.up))


def unrecorded(state: State, seen: Seen, stack: str, retained: Collection[Identity]) -> dict[Identity, LiveObject]:
    """Return the live objects with the stack's label that are not in its state.

    Without controlled objects, terminating ones, those that `destroy` leaves (definitions of operators' kinds, and
    `retained`), and data loaders of commands, which `loaders.loader_problems` reports.
    """
    known = {recorded.identity for recorded in (*state.objects, *state.replaced)}
    known |= {operation.object.identity for operation in state.pending if operation.object is not None}
    return {
        identity: live
        for identity, live in seen.objects.items()
        if live.labels.get(STACK) == stack
        and identity not in known
        and identity not in retained
        and identity[0] != "CustomResourceDefinition"
        and not live.owned
        and live.deleted is None
        and not (LAUNCH in live.labels and RUN not in live.labels)
    }


def unrecorded_problems(
    found: Mapping[Identity, LiveObject], own: str, declared: Collection[Identity] | None, recovery: RecoveryCommands
) -> Iterator[Problem]:
    """Report unrecorded objects; objects of this state only if the declared objects are known (not None)."""
    for identity, live in sorted(found.items(), key=lambda item: shown(item[0])):
        if live.state != own:
            how = "the object is not in this state, and another state"
            yield _of_another(identity, live.state, recovery.stack, how)
        elif declared is None:
            continue
        elif identity in declared:
            message = (
                "it has this stack's label, but is not in its state. The environment declares it: `up` takes it over"
            )
            yield Problem("object-unrecorded", shown(identity), message, (recovery.up,))
        else:
            message = "it has this stack's label, but is neither in its state nor declared"
            if RUN in live.labels and LEDGER not in live.labels:
                message += ". It is a run: deleting it ends it"
            yield Problem(
                "object-orphaned", shown(identity), message, (f"kubectl delete {kubectl_arguments(identity)}",)
            )


def _of_another(identity: Identity, state: str, stack: str, how: str) -> Problem:
    # No command: the user decides which state to continue with.
    owner = "a state without an identity" if state == NO_ID else f"state {state}"
    message = (
        f"{how} owns it ({owner}). `up` refuses to change it. If that state is lost or no longer used, add "
        f"`{entry([state])}` into Pulumi.{stack}.yaml and run `up`; otherwise work with that state"
    )
    return Problem("object-of-another-state", shown(identity), message, ())


def stuck_problems(seen: Seen, now: datetime) -> Iterator[Problem]:
    """Report objects that have been terminating for long. No finalizer is removed: its controller has work to do."""
    for identity, live in sorted(seen.objects.items(), key=lambda item: shown(item[0])):
        if live.deleted is not None and now - live.deleted > STUCK_AFTER:
            held = ", ".join(live.finalizers) or "its contents or its pods"
            message = f"it has been terminating since {live.deleted:%Y-%m-%d %H:%M:%S} UTC, held by {held}"
            yield Problem("object-stuck", shown(identity), message, (_holder(identity, live.finalizers),))


def _now(recorded: Recorded, seen: Seen) -> str:
    live = seen.objects.get(recorded.identity)
    if live is None:
        return "it is not in the cluster"
    return "it is in the cluster" + (", being deleted" if live.deleted is not None else "")


def _holder(identity: Identity, finalizers: Collection[str]) -> str:
    """Return a command that shows what blocks the deletion."""
    _, namespace, _ = identity
    if "kueue.x-k8s.io/resource-in-use" in finalizers:
        return "kubectl get workloads -A"
    if "kubernetes.io/pvc-protection" in finalizers:
        return f"kubectl get pods -n {namespace}"
    return f"kubectl describe {kubectl_arguments(identity)}"
