"""Problems that are differences between the engine's state and the cluster. Pure."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from trainstack.guards.other_states import NO_STATE_IDENTITY, take_over_setting
from trainstack.lifecycle.recovery.problem import Problem, RecoveryCommands
from trainstack.lifecycle.recovery.state import EngineState, RecordedObject
from trainstack.objects.labels import LAUNCH, LEDGER, RUN, STACK, SWEEP, WORKLOAD, WRAPPER
from trainstack.objects.ownership import Identity, format_identity, kubectl_arguments

STUCK_AFTER = timedelta(minutes=5)
"""Time after which a terminating object is a problem. A pod's default grace period is 30 s, and its Job follows it."""


@dataclass(frozen=True)
class LiveObject:
    """The metadata of an object in the cluster, as far as recovery needs it."""

    uid: str
    labels: Mapping[str, str] = field(default_factory=dict)
    deletion_time: datetime | None = None
    """The deletion timestamp; None if the object is not terminating."""
    finalizers: tuple[str, ...] = ()
    is_owned: bool = False
    """Whether another object owns it."""
    state: str = NO_STATE_IDENTITY
    """The identity of the engine's state that declared it."""
    is_drained: bool = False
    """Whether it is a ClusterQueue that a teardown has stopped."""

    def is_of_run(self, workloads: Collection[str]) -> bool:
        """Return whether it is a wrapper, or an object of one of the workloads or sweeps."""
        return WRAPPER in self.labels or {self.labels.get(WORKLOAD), self.labels.get(SWEEP)} & {*workloads} != set()


@dataclass(frozen=True)
class LiveObjects:
    objects: Mapping[Identity, LiveObject]
    """The live objects with the stack's label, and those in the state."""
    unreadable_kinds: frozenset[str] = frozenset()
    """The kinds that the user may not read, or that this program does not know."""


def pending_problems(
    state: EngineState, live_objects: LiveObjects | None, recovery: RecoveryCommands
) -> Iterator[Problem]:
    """Yield interrupted operations, unfinished replacements, and objects that did not become ready."""
    for operation in state.pending_operations:
        interrupted_object = operation.object
        name = operation.urn if interrupted_object is None else format_identity(interrupted_object.identity)
        message = f"the engine was interrupted while {operation.verb} it"
        if interrupted_object and live_objects and interrupted_object.kind not in live_objects.unreadable_kinds:
            message += f"; {_live_status(interrupted_object, live_objects)}"
        yield Problem("operation-pending", name, message, (recovery.refresh, recovery.up))
    for replaced_object in state.replaced_objects:
        message = "another object has replaced it, but it has not been deleted yet"
        yield Problem("replacement-unfinished", format_identity(replaced_object.identity), message, (recovery.up,))
    for recorded in state.objects:
        if recorded.errors:
            message = f"it was created, but did not become ready ({recorded.errors[0].splitlines()[0]})"
            yield Problem("object-unready", format_identity(recorded.identity), message, (recovery.up,))


def recorded_problems(
    state: EngineState, live_objects: LiveObjects, stack: str, recovery: RecoveryCommands
) -> Iterator[Problem]:
    """Yield the objects of the state that the cluster lacks, or has with another UID, label or owner."""
    pending = {operation.object.identity for operation in state.pending_operations if operation.object is not None}
    for recorded in state.objects:
        if recorded.kind in live_objects.unreadable_kinds or recorded.identity in pending:
            continue  # unknown, or reported by `pending_problems`
        live_object, name = live_objects.objects.get(recorded.identity), format_identity(recorded.identity)
        if live_object is None:
            # A launch may be deleted, by its TTL or by a user: its ledger records it.
            if not recorded.is_launch:
                message = "the object is in the state, but not in the cluster"
                yield Problem("object-missing", name, message, (recovery.refresh, recovery.up))
        elif recorded.uid and live_object.uid != recorded.uid:
            message = "the object in the state was deleted, and another one of its name was created"
            yield Problem("object-replaced", name, message, (recovery.refresh, recovery.up))
        elif (label := live_object.labels.get(STACK)) != stack:
            message = (
                f"the object is in the state, but its label {STACK} {f'is {label!r}' if label else 'was removed'}, so "
                "`up` refuses to change it. If it is this stack's object, restore the label"
            )
            label_command = f"kubectl label --overwrite {kubectl_arguments(recorded.identity)} {STACK}={stack}"
            yield Problem("object-unmarked", name, message, (label_command, recovery.up))
        elif live_object.state not in (NO_STATE_IDENTITY, state.identity):
            clause = "the object is in the state, but another state of the stack"
            yield _foreign_state_problem(recorded.identity, live_object.state, stack, clause)
        elif live_object.is_drained:
            message = "a teardown that did not end has stopped it (stopPolicy HoldAndDrain), so it admits no run"
            yield Problem("queue-drained", name, message, (recovery.refresh, recovery.up))


def find_unrecorded_objects(
    state: EngineState, live_objects: LiveObjects, stack: str, retained: Collection[Identity]
) -> dict[Identity, LiveObject]:
    """Return the live objects with the stack's label that are not in its state.

    The result excludes controlled objects, terminating ones, those that `destroy` leaves (definitions of operators'
    kinds, and `retained`), and data loaders of commands, which `loaders.loader_problems` reports.
    """
    recorded_identities = {recorded.identity for recorded in (*state.objects, *state.replaced_objects)}
    recorded_identities |= {
        operation.object.identity for operation in state.pending_operations if operation.object is not None
    }
    return {
        identity: live_object
        for identity, live_object in live_objects.objects.items()
        if live_object.labels.get(STACK) == stack
        and identity not in recorded_identities
        and identity not in retained
        and identity[0] != "CustomResourceDefinition"
        and not live_object.is_owned
        and live_object.deletion_time is None
        and not (LAUNCH in live_object.labels and RUN not in live_object.labels)
    }


def unrecorded_problems(
    unrecorded_objects: Mapping[Identity, LiveObject],
    state_identity: str,
    declared: Collection[Identity] | None,
    recovery: RecoveryCommands,
) -> Iterator[Problem]:
    """Yield unrecorded objects, including those of this state only if the declared objects are known (not None)."""
    for identity, live_object in sorted(unrecorded_objects.items(), key=lambda item: format_identity(item[0])):
        if live_object.state != state_identity:
            clause = "the object is not in this state, and another state"
            yield _foreign_state_problem(identity, live_object.state, recovery.stack, clause)
        elif declared is None:
            continue
        elif identity in declared:
            message = (
                "it has this stack's label, but is not in its state. The environment declares it: `up` takes it over"
            )
            yield Problem("object-unrecorded", format_identity(identity), message, (recovery.up,))
        else:
            message = "it has this stack's label, but is neither in its state nor declared"
            if RUN in live_object.labels and LEDGER not in live_object.labels:
                message += ". It is a run: deleting it ends it"
            yield Problem(
                "object-orphaned",
                format_identity(identity),
                message,
                (f"kubectl delete {kubectl_arguments(identity)}",),
            )


def _foreign_state_problem(identity: Identity, state: str, stack: str, clause: str) -> Problem:
    # No command: the user decides which state to continue with.
    owner = "a state without an identity" if state == NO_STATE_IDENTITY else f"state {state}"
    message = (
        f"{clause} owns it ({owner}). `up` refuses to change it. If that state is lost or no longer used, add "
        f"`{take_over_setting([state])}` into Pulumi.{stack}.yaml and run `up`; otherwise work with that state"
    )
    return Problem("object-of-another-state", format_identity(identity), message, ())


def stuck_problems(live_objects: LiveObjects, now: datetime) -> Iterator[Problem]:
    """Yield the objects that have been terminating for longer than STUCK_AFTER.

    No command removes a finalizer, because its controller has not completed the deletion.
    """
    for identity, live_object in sorted(live_objects.objects.items(), key=lambda item: format_identity(item[0])):
        if live_object.deletion_time is not None and now - live_object.deletion_time > STUCK_AFTER:
            blockers = ", ".join(live_object.finalizers) or "its contents or its pods"
            message = (
                f"it has been terminating since {live_object.deletion_time:%Y-%m-%d %H:%M:%S} UTC, held by {blockers}"
            )
            yield Problem(
                "object-stuck",
                format_identity(identity),
                message,
                (_blocker_command(identity, live_object.finalizers),),
            )


def _live_status(recorded: RecordedObject, live_objects: LiveObjects) -> str:
    live_object = live_objects.objects.get(recorded.identity)
    if live_object is None:
        return "it is not in the cluster"
    return "it is in the cluster" + (", being deleted" if live_object.deletion_time is not None else "")


def _blocker_command(identity: Identity, finalizers: Collection[str]) -> str:
    """Return a command that shows what blocks the deletion."""
    _, namespace, _ = identity
    if "kueue.x-k8s.io/resource-in-use" in finalizers:
        return "kubectl get workloads -A"
    if "kubernetes.io/pvc-protection" in finalizers:
        return f"kubectl get pods -n {namespace}"
    return f"kubectl describe {kubectl_arguments(identity)}"
