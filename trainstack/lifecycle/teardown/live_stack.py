"""The input of a teardown's plan."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainstack.objects.labels import LAUNCH, STACK
from trainstack.objects.ownership import Identity
from trainstack.runs.launches import LiveLaunch

Body = Mapping[str, Any]
"""A live object with its kind. Some have no other field than their metadata."""
FINISHED = frozenset({"Finished", "Succeeded", "Failed", "Completed", "Complete"})
"""The conditions and phases of finished Workloads, PyTorchJobs, pods, Jobs, JobSets and TrainJobs."""


@dataclass(frozen=True, kw_only=True)
class LiveStack:
    """The objects of a cluster that concern one stack, as far as the user may read them."""

    stack: str
    labeled_objects: tuple[Body, ...]
    """The metadata of the objects with the stack's label, launches included."""
    launches: tuple[LiveLaunch, ...] = ()
    recorded_launches: frozenset[str] = frozenset()
    """The names of launches that the stack's ledgers and state record. The pods and the Workload of a deleted launch
    outlive it for a while, and only this name shows that they are the stack's."""
    in_namespaces: tuple[Body, ...] = ()
    """The metadata of all objects in the stack's namespaces."""
    instances: Mapping[str, tuple[Body, ...]] = field(default_factory=dict)
    """All objects of the kinds that the stack's CustomResourceDefinitions define, by the definition's name."""
    lists: Mapping[str, tuple[Body, ...]] = field(default_factory=dict)
    """Kueue's objects, claims and pods of all namespaces, by kind."""
    retained: frozenset[Identity] = frozenset()
    """The objects that the engine retains. Volumes remain; the plan decides about namespaces and definitions."""
    protected: tuple[str, ...] = ()
    """The volumes that the settings protect."""
    stop: frozenset[str] = frozenset()
    """Run ids and sweeps that may be stopped."""
    state_identities: frozenset[Identity] | None = None
    """The objects in the stack's state; None if the state was not read."""

    def objects_of_kind(self, kind: str) -> tuple[Body, ...]:
        return self.lists.get(kind, ())

    def labeled_objects_of(self, *kinds: str) -> list[Body]:
        return [body for body in self.labeled_objects if body["kind"] in kinds]


def has_label_of(body: Body, stack: str) -> bool:
    return label(body, STACK) == stack


def label(body: Body, key: str) -> str:
    """Return the value of an object's label; empty without one."""
    return str((body["metadata"].get("labels") or {}).get(key, ""))


def launch_name(body: Body) -> str:
    """Return the name of the launch to which an object, or the pods of a Workload, belong; empty without one."""
    if body["kind"] != "Workload":
        return label(body, LAUNCH)
    templates = (pod_set["template"] for pod_set in (body.get("spec") or {}).get("podSets") or ())
    names = (str(((template.get("metadata") or {}).get("labels") or {}).get(LAUNCH, "")) for template in templates)
    return next(filter(None, names), "")


def dependent_uids(roots: Iterable[Body], bodies: Iterable[Body]) -> frozenset[str]:
    """Return the UIDs of `roots` and of all their direct and indirect dependents."""
    uids = {str(body["metadata"]["uid"]) for body in roots}
    remaining_bodies = [body for body in bodies if owners(body)]
    while True:
        dependents = [body for body in remaining_bodies if any(str(owner["uid"]) in uids for owner in owners(body))]
        if not dependents:
            return frozenset(uids)
        uids |= {str(body["metadata"]["uid"]) for body in dependents}
        remaining_bodies = [body for body in remaining_bodies if str(body["metadata"]["uid"]) not in uids]


def owners(body: Body) -> Sequence[Body]:
    return body["metadata"].get("ownerReferences") or ()


def is_finished(body: Body) -> bool:
    """Return whether the phase or a true condition of an object is one of FINISHED."""
    status = body.get("status") or {}
    conditions = {
        condition["type"] for condition in status.get("conditions") or () if condition.get("status") == "True"
    }
    return bool(({status.get("phase")} | conditions) & FINISHED)


def describe_owner(body: Body) -> str:
    stack = label(body, STACK)
    return f"of stack {stack!r}" if stack else "of another owner"


def object_names(bodies: Collection[Body]) -> frozenset[str]:
    return frozenset(str(body["metadata"]["name"]) for body in bodies)
