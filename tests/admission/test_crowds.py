"""The final admissions and preemptions of many concurrent Jobs, compared with the real Kueue.

TRAINSTACK_ADMISSION_SEED repeats the crowds of a seed, TRAINSTACK_ADMISSION_CROWDS sets their number.
"""

import os
from itertools import pairwise

import pytest

from tests.admission.bench import Bench
from tests.admission.crowd_observation import admitted_by_kueue
from tests.admission.crowds import drawn_crowds, outcomes

CROWDS = int(os.environ.get("TRAINSTACK_ADMISSION_CROWDS", "3"))


def test_the_same_jobs_are_admitted_in_the_end(bench: Bench, seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    """This applies after all queues open at once, and after each later Job, which may evict others."""
    crowds = drawn_crowds(seed, CROWDS)
    assert len(crowds) == CROWDS
    wanted = [outcomes(crowd) for crowd in crowds]
    jobs = sum(len(crowd.jobs) + len(crowd.later) for crowd in crowds)
    evicted = sum(len(before.keys() - after.keys()) for admissions in wanted for before, after in pairwise(admissions))
    with capsys.disabled():
        print(f"\nadmission: TRAINSTACK_ADMISSION_SEED={seed}, {CROWDS} crowds of {jobs} Jobs, {evicted} are evicted")
    found = admitted_by_kueue(bench, crowds)
    wrong = [index for index, admissions in enumerate(wanted) if found[index] != admissions]
    assert not wrong, f"TRAINSTACK_ADMISSION_SEED={seed}: {found[wrong[0]]} of {crowds[wrong[0]]!r}"
