"""Whether a run can ever be admitted by its queue: quota and flavors, on an idle cluster."""

from collections.abc import Iterator, Mapping

from checks.admission.verdict import Cause, Lack, Verdict
from checks.rule import Check, Rule, Violation
from checks.scene import Scene

_OF_QUOTA: tuple[Cause, ...] = ("quota", "taint", "affinity", "topology")
"""What other rules do not report: they find what is missing, closed or on hold, and what the API server refuses."""

_OTHERWISE: Mapping[Cause, str] = {
    "affinity": "let its pods select and tolerate the nodes of one of the queue's flavors",
    "pod-refused": "let the requests be within the limits",
    "taint": "let its pods select and tolerate the nodes of one of the queue's flavors",
    "topology": "name a queue whose flavors have a topology where the pods ask for one, and else one whose have none",
}
"""What is said where nothing that was tried helps."""


@Rule(
    id="resource-uncovered",
    severity="error",
    summary="The pods request a resource that the cluster queue does not cover, so Kueue never admits them.",
    details="A limit without a request counts as one, and so does a request of nothing.",
    example="`limits: {nvidia.com/gpu: 1}` on a queue that covers `cpu` and `memory`.",
    remedy="Cover the resource in the queue, or take it out of the run's resources; the message says what would help.",
)
def resource_uncovered(scene: Scene) -> Iterator[Violation]:
    """The queue covers everything the pods request; Kueue never admits a pod that requests anything else."""
    yield from _violations(scene, ("uncovered",))


@Rule(
    id="never-fits",
    severity="error",
    summary=(
        "Kueue would not admit the run on an idle cluster either, with everything that the cohort lends: no flavor "
        "has enough for the pods of one role beside those of the roles before it, or none is of nodes that they "
        "select and tolerate."
    ),
    details=(
        "This is Kueue's own calculation ([0009](decisions/0009-admission-verdict.md)), about quota; nodes may be "
        "too small all the same."
    ),
    example="1 master and 4 workers with `cpu: 500m` each on a queue with `nominalQuota: 2`.",
    remedy=(
        "The message names up to three changes that have been tried and help: another queue of the namespace, more "
        "quota, fewer or smaller pods, other nodes."
    ),
)
def never_fits(scene: Scene) -> Iterator[Violation]:
    """The gang fits into what the queue has and may borrow, on flavors that its pods may stand on."""
    yield from _violations(scene, _OF_QUOTA)


def _violations(scene: Scene, causes: tuple[Cause, ...]) -> Iterator[Violation]:
    for verdict in scene.verdicts:
        for lack in verdict.lacks if verdict.outcome == "never fits" else ():
            if lack.cause in causes:
                yield Violation(lack.path or verdict.path, lack.message, remedy_of(verdict, lack))


def remedy_of(verdict: Verdict, lack: Lack) -> str:
    """What would help, as far as it was tried."""
    tried = "; or ".join(remedy.text for remedy in verdict.remedies)
    return tried or _OTHERWISE.get(lack.cause, "ask for less, or raise the queue's quota")


RULES: tuple[Check[Scene], ...] = (resource_uncovered, never_fits)
