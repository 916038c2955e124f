"""The port against the cases of Kueue's own unit tests: flavors, preemption targets, and scheduling cycles.

A test asks several questions, in an order that may differ from run to run, so answers are listed by test.
"""

from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.admission.tables.cases import Case, cases
from tests.admission.tables.compare import Answer, compared
from tests.admission.tables.dump import copy_with_calls, dumps
from trainstack.dev.toolchain.errors import ToolchainError

TESTS = {
    ("TestAssignFlavors", "assignment"): 57,
    ("TestDeletedFlavors", "assignment"): 2,
    ("TestFIFOClusterQueue", "head"): 1,
    ("TestFairPreemptions", "targets"): 30,
    ("TestHeads", "head"): 3,
    ("TestHierarchical", "assignment"): 2,
    ("TestHierarchicalPreemptions", "targets"): 30,
    ("TestLastSchedulingContext", "assignment"): 12,
    ("TestLastSchedulingContext", "cycle"): 12,
    ("TestLastSchedulingContext", "head"): 12,
    ("TestLastSchedulingContext", "targets"): 6,
    ("TestPreemption", "targets"): 72,
    ("TestReclaimBeforePriorityPreemption", "assignment"): 6,
    ("TestSchedule", "assignment"): 122,
    ("TestSchedule", "cycle"): 128,
    ("TestSchedule", "head"): 128,
    ("TestSchedule", "targets"): 50,
    ("TestStrictFIFO", "head"): 5,
}
"""How many tests ask each question, by Go's test function."""

_FAIR = "TestSchedule/multiple_preemptions_within_cq_when_fair_sharing_WorkloadRequestUseMergePatch_enabled:"
DIFFERENT = dict.fromkeys(
    (f"{_FAIR}_false", f"{_FAIR}_true"),
    "the API server sets reclaimWithinCohort to Never; without it, Kueue's queue may preempt while it borrows",
)
"""Tests that Kueue and the port answer differently, and why the port is right for a cluster."""

_GATE = "feature gate ElasticJobsViaWorkloadSlices=true"
UNKNOWN = {
    f"Kueue runs with {_GATE}: the replacement of workload slices is not calculated": {
        "TestAssignFlavors/workload_slice_preemption_does_not_fit_in_the_original_workload_resource_flavor",
        "TestAssignFlavors/workload_slice_preemption_fits_in_the_original_workload_resource_flavor",
        "TestSchedule/workload-slice_fits_in_single_clusterQueue_WorkloadRequestUseMergePatch_enabled:_false",
        "TestSchedule/workload-slice_fits_in_single_clusterQueue_WorkloadRequestUseMergePatch_enabled:_true",
    },
}
"""What the port does not calculate, and the tests that depend on it."""


@pytest.fixture(scope="module")
def answers() -> list[tuple[Case, Answer]]:
    return [(case, compared(case)) for file in dumps().values() for case in cases(file)]


def test_kueues_tests_ask_all_questions(answers: list[tuple[Case, Answer]]) -> None:
    asked = {(case.test, case.question) for case, _ in answers}
    assert Counter((test.partition("/")[0], question) for test, question in asked) == TESTS


def test_the_port_answers_as_kueue_does(answers: list[tuple[Case, Answer]]) -> None:
    wrong = [(case.test, answer.difference) for case, answer in answers if answer.difference and not answer.unknown]
    unlisted = [f"{test}: {difference}" for test, difference in wrong if test not in DIFFERENT]
    assert not unlisted, "\n".join(unlisted)
    assert {test for test, _ in wrong} == DIFFERENT.keys(), "the others are equal now"


def test_what_the_port_does_not_calculate_is_listed(answers: list[tuple[Case, Answer]]) -> None:
    found = defaultdict(set)
    for case, answer in answers:
        for reason in answer.unknown:
            found[reason].add(case.test)
    assert found == UNKNOWN


def test_a_release_with_other_functions_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "kueue@v9" / "pkg" / "util" / "testing" / "context.go"
    file.parent.mkdir(parents=True)
    file.write_text("import (\n)\n")
    with pytest.raises(ToolchainError, match=r"context\.go of kueue@v9 has 0 times the text .*: adapt INSERTIONS"):
        copy_with_calls(tmp_path / "kueue@v9", tmp_path / "copy")
