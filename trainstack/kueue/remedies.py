"""Changes that make a run fit: each is applied and judged before it is suggested."""

from collections.abc import Iterator
from itertools import islice
from typing import Literal

from trainstack.kueue.candidate import Candidate
from trainstack.kueue.changes_of_queues import QueueChanges
from trainstack.kueue.changes_of_runs import RunChanges
from trainstack.kueue.model import Workload
from trainstack.kueue.verdict import Remedy, Verdict
from trainstack.kueue.what_if import WhatIf

MOST = 3


def remedies(what_if: WhatIf, workload: Workload, verdict: Verdict) -> tuple[Remedy, ...]:
    """Return the smallest changes that help, at most MOST."""
    # Several pod sets may lead to the same change.
    distinct = {candidate.text: candidate for candidate in _candidates(what_if, workload, verdict)}
    ordered = sorted(distinct.values(), key=lambda candidate: (candidate.size, candidate.text))
    helpful = (remedy for candidate in ordered if (remedy := _tried(what_if, workload, candidate)) is not None)
    return tuple(islice(helpful, MOST))


def _candidates(what_if: WhatIf, workload: Workload, verdict: Verdict) -> Iterator[Candidate]:
    of_run = RunChanges.of(what_if, workload)
    yield from of_run.other_queues()
    cq = what_if.idle.idle.cluster_queues.get(verdict.cluster_queue)
    if cq is None:
        return
    of_queue = QueueChanges.of(what_if, workload, cq)
    short = [reason for reason in verdict.reasons if reason.cause == "quota" and reason.resource]
    if short:
        yield from of_queue.more_quota(short)
        yield from of_run.fewer_pods(short)
        yield from of_run.smaller_pods(short)
    uncovered = [reason for reason in verdict.reasons if reason.cause == "uncovered"]
    if uncovered:
        yield from of_queue.covered(uncovered)
        yield from of_run.without(uncovered)
    for reason in verdict.reasons:
        if reason.cause in ("taint", "affinity"):
            yield from of_run.suited(cq, reason)
        elif reason.cause == "queue-closed":
            yield from of_queue.opened()


def _tried(what_if: WhatIf, workload: Workload, candidate: Candidate) -> Remedy | None:
    if candidate.queue is None:
        verdict = what_if.verdict(workload.path, candidate.changes)
    else:
        verdict = what_if.with_queue(candidate.queue).alone(workload)
    if verdict is None or verdict.outcome not in ("fits", "fits by borrowing"):
        return None
    changes_in: Literal["settings", "cluster"] = "settings" if candidate.queue is None else "cluster"
    return Remedy(candidate.text, candidate.changes, verdict.outcome, changes_in)
