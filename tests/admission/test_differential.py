"""The engine's verdicts against the real Kueue: what is admitted, on which flavors, and whom it evicts.

TRAINSTACK_ADMISSION_SEED repeats the cases of a seed, TRAINSTACK_ADMISSION_CASES says how many there are to be.
"""

import os
from collections import Counter

import hypothesis
import pytest
from hypothesis import Phase

from tests.admission import differential
from tests.admission.bench import Bench
from tests.admission.cases import NAMESPACE, PREFIX, UNTIMED, Body, Case, cases, drawn, made
from tests.admission.differential import Answer, expected


def _group(**quotas: str) -> list[Body]:
    resources = [{"name": name, "nominalQuota": amount} for name, amount in quotas.items()]
    return [{"coveredResources": list(quotas), "flavors": [{"name": f"{PREFIX}f0", "resources": resources}]}]


def _pod(name: str, queue: str, **requests: str) -> Body:
    container = {"name": "one", "image": "none", "resources": {"requests": requests}}
    pods = {"name": "p0", "count": 1, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    return made("Workload", f"{PREFIX}{name}", {"queueName": f"{PREFIX}{queue}", "podSets": [pods]}, NAMESPACE)


HIDDEN = Case(
    objects=(
        made("ResourceFlavor", f"{PREFIX}f0", {}),
        made(
            "ClusterQueue",
            f"{PREFIX}q0",
            {
                "namespaceSelector": {},
                "cohortName": f"{PREFIX}c0",
                "resourceGroups": _group(cpu="0", memory="2Gi"),
                "preemption": {"reclaimWithinCohort": "Any"},
                "flavorFungibility": {
                    "whenCanBorrow": "TryNextFlavor",
                    "whenCanPreempt": "TryNextFlavor",
                    "preference": "BorrowingOverPreemption",
                },
            },
        ),
        made(
            "ClusterQueue",
            f"{PREFIX}q1",
            {
                "namespaceSelector": {},
                "cohortName": f"{PREFIX}c0",
                "resourceGroups": _group(cpu="4", memory="2Gi"),
            },
        ),
        made("LocalQueue", f"{PREFIX}l0", {"clusterQueue": f"{PREFIX}q0"}, NAMESPACE),
        made("LocalQueue", f"{PREFIX}l1", {"clusterQueue": f"{PREFIX}q1"}, NAMESPACE),
    ),
    before=(_pod("w0", "l1", memory="4Gi"),),
    asked=_pod("asked", "l0", cpu="1", memory="1Gi"),
)
"""A flavor of which one resource is to be borrowed, and the other is lent: Kueue takes it for one that fits, and then
skips the workload for ever. See `Attempt.skipped`."""
CASES = int(os.environ.get("TRAINSTACK_ADMISSION_CASES", "200"))
SHRINKS = 40
"""Attempts at making a disagreement smaller; each takes some seconds."""


def test_the_engine_and_kueue_agree(bench: Bench, seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    """On every case of a fresh seed; a disagreement is told as small as it can be made."""
    with capsys.disabled():
        print(f"\nadmission: TRAINSTACK_ADMISSION_SEED={seed}, {CASES} cases")
    wanted = [HIDDEN, *drawn(seed, CASES - 1)]
    assert len(wanted) == CASES
    answers = {repr(case): answer for case, answer in zip(wanted, differential.answers(bench, wanted), strict=True)}
    with capsys.disabled():
        print(f"admission: {', '.join(f'{n} {kind}' for kind, n in Counter(map(_kind, answers.values())).items())}")
    wrong = [case for case in wanted if answers[repr(case)] != expected(case)]
    if wrong:
        _make_smaller(bench, seed, answers)
    assert not wrong, f"TRAINSTACK_ADMISSION_SEED={seed}: {wrong[0]!r}"


def _kind(answer: Answer) -> str:
    if answer.evicts:
        return "evict others"
    if answer.asked is not None:
        return "are admitted"
    return "wait" if answer.alone is not None else "are never admitted"


def _make_smaller(bench: Bench, seed: int, answers: dict[str, Answer]) -> None:
    """Draw the same cases again, which are answered already, and let hypothesis shrink the first disagreement."""
    left, found = SHRINKS, False

    @hypothesis.seed(seed)
    @hypothesis.settings(
        database=None,
        max_examples=8 * CASES,
        phases=[Phase.generate, Phase.shrink],
        report_multiple_bugs=False,
        **UNTIMED,
    )
    @hypothesis.given(cases())
    def agree(case: Case) -> None:
        nonlocal left, found
        if repr(case) not in answers:
            # One that was left out when the cases were drawn, or a smaller one.
            if not found or left == 0:
                return
            left -= 1
            (answers[repr(case)],) = differential.answers(bench, [case])
        found = found or answers[repr(case)] != expected(case)
        assert answers[repr(case)] == expected(case), f"TRAINSTACK_ADMISSION_SEED={seed}: {case!r}"

    agree()
