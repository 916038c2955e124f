"""Changes that make a run fit: each is applied and judged before it is suggested."""

from collections.abc import Iterator
from itertools import islice
from typing import Literal

from trainstack.kueue.booking import contradictory_flavors
from trainstack.kueue.candidate import RemedyCandidate
from trainstack.kueue.changes_of_queues import QueueChanges
from trainstack.kueue.changes_of_runs import RunChanges
from trainstack.kueue.model import Workload
from trainstack.kueue.verdict import Remedy, Verdict
from trainstack.kueue.what_if import WhatIf

MAX_REMEDIES = 3


def remedies(what_if: WhatIf, workload: Workload, verdict: Verdict) -> tuple[Remedy, ...]:
    """Return the smallest changes that help, at most MOST."""
    # Several pod sets may lead to the same change.
    candidates_by_text = {candidate.text: candidate for candidate in _candidates(what_if, workload, verdict)}
    ordered_candidates = sorted(candidates_by_text.values(), key=lambda candidate: (candidate.size, candidate.text))
    helpful_remedies = (
        remedy
        for candidate in ordered_candidates
        if (remedy := _try_candidate(what_if, workload, candidate)) is not None
    )
    return tuple(islice(helpful_remedies, MAX_REMEDIES))


def _candidates(what_if: WhatIf, workload: Workload, verdict: Verdict) -> Iterator[RemedyCandidate]:
    run_changes = RunChanges.for_workload(what_if, workload)
    yield from run_changes.other_queues()
    cq = what_if.idle_simulator.idle_snapshot.cluster_queues.get(verdict.cluster_queue)
    if cq is None:
        return
    queue_changes = QueueChanges.for_workload(what_if, workload, cq)
    shortages = [reason for reason in verdict.reasons if reason.cause == "quota" and reason.resource]
    if shortages:
        yield from queue_changes.more_quota(shortages)
        yield from run_changes.fewer_pods(shortages)
        yield from run_changes.smaller_pods(shortages)
    uncovered_reasons = [reason for reason in verdict.reasons if reason.cause == "uncovered"]
    if uncovered_reasons:
        yield from queue_changes.wider_coverage(uncovered_reasons)
        yield from run_changes.fewer_resources(uncovered_reasons)
    for reason in verdict.reasons:
        if reason.cause in ("taint", "affinity"):
            yield from run_changes.access_to_flavor(cq, reason)
        elif reason.cause == "queue-closed":
            yield from queue_changes.namespace_admission()


def _try_candidate(what_if: WhatIf, workload: Workload, candidate: RemedyCandidate) -> Remedy | None:
    if candidate.queue is None:
        verdict = what_if.verdict(workload.path, candidate.changes)
    else:
        verdict = what_if.simulator_with_queue(candidate.queue).idle_verdict(workload)
    if verdict is None or verdict.outcome not in ("fits", "fits by borrowing"):
        return None
    if any(contradictory_flavors(what_if.model, verdict)):
        return None  # Its pods would wait for nodes that do not exist.
    changes_in: Literal["settings", "cluster"] = "settings" if candidate.queue is None else "cluster"
    return Remedy(candidate.text, candidate.changes, verdict.outcome, changes_in)
