"""The engine's verdicts against the real Kueue: what is admitted, on which flavors, and whom it evicts.

TRAINSTACK_ADMISSION_SEED repeats the cases of a seed, TRAINSTACK_ADMISSION_CASES sets their number.
"""

import itertools
import os
from collections import Counter
from collections.abc import Sequence

import pytest

from tests.admission import differential
from tests.admission.bench import Bench
from tests.admission.cases import NAMESPACE, PREFIX, Body, Case, draw_case, draw_cases, make_object
from tests.admission.choices import Choices, shrink
from tests.admission.differential import Answer, simulated_answer


def _group(**quotas: str) -> list[Body]:
    resources = [{"name": name, "nominalQuota": amount} for name, amount in quotas.items()]
    return [{"coveredResources": list(quotas), "flavors": [{"name": f"{PREFIX}f0", "resources": resources}]}]


def _pod(name: str, queue: str, **requests: str) -> Body:
    container = {"name": "one", "image": "none", "resources": {"requests": requests}}
    pods = {"name": "p0", "count": 1, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    return make_object("Workload", f"{PREFIX}{name}", {"queueName": f"{PREFIX}{queue}", "podSets": [pods]}, NAMESPACE)


HIDDEN = Case(
    objects=(
        make_object("ResourceFlavor", f"{PREFIX}f0", {}),
        make_object(
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
        make_object(
            "ClusterQueue",
            f"{PREFIX}q1",
            {
                "namespaceSelector": {},
                "cohortName": f"{PREFIX}c0",
                "resourceGroups": _group(cpu="4", memory="2Gi"),
            },
        ),
        make_object("LocalQueue", f"{PREFIX}l0", {"clusterQueue": f"{PREFIX}q0"}, NAMESPACE),
        make_object("LocalQueue", f"{PREFIX}l1", {"clusterQueue": f"{PREFIX}q1"}, NAMESPACE),
    ),
    before=(_pod("w0", "l1", memory="4Gi"),),
    candidate=_pod("asked", "l0", cpu="1", memory="1Gi"),
)
"""A flavor of which one resource is to be borrowed, and the other is lent: Kueue takes it for one that fits, and then
skips the workload for ever. See `Attempt.is_skipped`."""
CASES = int(os.environ.get("TRAINSTACK_ADMISSION_CASES", "20"))
ROUNDS = 20
"""Of making a disagreement smaller; each takes half a minute."""


def test_the_engine_and_kueue_agree(bench: Bench, seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    """On every case of a fresh seed; a disagreement is minimized before it is reported."""
    with capsys.disabled():
        print(f"\nadmission: TRAINSTACK_ADMISSION_SEED={seed}, {CASES} cases")
    wanted = [HIDDEN, *draw_cases(seed, CASES - 1)]
    assert len(wanted) == CASES
    answers = {
        repr(case): answer for case, answer in zip(wanted, differential.kueue_answers(bench, wanted), strict=True)
    }
    with capsys.disabled():
        print(f"admission: {', '.join(f'{n} {kind}' for kind, n in Counter(map(_kind, answers.values())).items())}")
    wrong = [case for case in wanted if answers[repr(case)] != simulated_answer(case)]
    if wrong:
        smaller = wrong[0] if wrong[0] is HIDDEN else _smaller(bench, seed, wrong[0])
        pytest.fail(f"TRAINSTACK_ADMISSION_SEED={seed}: {smaller!r}")


def _kind(answer: Answer) -> str:
    if answer.evicts:
        return "evict others"
    if answer.candidate is not None:
        return "are admitted"
    return "wait" if answer.alone is not None else "are never admitted"


def _smaller(bench: Bench, seed: int, wrong: Case) -> Case:
    """Minimize the case while Kueue disagrees."""
    index = next(index for index in itertools.count() if draw_case(Choices.of_seed(seed, index)) == wrong)
    choices = Choices.of_seed(seed, index)
    draw_case(choices)

    def fails(steps: Sequence[Sequence[int]]) -> list[bool]:
        drawn = [draw_case(Choices.replay(made)) for made in steps]
        tried = [case for case in drawn if case is not None]
        found = {
            repr(case): answer for case, answer in zip(tried, differential.kueue_answers(bench, tried), strict=True)
        }
        return [case is not None and found[repr(case)] != simulated_answer(case) for case in drawn]

    case = draw_case(Choices.replay(shrink(choices.taken, fails, ROUNDS)))
    assert case is not None
    return case
