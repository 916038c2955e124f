"""Whether a run can ever be admitted by its queue: quota and flavors, on an idle cluster."""

from collections.abc import Iterator, Mapping

from checks.admission.verdict import Cause, Lack, Verdict
from checks.finding import Finding
from checks.scene import Rule, Scene

_OF_QUOTA: tuple[Cause, ...] = ("quota", "taint", "affinity", "topology")
"""What other rules do not report: they find what is missing, closed or on hold, and what the API server refuses."""

_OTHERWISE: Mapping[Cause, str] = {
    "affinity": "let its pods select and tolerate the nodes of one of the queue's flavors",
    "pod-refused": "let the requests be within the limits",
    "taint": "let its pods select and tolerate the nodes of one of the queue's flavors",
    "topology": "name a queue whose flavors have a topology where the pods ask for one, and else one whose have none",
}
"""What is said where nothing that was tried helps."""


def resource_uncovered(scene: Scene) -> Iterator[Finding]:
    """The queue covers everything the pods request; Kueue never admits a pod that requests anything else."""
    yield from _findings(scene, "resource-uncovered", ("uncovered",))


def never_fits(scene: Scene) -> Iterator[Finding]:
    """The gang fits into what the queue has and may borrow, on flavors that its pods may stand on."""
    yield from _findings(scene, "never-fits", _OF_QUOTA)


def _findings(scene: Scene, rule: str, causes: tuple[Cause, ...]) -> Iterator[Finding]:
    for verdict in scene.verdicts:
        for lack in verdict.lacks if verdict.outcome == "never fits" else ():
            if lack.cause in causes:
                yield Finding(rule, "error", lack.path or verdict.path, lack.message, remedy_of(verdict, lack))


def remedy_of(verdict: Verdict, lack: Lack) -> str:
    """What would help, as far as it was tried."""
    tried = "; or ".join(remedy.text for remedy in verdict.remedies)
    return tried or _OTHERWISE.get(lack.cause, "ask for less, or raise the queue's quota")


RULES: tuple[Rule, ...] = (resource_uncovered, never_fits)
