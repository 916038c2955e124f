"""Whether a run can ever be admitted by its queue: quota and flavors, on an idle cluster."""

from collections.abc import Iterator, Mapping

from trainstack.kueue.verdict import Cause, Reason, Verdict
from trainstack.preflight.rule import Check, Rule, Violation
from trainstack.preflight.rule_context import Scene

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
    summary="The pods of a run request a resource that the cluster queue does not cover.",
    details=(
        "Kueue never admits them. A limit without a request counts as a request, and so does a request of 0. With "
        "`--cluster` the rule also looks at queues of other owners."
    ),
    change="""
        trainstack:workloads:
          runs:
            - {name: digits, resources: {limits: {nvidia.com/gpu: 1}}}
    """,
    remedy=(
        "Cover the resource in the queue, or remove it from the run's resources. The message names the changes that "
        "help."
    ),
    formerly=("never-admitted",),
)
def resource_uncovered(scene: Scene) -> Iterator[Violation]:
    yield from _violations(scene, ("uncovered",))


@Rule(
    id="never-fits",
    severity="error",
    summary="Kueue would not admit the run even on an idle cluster, with everything that the cohort lends.",
    details=(
        "No flavor has enough quota for the pods of one role beside those of the roles before it, or the pods do "
        "not select and tolerate the nodes of any flavor. The rule repeats Kueue's own calculation of quota "
        "([0009](decisions/0009-admission-verdict.md)); nodes may still be too small. With `--cluster` the rule "
        "also uses what only the cluster knows: queues of other owners, LimitRanges, labels of namespaces, the "
        "configuration of Kueue."
    ),
    change="""
        trainstack:workloads:
          runs:
            - {name: digits, roles: {Worker: {replicas: 9}}}
    """,
    remedy=(
        "Make one of the changes in the message. It names up to three that were tried and help: another queue of "
        "the namespace, more quota, fewer or smaller pods, other nodes."
    ),
    formerly=("never-admitted",),
)
def never_fits(scene: Scene) -> Iterator[Violation]:
    yield from _violations(scene, _OF_QUOTA)


def _violations(scene: Scene, causes: tuple[Cause, ...]) -> Iterator[Violation]:
    for verdict in scene.verdicts:
        for reason in verdict.reasons if verdict.outcome == "never fits" else ():
            if reason.cause in causes:
                yield Violation(reason.path or verdict.path, reason.message, remedy_of(verdict, reason))


def remedy_of(verdict: Verdict, reason: Reason) -> str:
    """What would help, as far as it was tried."""
    tried = "; or ".join(remedy.text for remedy in verdict.remedies)
    return tried or _OTHERWISE.get(reason.cause, "ask for less, or raise the queue's quota")


RULES: tuple[Check[Scene], ...] = (resource_uncovered, never_fits)
