"""The port against the cases of Kueue's own unit tests: flavors, preemption targets, and scheduling cycles.

A test asks several questions, in an order that may differ from run to run, so answers are listed by test.
"""

from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.admission.tables.cases import Case, cases
from tests.admission.tables.compare import Answer, compared
from tests.admission.tables.dump import copy_with_calls, dumps
from trainstack.kueue.differences import V15
from trainstack.toolchain.errors import ToolchainError

TESTS: dict[str, dict[tuple[str, str], int]] = {
    "v0.14": {
        ("TestAssignFlavors", "assignment"): 49,
        ("TestDeletedFlavors", "assignment"): 2,
        ("TestFIFOClusterQueue", "head"): 1,
        ("TestFairPreemptions", "targets"): 30,
        ("TestHeads", "head"): 3,
        ("TestHierarchical", "assignment"): 2,
        ("TestHierarchicalPreemptions", "targets"): 15,
        ("TestLastSchedulingContext", "assignment"): 6,
        ("TestLastSchedulingContext", "cycle"): 6,
        ("TestLastSchedulingContext", "head"): 6,
        ("TestLastSchedulingContext", "targets"): 3,
        ("TestPreemption", "targets"): 36,
        ("TestReclaimBeforePriorityPreemption", "assignment"): 5,
        ("TestSchedule", "assignment"): 60,
        ("TestSchedule", "cycle"): 63,
        ("TestSchedule", "head"): 63,
        ("TestSchedule", "targets"): 25,
        ("TestStrictFIFO", "head"): 5,
    },
    "v0.15": {
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
    },
    "v0.16": {
        ("TestAssignFlavors", "assignment"): 56,
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
        ("TestSchedule", "assignment"): 132,
        ("TestSchedule", "cycle"): 138,
        ("TestSchedule", "head"): 138,
        ("TestSchedule", "targets"): 52,
        ("TestStrictFIFO", "head"): 5,
    },
    "v0.17": {
        ("TestAssignFlavors", "assignment"): 56,
        ("TestDeletedFlavors", "assignment"): 2,
        ("TestFIFOClusterQueue", "head"): 1,
        ("TestFairPreemptions", "targets"): 31,
        ("TestHeads", "head"): 3,
        ("TestHierarchical", "assignment"): 2,
        ("TestHierarchicalPreemptions", "targets"): 30,
        ("TestLastSchedulingContext", "assignment"): 12,
        ("TestLastSchedulingContext", "cycle"): 12,
        ("TestLastSchedulingContext", "head"): 12,
        ("TestLastSchedulingContext", "targets"): 6,
        ("TestPreemption", "targets"): 72,
        ("TestReclaimBeforePriorityPreemption", "assignment"): 6,
        ("TestSchedule", "assignment"): 148,
        ("TestSchedule", "cycle"): 154,
        ("TestSchedule", "head"): 154,
        ("TestSchedule", "targets"): 58,
        ("TestStrictFIFO", "head"): 5,
    },
}
"""How many tests ask each question, by Go's test function and minor release."""

_DEFAULT = "the API server sets reclaimWithinCohort to Never; without it, Kueue's queue may preempt while it borrows"
_FAIR = "TestSchedule/multiple_preemptions_within_cq_when_fair_sharing"
_PATCHED = "WorkloadRequestUseMergePatch_enabled:"
DIFFERENT: dict[str, dict[str, str]] = {
    "v0.14": {_FAIR: _DEFAULT, "TestSchedule/multiple_preemptions_skip_overlapping_preemption_targets": _DEFAULT},
    **{
        minor: {f"{_FAIR}_{_PATCHED}_{value}": _DEFAULT for value in ("false", "true")}
        for minor in ("v0.15", "v0.16", "v0.17")
    },
}
"""Tests that Kueue and the port answer differently, and why the port is right for a cluster."""

_SLICES = (
    "Kueue runs with feature gate ElasticJobsViaWorkloadSlices=true: the replacement of workload slices is not"
    " calculated"
)
_OF_FLAVORS = {
    "TestAssignFlavors/workload_slice_preemption_does_not_fit_in_the_original_workload_resource_flavor",
    "TestAssignFlavors/workload_slice_preemption_fits_in_the_original_workload_resource_flavor",
}
_SLICE = "TestSchedule/workload-slice_fits_in_single_clusterQueue"
_OF_SLICES = {f"{_SLICE}_{_PATCHED}_{value}" for value in ("false", "true")}
_SINCE_V15 = {
    _SLICES: {*_OF_FLAVORS, *_OF_SLICES},
    "Workload sales/foo-2 sets annotation kueue.x-k8s.io/workload-slice-replacement-for: the replacement of workload "
    "slices is not calculated": _OF_SLICES,
}
_GATED = (
    "block_preemptions_and_signal_`BlockedOnPreemptionGates`_when_a_preemption_gate_is_present",
    "do_not_signal_`BlockedOnPreemptionGates`_when_a_preemption_gate_is_present,_but_the_workload_fits_without_preemption",
    "do_not_signal_`BlockedOnPreemptionGates`_when_a_preemption_gate_is_present,_but_the_workload_had_nothing_to_preempt",
)
UNKNOWN: dict[str, dict[str, set[str]]] = {
    "v0.14": {_SLICES: {*_OF_FLAVORS, _SLICE}},
    "v0.15": _SINCE_V15,
    "v0.16": _SINCE_V15,
    "v0.17": {
        **_SINCE_V15,
        "Kueue runs with feature gate MultiKueueOrchestratedPreemption=true: gates of preemption are not calculated": {
            f"TestSchedule/{name}_{_PATCHED}_{value}" for name in _GATED for value in ("false", "true")
        },
    },
}
"""What the port does not calculate, and the tests that depend on it."""


Answers = tuple[str, list[tuple[Case, Answer]]]
"""The release, and what its tests ask with the port's answers."""


@pytest.fixture(
    scope="module",
    params=[minor if minor == V15.minor else pytest.param(minor, marks=pytest.mark.slow) for minor in TESTS],
)
def answers(request: pytest.FixtureRequest) -> Answers:
    minor = request.param
    return minor, [(case, compared(case)) for file in dumps(minor).values() for case in cases(file, minor)]


def test_kueues_tests_ask_all_questions(answers: Answers) -> None:
    minor, found = answers
    asked = {(case.test, case.question) for case, _ in found}
    counts = Counter((test.partition("/")[0], question) for test, question in asked)
    assert counts == TESTS[minor]


def test_the_port_answers_as_kueue_does(answers: Answers) -> None:
    minor, found = answers
    wrong = [(case.test, answer.difference) for case, answer in found if answer.difference and not answer.unknown]
    unlisted = [f"{test}: {difference}" for test, difference in wrong if test not in DIFFERENT[minor]]
    assert not unlisted, "\n".join(unlisted)
    assert {test for test, _ in wrong} == DIFFERENT[minor].keys(), "the others are equal now"


def test_what_the_port_does_not_calculate_is_listed(answers: Answers) -> None:
    minor, all_answers = answers
    found = defaultdict(set)
    for case, answer in all_answers:
        for reason in answer.unknown:
            found[reason].add(case.test)
    assert found == UNKNOWN[minor]


def test_a_release_with_other_functions_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "kueue@v9" / "pkg" / "util" / "testing" / "context.go"
    file.parent.mkdir(parents=True)
    file.write_text("import (\n)\n")
    with pytest.raises(ToolchainError, match=r"context\.go of kueue@v9 has 0 times the text .*: adapt INSERTIONS"):
        copy_with_calls(V15.minor, tmp_path / "kueue@v9", tmp_path / "copy")
