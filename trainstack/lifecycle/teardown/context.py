"""What a teardown is decided upon."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainstack.objects.labels import STACK
from trainstack.objects.ownership import Identity
from trainstack.runs.launches import LiveLaunch

Body = Mapping[str, Any]
"""A live object with its kind; of some only the metadata was read."""
FINISHED = frozenset({"Finished", "Succeeded", "Failed", "Completed", "Complete"})
"""The conditions, one a kind, of what has ended: of Workloads, PyTorchJobs, Jobs, JobSets and TrainJobs."""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A read of a cluster, as far as it is about one stack. What these credentials may not read is not in it."""

    stack: str
    ours: tuple[Body, ...]
    """The metadata of everything that bears the stack's mark, launches among it."""
    launches: tuple[LiveLaunch, ...] = ()
    beside: tuple[Body, ...] = ()
    """The metadata of everything in the namespaces that are ours, whoever made it."""
    instances: Mapping[str, tuple[Body, ...]] = field(default_factory=dict)
    """By the name of a definition (CRD) of ours: every object of that kind, whole."""
    lists: Mapping[str, tuple[Body, ...]] = field(default_factory=dict)
    """By kind, in all namespaces, whole: Kueue's objects, claims and pods."""
    retained: frozenset[Identity] = frozenset()
    """What the engine only forgets. Volumes among it stay; of namespaces and definitions the plan decides."""
    protected: tuple[str, ...] = ()
    """The volumes that the settings protect."""
    stop: frozenset[str] = frozenset()
    """Run ids and sweeps that may be stopped."""
    known: frozenset[Identity] | None = None
    """What the stack's state holds; None where nobody asked."""

    def all(self, kind: str) -> tuple[Body, ...]:
        """Every object of a kind, whoever made it."""
        return self.lists.get(kind, ())

    def of(self, *kinds: str) -> list[Body]:
        """The stack's own objects of these kinds."""
        return [body for body in self.ours if body["kind"] in kinds]


def is_ours(body: Body, stack: str) -> bool:
    """Whether an object bears the stack's mark."""
    return (body["metadata"].get("labels") or {}).get(STACK) == stack


def owned(roots: Iterable[Body], bodies: Iterable[Body]) -> frozenset[str]:
    """The uids of some objects, and of all that they own through however many others."""
    found = {str(body["metadata"]["uid"]) for body in roots}
    left = [body for body in bodies if owners(body)]
    while True:
        more = [body for body in left if any(str(each["uid"]) in found for each in owners(body))]
        if not more:
            return frozenset(found)
        found |= {str(body["metadata"]["uid"]) for body in more}
        left = [body for body in left if str(body["metadata"]["uid"]) not in found]


def owners(body: Body) -> Sequence[Body]:
    """The references to the objects that own one."""
    return body["metadata"].get("ownerReferences") or ()


def finished(body: Body) -> bool:
    """Whether it has ended, and so needs nobody any more."""
    status = body.get("status") or {}
    held = {each["type"] for each in status.get("conditions") or () if each.get("status") == "True"}
    return bool(({status.get("phase")} | held) & FINISHED)


def whose(body: Body) -> str:
    """Who an object belongs to, as far as it says so."""
    stack = (body["metadata"].get("labels") or {}).get(STACK)
    return f"of stack {stack!r}" if stack else "of somebody else"


def names(bodies: Collection[Body]) -> frozenset[str]:
    """Their names."""
    return frozenset(str(body["metadata"]["name"]) for body in bodies)


def places(bodies: Sequence[Body]) -> frozenset[tuple[str, str]]:
    """Their namespaces and names."""
    return frozenset((str(body["metadata"]["namespace"]), str(body["metadata"]["name"])) for body in bodies)
