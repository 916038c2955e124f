"""Verdicts as text and as plain data."""

import json

from trainstack.kueue.format import as_data, summary, verdict_lines
from trainstack.kueue.verdict import PodSetAdmission, Reason, Remedy, Verdict


def make_verdict(name: str = "train", **changes: object) -> Verdict:
    """Return a verdict on a run that fits on one flavor."""
    base = {
        "name": name,
        "namespace": "research",
        "queue": "research",
        "path": f"workloads.runs[{name}]",
        "cluster_queue": "lab",
        "outcome": "fits",
        "assigned": (PodSetAdmission("main", 1, {"cpu": "a100", "nvidia.com/gpu": "a100"}),),
        "usage": {("a100", "cpu"): 1500, ("a100", "nvidia.com/gpu"): 4},
        **changes,
    }
    return Verdict(**base)  # type: ignore[arg-type]


GANG = (PodSetAdmission("master", 1, {"cpu": "cpu"}), PodSetAdmission("worker", 3, {"cpu": "cpu", "gpu": "a100"}))


def test_the_summary_of_a_run_that_fits() -> None:
    """It has the flavors, the borrowed quota, the preempted workloads and the admission checks."""
    assert summary(make_verdict()) == "fits: on a100"
    verdict = make_verdict(
        outcome="fits by preempting",
        assigned=GANG,
        borrowed={("a100", "gpu"): 2, ("a100", "cpu"): 500, ("cpu", "cpu"): 1000},
        preempts=tuple(f"ns/w{number}" for number in range(6)),
        checks=("budget",),
    )
    assert summary(verdict) == (
        "fits by preempting: 1 master on cpu, 3 worker on cpu and a100; borrows 2 gpu and 0.5 cpu on a100, 1 cpu on "
        "cpu; preempts ns/w0, ns/w1, ns/w2, ns/w3 and 2 more; then admission check budget"
    )


def test_the_summary_of_a_run_that_uses_no_quota_says_so() -> None:
    """Without any request there is no flavor either."""
    why = "uses no quota, because its pods request nothing that Kueue counts"
    assert summary(make_verdict(assigned=(PodSetAdmission("main", 1, {}),), usage={})) == f"fits: on no flavor; {why}"
    of_nothing = make_verdict(assigned=(PodSetAdmission("main", 1, {"cpu": "a100"}),), usage={("a100", "cpu"): 0})
    assert summary(of_nothing) == f"fits: on a100; {why}"


def test_the_summary_of_a_run_that_never_fits() -> None:
    """It has all reasons, and the remedies as alternatives."""
    reasons = (Reason("quota", "too little", "p"), Reason("taint", "kept away", "p"))
    remedies = (Remedy("ask for less", (), "fits"), Remedy("raise it", (), "fits"))
    verdict = make_verdict(outcome="never fits", assigned=(), reasons=reasons, remedies=remedies)
    assert summary(verdict) == "never fits: too little; kept away; what would help: ask for less; or raise it"


def test_runs_with_the_same_summary_share_a_line() -> None:
    """The lines have the order of their first runs."""
    verdicts = [make_verdict(f"t{number}") for number in range(6)]
    verdicts.insert(1, make_verdict("big", outcome="waits", assigned=(), reasons=(Reason("in-use", "in use", "p"),)))
    assert verdict_lines(verdicts) == ["t0, t1, t2, t3 and 2 more: fits: on a100", "big: waits: in use"]


def test_amounts_are_quantities_for_programs() -> None:
    """The quantities have Kubernetes' format, so that they can be parsed again."""
    reason = Reason("quota", "m", "p", resource="memory", missing=3 * 2**30)
    data = as_data(make_verdict(borrowed={("a100", "cpu"): 500}, reasons=(reason, Reason("taint", "m", "p"))))
    assert data["usage"] == [
        {"flavor": "a100", "resource": "cpu", "amount": "1500m"},
        {"flavor": "a100", "resource": "nvidia.com/gpu", "amount": "4"},
    ]
    assert data["borrowed"] == [{"flavor": "a100", "resource": "cpu", "amount": "500m"}]
    assert [reason["missing"] for reason in data["lacks"]] == ["3Gi", ""]
    assert json.loads(json.dumps(data))["assigned"][0]["flavors"]["cpu"] == "a100"
