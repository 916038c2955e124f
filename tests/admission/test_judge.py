"""The engine's verdicts against Kueue's own code, without a cluster: thousands of drawn cases in seconds.

TRAINSTACK_ADMISSION_SEED repeats the cases of a seed, TRAINSTACK_ADMISSION_JUDGED sets how many there are.
"""

import itertools
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from tests.admission.cases import NAMESPACE, PREFIX, Body, Case, draw_case, make_object
from tests.admission.choices import Choices, shrink
from tests.admission.judging import (
    PROGRAM_GROUPS,
    START,
    Answer,
    Question,
    answers,
    configuration,
    disagreements,
    questions,
    timestamp,
    with_huge_quotas,
    with_numbers,
    with_pod_level_resources,
    with_topology,
    with_weights,
)
from tests.admission.test_differential import HIDDEN
from trainstack.kueue.differences import RELEASES
from trainstack.toolchain import tools

CASES = int(os.environ.get("TRAINSTACK_ADMISSION_JUDGED", "2000"))
QUICK_CASES = 150
"""Cases of each release; the slow tests have CASES."""
ROUNDS = 200
"""Of making a disagreement smaller; each takes a second."""


@pytest.fixture(scope="module", autouse=True)
def program() -> None:
    """Kueue's code, built with Go's cache of the cluster's programs."""
    tools.ensure([*PROGRAM_GROUPS.values()])


def draw_questions(seed: int, release: str) -> Iterator[tuple[list[int], list[Question]]]:
    """Return the cases of a seed: their choices and their questions."""
    for index in itertools.count():
        choices = Choices.of_seed(seed, index)
        found = questions_of(choices, release)
        if found:
            yield choices.taken, found


def questions_of(choices: Choices, release: str) -> list[Question]:
    """Return the questions of a case, or none if the case is excluded."""
    case = draw_case(choices, configuration(choices, release), release)
    if case is not None and "fairSharing" in case.configuration:
        case = with_weights(case, choices)
    if case is not None and choices.one_in(8):
        case = with_pod_level_resources(case, choices)
    if case is not None and RELEASES[release].saturates and choices.one_in(12):
        case = with_huge_quotas(case, choices)
    if case is not None and choices.one_in(8):
        case = with_numbers(case, choices)
    if case is not None and choices.one_in(6):
        case = with_topology(case, choices)
    return [] if case is None else questions(case, choices)


@pytest.mark.parametrize(
    ("release", "count"),
    [
        *((release, QUICK_CASES) for release in PROGRAM_GROUPS),
        *(pytest.param(release, CASES, marks=pytest.mark.slow) for release in PROGRAM_GROUPS),
    ],
)
def test_the_engine_and_kueues_code_agree(
    release: str, count: int, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """On every drawn case; a disagreement is minimized before it is reported."""
    cases = list(itertools.islice(draw_questions(seed, release), count))
    asked = [question for _, case_questions in cases for question in case_questions]
    found = answers(asked)
    modes = Counter("panic" if answer is None else answer.mode for answer in found)
    own = [question.simulated_answer() for question in asked]
    unknown = Counter(filter(None, (question.unknown_reason() for question in asked)))
    with capsys.disabled():
        counts = ", ".join(f"{number} {mode}" for mode, number in sorted(modes.items()))
        drawn_cases = f"Kueue {release}, {count} cases, {len(asked)} answers"
        print(f"\nadmission: TRAINSTACK_ADMISSION_SEED={seed}, {drawn_cases}: {counts}")
        print("\n".join(f"  unknown: {number} {why}" for why, number in unknown.most_common()))
    # A series in which nothing is preempted or refused would prove nothing.
    assert all(modes[mode] * 50 > count for mode in ("Fit", "NoFit", "Preempt"))
    assert {question.case.release for question in asked} == {release}
    # Topologies and few others are unknown.
    assert own.count(None) * 20 < len(own)
    wrong = {
        id(question)
        for question, engine, answer in zip(asked, own, found, strict=True)
        if answer is not None and engine not in (None, answer)
    }
    for made, case_questions in cases:
        if any(id(question) in wrong for question in case_questions):
            _fail(seed, release, made)


def _fail(seed: int, release: str, taken: Sequence[int]) -> None:
    def fails(steps: Sequence[Sequence[int]]) -> list[bool]:
        questions_by_step = [questions_of(Choices.replay(step), release) for step in steps]
        wrong = {
            id(question)
            for question, _, _ in disagreements(
                [question for case_questions in questions_by_step for question in case_questions]
            )
        }
        return [any(id(question) in wrong for question in case_questions) for case_questions in questions_by_step]

    smallest = questions_of(Choices.replay(shrink(taken, fails, ROUNDS)), release)
    question, engine, kueue = disagreements(smallest)[0]
    case = json.dumps([question.input()])
    pytest.fail(f"TRAINSTACK_ADMISSION_SEED={seed}\nKueue {release}\nengine: {engine}\nKueue: {kueue}\n{case}")


def test_what_a_running_kueue_skips_its_code_skips() -> None:
    """Kueue considers a flavor to fit, and then always skips the workload."""
    asked = questions(HIDDEN, Choices.replay(()))
    assert [answer and answer.mode for answer in answers(asked)] == ["Fit", "Fit", "NoFit", "NoFit"]
    assert not disagreements(asked)


def _wide_question(release: str, **gates: bool) -> Question:
    """Ask about 8 roles, 3 flavors and 3 resources: Kueue's message exceeds the text of an event."""
    resources = ("cpu", "memory", "nvidia.com/gpu")
    flavors = [f"{PREFIX}f{index}" for index in range(3)]
    quotas = [
        {"name": name, "resources": [{"name": resource, "nominalQuota": quota} for resource in resources]}
        for name, quota in zip(flavors, ("8", "0", "0"), strict=True)
    ]

    def body(name: str, priority: int) -> Body:
        container = {"name": "one", "image": "none", "resources": {"requests": dict.fromkeys(resources, "1")}}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        pod_sets = [{"name": f"role{index}", "count": 1, "template": template} for index in range(8)]
        spec = {"queueName": f"{PREFIX}l0", "priority": priority, "podSets": pod_sets}
        return make_object("Workload", f"{PREFIX}{name}", spec, NAMESPACE)

    queue = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": list(resources), "flavors": quotas}],
        "preemption": {"withinClusterQueue": "LowerPriority"},
    }
    case = Case(
        objects=(
            *(make_object("ResourceFlavor", name, {}) for name in flavors),
            make_object("ClusterQueue", f"{PREFIX}q0", queue),
            make_object("LocalQueue", f"{PREFIX}l0", {"clusterQueue": f"{PREFIX}q0"}, NAMESPACE),
        ),
        before=(body("low", 0),),
        candidate=body("asked", 100),
        configuration={"featureGates": gates} if gates else {},
        release=release,
    )
    *_, question = (asked for asked in questions(case, Choices.replay(())) if asked.admitted)
    return question


@pytest.mark.parametrize("release", PROGRAM_GROUPS)
def test_a_preemption_is_recognized_whatever_the_length_of_its_message(release: str) -> None:
    """The answers are also right if the eviction had begun before, which the end of the message alone says."""
    question = _wide_question(release)
    (low,) = question.admitted
    evicted = {"type": "Evicted", "status": "True", "reason": "Preempted", "message": ""}
    conditions = [*low["status"]["conditions"], {**evicted, "lastTransitionTime": timestamp(START)}]
    ending = replace(question, admitted=({**low, "status": {**low["status"], "conditions": conditions}},))
    key = f"{NAMESPACE}/{PREFIX}low"
    assert answers([question, ending]) == [Answer("Preempt", preempts=frozenset({key})), Answer("Preempt")]
    assert not disagreements([question, ending])


def test_the_reason_of_an_event_may_depend_on_a_gate() -> None:
    """The program has an answer also where the reason of a refusal is not `Pending`."""
    question = _wide_question("v0.19", UnadmittedWorkloadsObservability=True)
    spec = {**question.case.candidate["spec"], "priority": 0}
    refused = replace(question, case=replace(question.case, candidate={**question.case.candidate, "spec": spec}))
    asked = [question, refused, replace(refused, admitted=())]
    assert [answer and answer.mode for answer in answers(asked)] == ["Preempt", "NoFit", "Fit"]
