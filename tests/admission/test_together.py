"""Verdicts in the present state against Kueue's own code, which has brought the state about.

TRAINSTACK_ADMISSION_SEED repeats the states of a seed, TRAINSTACK_ADMISSION_TOGETHER sets how many there are.
"""

import itertools
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from tests.admission.cases import NAMESPACE, PREFIX, Body, make_object
from tests.admission.choices import Choices, shrink
from tests.admission.judging import PROGRAM_GROUPS, START, timestamp
from tests.admission.together import Course, Present, courses, draw_present
from trainstack.toolchain import tools

STATES = int(os.environ.get("TRAINSTACK_ADMISSION_TOGETHER", "2000"))
QUICK_STATES = 40
"""States of each release; the slow tests have STATES."""
FREQUENT = ("Fit", "Wait", "several pending", "strict head")
RARE = ("Preempt", "evicting", "held up", "held up by repeated attempts")
"""Kinds of states; few states need not have the rare ones."""
ROUNDS = 100
"""Of making a disagreement smaller."""
RELEASES = tuple(release for release in PROGRAM_GROUPS if release != "v0.14")
"""v0.14 has no sticky workloads, and serves no API in which environments declare queues."""


@pytest.fixture(scope="module", autouse=True)
def program() -> None:
    """Kueue's code."""
    tools.ensure([PROGRAM_GROUPS[release] for release in RELEASES])


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    ("count", "kinds"), [(QUICK_STATES, FREQUENT), pytest.param(STATES, (*FREQUENT, *RARE), marks=pytest.mark.slow)]
)
def test_the_engine_and_kueues_code_agree_on_the_present_state(
    release: str, count: int, kinds: Sequence[str], seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """With several pending workloads, strict heads, preemptions in progress, and heads that are tried without end."""
    found = courses([draw_present(Choices.of_seed(seed, index), release) for index in range(count)])
    decided = [course for course in found if course is not None and course.own_decision is not None]
    numbers = Counter(kind for course in decided for kind in _kinds(course))
    with capsys.disabled():
        print(f"\nadmission: TRAINSTACK_ADMISSION_SEED={seed}, Kueue {release}, {count} states: ", end="")
        print(f"{len(decided)} decided: {', '.join(f'{number} {kind}' for kind, number in numbers.most_common())}")
    assert len(decided) * 10 > count * 9
    assert all(numbers[kind] * (20 if kind in FREQUENT else 200) > count for kind in kinds)
    for index, course in enumerate(found):
        if course is not None and course.own_decision not in (None, course.decision):
            _fail(seed, index, release)


def _kinds(course: Course) -> Iterator[str]:
    yield course.decision.mode
    strict = {queue.name for queue in (course.present.model.cluster_queues or {}).values() if queue.is_strict_fifo}
    local_queues = course.present.model.local_queues or {}
    if len(course.pending) > 1:
        yield "several pending"
    if any(admitted.is_evicted for admitted in course.admitted):
        yield "evicting"
    if any(
        workload.queue and local_queues[workload.namespace, workload.queue].cluster_queue in strict
        for workload in course.pending
    ):
        yield "strict head"
    for reason in course.verdict.reasons:
        if reason.cause == "blocked":
            yield "held up"
            if "every cycle" in reason.message:
                yield "held up by repeated attempts"


def _fail(seed: int, index: int, release: str) -> None:
    choices = Choices.of_seed(seed, index)
    draw_present(choices, release)

    def fails(steps: Sequence[Sequence[int]]) -> list[bool]:
        found = courses([draw_present(Choices.replay(step), release) for step in steps])
        return [course is not None and course.own_decision not in (None, course.decision) for course in found]

    smallest = draw_present(Choices.replay(shrink(choices.taken, fails, ROUNDS)), release)
    (course,) = courses([smallest])
    assert course is not None
    case = json.dumps([smallest.input])
    pytest.fail(
        f"TRAINSTACK_ADMISSION_SEED={seed}\nKueue {release}\nengine: {course.own_decision}\n"
        f"Kueue: {course.decision}\n{case}"
    )


def _queue(name: str, quotas: dict[str, int], cohort: str = "", **spec: object) -> list[Body]:
    flavors = [
        {"name": f"{PREFIX}{flavor}", "resources": [{"name": "cpu", "nominalQuota": str(number)}]}
        for flavor, number in quotas.items()
    ]
    body: Body = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}]}
    return [
        make_object("ClusterQueue", name, {**body, **({"cohortName": cohort} if cohort else {}), **spec}),
        make_object("LocalQueue", name, {"clusterQueue": name}, NAMESPACE),
    ]


_number = itertools.count()


def _workload(name: str, queue: str, *cpus: int, priority: int = 0) -> Body:
    """Return a workload with a pod for each amount of cpu, created after all before it."""
    containers = [{"name": "one", "image": "none", "resources": {"requests": {"cpu": str(cpu)}}} for cpu in cpus]
    sets = [
        {"name": f"p{index}", "count": 1, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
        for index, container in enumerate(containers)
    ]
    body = make_object("Workload", name, {"queueName": queue, "priority": priority, "podSets": sets}, NAMESPACE)
    created = timestamp(START + 100 * next(_number))
    return {**body, "metadata": {**body["metadata"], "uid": name, "creationTimestamp": created}}


FLAVORS = [make_object("ResourceFlavor", f"{PREFIX}{name}", {}) for name in ("f", "g")]
NAMED = {
    "a strict head of another queue reserves quota": (
        [*_queue("a", {"f": 4}, "lab", queueingStrategy="StrictFIFO"), *_queue("b", {"f": 2}, "lab")],
        [_workload("used", "a", 3), _workload("head", "a", 4), _workload("run", "b", 3)],
    ),
    "a preemption in progress": (
        _queue("a", {"f": 4}, preemption={"withinClusterQueue": "LowerPriority"}),
        [_workload("low", "a", 3), _workload("head", "a", 4, priority=5), _workload("run", "a", 1)],
    ),
    "a preemption in progress before a run of higher priority": (
        _queue("a", {"f": 4}, preemption={"withinClusterQueue": "LowerPriority"}),
        [_workload("low", "a", 3), _workload("head", "a", 4, priority=5), _workload("run", "a", 1, priority=9)],
    ),
    "a head whose attempts repeat": (
        _queue("a", {"f": 4, "g": 3}),
        [_workload("head", "a", 2, 4, 2), _workload("run", "a", 1)],
    ),
    "a head whose attempts repeat while quota is in use": (
        [*_queue("a", {"f": 4, "g": 3}, "lab"), *_queue("b", {"g": 0}, "lab")],
        [_workload("used", "b", 2), _workload("head", "a", 3, 2), _workload("run", "a", 1)],
    ),
}
"""Objects, and workloads of which the last one is the run: Kueue never tries it, or skips it in every cycle."""


@pytest.mark.parametrize("release", RELEASES)
def test_a_run_waits_though_its_quota_is_available(release: str) -> None:
    """In each named state, Kueue goes on trying the head, and the verdict is that the run waits."""
    presents = [Present((*FLAVORS, *objects), tuple(workloads), release) for objects, workloads in NAMED.values()]
    for name, course in zip(NAMED, courses(presents), strict=True):
        assert course is not None
        assert course.decision.mode == "Wait", name
        assert course.attempts[f"{NAMESPACE}/head"] > 10, name
        assert course.verdict.outcome == "waits", name
        assert [reason.cause for reason in course.verdict.reasons] == ["blocked"], name
