"""The state held against the cluster: what the one knows and the other does not.

Pure: the parsed state and the live objects come in, troubles go out.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from trainstack.guards.states import NO_ID, entry
from trainstack.lifecycle.recovery.problem import Mending, Trouble
from trainstack.lifecycle.recovery.state import Recorded, State
from trainstack.objects.labels import LAUNCH, LEDGER, RUN, STACK, SWEEP, WORKLOAD, WRAPPER
from trainstack.objects.ownership import Identity

STUCK_AFTER = timedelta(minutes=5)
"""How long an object may be on its way out. A pod has 30 s by default to end, and its Job goes after it."""


@dataclass(frozen=True)
class LiveObject:
    """An object in the cluster, by its metadata."""

    uid: str
    labels: Mapping[str, str] = field(default_factory=dict)
    deleted: datetime | None = None
    """When somebody asked for its deletion."""
    finalizers: tuple[str, ...] = ()
    owned: bool = False
    """Whether another object owns it, whose controller made it and takes it away."""
    state: str = NO_ID
    """The identity of the engine's state that declared it."""

    def of_run(self, workloads: Collection[str]) -> bool:
        """Whether it is a launch, a ledger or a parameter file of one of these workloads or sweeps, or a wrapper."""
        return WRAPPER in self.labels or {self.labels.get(WORKLOAD), self.labels.get(SWEEP)} & {*workloads} != set()


@dataclass(frozen=True)
class Seen:
    """What was read of a cluster."""

    objects: Mapping[Identity, LiveObject]
    """What bears the stack's mark, and what the state knows by name."""
    unreadable: frozenset[str] = frozenset()
    """The kinds that could not be read, or are not known to this program."""


def pending_troubles(state: State, seen: Seen | None, mending: Mending) -> Iterator[Trouble]:
    """What the engine began, and never heard the end of; and what it left for a next time."""
    for each in state.pending:
        known = each.object is not None and seen is not None and each.object.kind not in seen.unreadable
        yield Trouble(
            "operation-pending",
            name(each.object.identity) if each.object is not None else each.urn,
            f"the engine was ended while {each.doing} it"
            + (f"; {_now(each.object, seen)}" if known and each.object and seen else ""),
            (mending.refresh, mending.up),
        )
    for old in state.replaced:
        yield Trouble(
            "replacement-unfinished",
            name(old.identity),
            "another object has replaced it, and it was not deleted yet",
            (mending.up,),
        )
    for broken in state.objects:
        if broken.errors:
            yield Trouble(
                "object-unready",
                name(broken.identity),
                f"it was made and did not become ready ({broken.errors[0].splitlines()[0]})",
                (mending.up,),
            )


def recorded_troubles(state: State, seen: Seen, stack: str, mending: Mending) -> Iterator[Trouble]:
    """What the state knows, and the cluster has otherwise or not at all."""
    pending = {each.object.identity for each in state.pending if each.object is not None}
    for each in state.objects:
        if each.kind in seen.unreadable or each.identity in pending:
            continue
        live = seen.objects.get(each.identity)
        if live is None:
            # Its time to live has ended, or somebody deleted it: its ledger remembers that it was launched.
            if not each.is_launch:
                yield Trouble(
                    "object-missing",
                    name(each.identity),
                    "the state knows it, and it is not in the cluster",
                    (mending.refresh, mending.up),
                )
        elif each.uid and live.uid != each.uid:
            yield Trouble(
                "object-replaced",
                name(each.identity),
                "somebody deleted the object that the state knows and made another of its name",
                (mending.refresh, mending.up),
            )
        elif live.labels.get(STACK) != stack:
            mark = live.labels.get(STACK)
            yield Trouble(
                "object-unmarked",
                name(each.identity),
                f"the state knows it, and its label {STACK} "
                + (f"says {mark!r}" if mark else "is gone")
                + ": `up` would take it for somebody else's. If it is this stack's, give it back",
                (f"kubectl label --overwrite {kubectl(each.identity)} {STACK}={stack}", mending.up),
            )
        elif live.state not in (NO_ID, state.identity):
            yield _of_another(each.identity, live.state, stack, "the state knows it, and another state of the stack")


def unrecorded(state: State, seen: Seen, stack: str, retained: Collection[Identity]) -> dict[Identity, LiveObject]:
    """What bears the stack's mark, and is not in its state.

    Without what a controller made, what `destroy` leaves (the definitions of operators' kinds, and `retained`), what is
    being deleted, and the data loaders of commands, which `loaders.loader_troubles` judges.
    """
    known = {each.identity for each in (*state.objects, *state.replaced)}
    known |= {each.object.identity for each in state.pending if each.object is not None}
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


def unrecorded_troubles(
    found: Mapping[Identity, LiveObject], own: str, declared: Collection[Identity] | None, mending: Mending
) -> Iterator[Trouble]:
    """What to do about each: `up` takes over what the environment declares and this state made.

    Where it is not known what the environment declares (None), nothing of this state is judged.
    """
    for identity, live in sorted(found.items(), key=lambda item: name(item[0])):
        if live.state != own:
            yield _of_another(identity, live.state, mending.stack, "it is not in this state, and another state")
        elif declared is None:
            continue
        elif identity in declared:
            yield Trouble(
                "object-unrecorded",
                name(identity),
                "it bears this stack's mark and is not in its state. The environment declares it: `up` takes it over",
                (mending.up,),
            )
        else:
            launch = RUN in live.labels and LEDGER not in live.labels
            yield Trouble(
                "object-orphaned",
                name(identity),
                "it bears this stack's mark, and neither its state nor the environment knows it"
                + (". It is a run: deleting it ends it" if launch else ""),
                (f"kubectl delete {kubectl(identity)}",),
            )


def _of_another(identity: Identity, state: str, stack: str, how: str) -> Trouble:
    """No command: which state is to go on is a person's decision."""
    whose = "a state without an identity" if state == NO_ID else f"state {state}"
    return Trouble(
        "object-of-another-state",
        name(identity),
        f"{how} owns it ({whose}). `up` refuses to change it. If that state is lost or no longer used, add "
        f"`{entry([state])}` into Pulumi.{stack}.yaml and run `up`; otherwise work with that state",
        (),
    )


def stuck_troubles(seen: Seen, now: datetime) -> Iterator[Trouble]:
    """What somebody deleted, and something holds. No finalizer is stripped: it stands for work that is not done."""
    for identity, live in sorted(seen.objects.items(), key=lambda item: name(item[0])):
        if live.deleted is not None and now - live.deleted > STUCK_AFTER:
            held = ", ".join(live.finalizers) or "what is in it or runs of it"
            yield Trouble(
                "object-stuck",
                name(identity),
                f"it is being deleted since {live.deleted:%Y-%m-%d %H:%M:%S} UTC and held by {held}",
                (_holder(identity, live.finalizers),),
            )


def name(identity: Identity) -> str:
    """`Kind namespace/name`."""
    kind, namespace, own = identity
    return f"{kind} {namespace}/{own}" if namespace else f"{kind} {own}"


def kubectl(identity: Identity) -> str:
    """The same as arguments of kubectl."""
    kind, namespace, own = identity
    return f"{kind.lower()} {own}" + (f" -n {namespace}" if namespace else "")


def _now(recorded: Recorded, seen: Seen) -> str:
    live = seen.objects.get(recorded.identity)
    if live is None:
        return "it is not in the cluster"
    return "it is in the cluster" + (", being deleted" if live.deleted is not None else "")


def _holder(identity: Identity, finalizers: Collection[str]) -> str:
    """Shows what has to go first."""
    _, namespace, _ = identity
    if "kueue.x-k8s.io/resource-in-use" in finalizers:
        return "kubectl get workloads -A"
    if "kubernetes.io/pvc-protection" in finalizers:
        return f"kubectl get pods -n {namespace}"
    return f"kubectl describe {kubectl(identity)}"
