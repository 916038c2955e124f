"""Drawn present states: Kueue's own code brings them about, and decides on a run that is submitted to them."""

import json
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tests.admission.cases import (
    LABELS,
    NAMESPACE,
    PREFIX,
    Body,
    cluster_queue,
    cohort,
    flavor,
    groups_of,
    local_queue,
    make_object,
)
from tests.admission.choices import Choices
from tests.admission.judging import PROGRAM_GROUPS, START, timestamp
from trainstack.kueue.admission_simulator import AdmissionSimulator
from trainstack.kueue.from_objects import read_model
from trainstack.kueue.model import AdmittedWorkload, Model, Workload
from trainstack.kueue.verdict import Verdict
from trainstack.kueue.workloads import read_kueue_workload
from trainstack.toolchain import groups, tools

NAMESPACE_OBJECT = {"kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": LABELS}}


@dataclass(frozen=True)
class Decision:
    """What becomes of the run before an eviction ends."""

    mode: str
    """`Fit`, `Preempt` or `Wait`."""
    pod_sets: tuple[tuple[str, int, tuple[tuple[str, str], ...]], ...] = ()
    """Name, count and flavors."""
    preempts: frozenset[str] = frozenset()
    """Without those whose eviction had begun before."""


@dataclass(frozen=True)
class Present:
    """A cluster with workloads that come one after the other; the last one is the run."""

    objects: tuple[Body, ...]
    workloads: tuple[Body, ...]
    release: str
    configuration: Body = field(default_factory=dict)
    at_once: int = 1
    """The number of workloads that wait when Kueue starts."""

    @property
    def input(self) -> Body:
        """Return the input of the program."""
        single = [[body] for body in self.workloads[self.at_once :]]
        return {
            "objects": [*self.objects, NAMESPACE_OBJECT],
            "configuration": self.configuration,
            "together": {
                "rounds": [list(self.workloads[: self.at_once]), *single],
                "cycles": 15 + 4 * len(self.workloads),
            },
            "now": timestamp(START),
        }

    @cached_property
    def model(self) -> Model:
        return read_model(
            [*self.objects, NAMESPACE_OBJECT],
            unread_kinds=("Node",),
            kueue_configuration=self.configuration,
            release=self.release,
        )


@dataclass(frozen=True)
class Course:
    """A present state that Kueue's code has brought about, and its decision on the run."""

    present: Present
    before: tuple[Body, ...]
    """The workloads before the run is submitted, with their status."""
    after: tuple[Body, ...]
    attempts: Mapping[str, int]
    """The failed attempts after the run is submitted."""
    preempting: Collection[str]
    """The workloads of which one of these attempts preempts others."""

    @property
    def run(self) -> Body:
        return self.present.workloads[-1]

    @cached_property
    def admitted(self) -> tuple[AdmittedWorkload, ...]:
        return tuple(workload for workload in self._read(self.before) if isinstance(workload, AdmittedWorkload))

    @cached_property
    def pending(self) -> tuple[Workload, ...]:
        return tuple(workload for workload in self._read(self.before) if isinstance(workload, Workload))

    @cached_property
    def workload(self) -> Workload:
        (workload,) = self._read([self.run])
        assert isinstance(workload, Workload)
        return workload

    @cached_property
    def verdict(self) -> Verdict:
        return AdmissionSimulator(self.present.model, self.admitted, self.pending).verdict(self.workload)

    @property
    def own_decision(self) -> Decision | None:
        """The simulator's decision; None if it does not know."""
        verdict = self.verdict
        if verdict.outcome == "unknown":
            return None
        if verdict.preempts:
            evicted = {admitted.workload.key for admitted in self.admitted if admitted.is_evicted}
            return Decision("Preempt", preempts=frozenset(verdict.preempts) - evicted)
        if not verdict.fits:
            return Decision("Wait")
        return Decision(
            "Fit",
            tuple((pods.pod_set, pods.count, tuple(sorted(pods.flavors.items()))) for pods in verdict.assigned),
        )

    @property
    def decision(self) -> Decision:
        """The decision of Kueue's code."""
        name = self.run["metadata"]["name"]
        (run,) = (body for body in self.after if body["metadata"]["name"] == name)
        conditions = _conditions(run)
        if conditions.get("QuotaReserved", {}).get("status") == "True":
            return Decision(
                "Fit",
                tuple(
                    (pods["name"], pods["count"], tuple(sorted((pods.get("flavors") or {}).items())))
                    for pods in run["status"]["admission"]["podSetAssignments"]
                ),
            )
        evicted_before = {_key(body) for body in self.before if "Evicted" in _conditions(body)}
        evicted = {_key(body) for body in self.after if "Evicted" in _conditions(body)} - evicted_before
        # Kueue truncates the message of an event, so a preemption that has begun counts by its target.
        return (
            Decision("Preempt", preempts=frozenset(evicted))
            if evicted or _key(run) in self.preempting
            else Decision("Wait")
        )

    def _read(self, bodies: Iterable[Body]) -> list[Workload | AdmittedWorkload]:
        found = (read_kueue_workload(body, self.present.model) for body in bodies)
        return [workload for workload in found if workload is not None]


def _conditions(body: Body) -> dict[str, Body]:
    return {condition["type"]: condition for condition in (body.get("status") or {}).get("conditions") or ()}


def _key(body: Body) -> str:
    return f"{body['metadata']['namespace']}/{body['metadata']['name']}"


def courses(presents: Sequence[Present], program: Path | None = None) -> list[Course | None]:
    """Return what one release of Kueue's code makes of each state; None where its scheduler panics."""
    (release,) = {present.release for present in presents}
    (go_program,) = groups.GROUPS_BY_NAME[PROGRAM_GROUPS[release]].programs
    text = json.dumps([present.input for present in presents])
    path = program or tools.program(go_program.name)
    done = subprocess.run([path], input=text, capture_output=True, text=True, check=True)
    found: list[Course | None] = []
    for present, answer in zip(presents, json.loads(done.stdout), strict=True):
        if "Kueue's scheduler panics" in answer.get("error", ""):
            found.append(None)
            continue
        assert "error" not in answer, f"{answer['error']}: {present!r}"
        before, after = answer["rounds"][-2:]
        found.append(
            Course(
                present, tuple(before["workloads"]), tuple(after["workloads"]), after["attempts"], after["preempting"]
            )
        )
    return found


def draw_present(choices: Choices, release: str) -> Present:
    """Return up to three queues with little quota, and three to eight workloads."""
    flavors = [flavor(choices, f"{PREFIX}f{index}") for index in range(choices.pick([1, 2, 2, 3]))]
    names = [body["metadata"]["name"] for body in flavors]
    covered = choices.pick((("cpu",), ("cpu",), ("cpu", "nvidia.com/gpu")))
    resource_groups = groups_of(choices, covered, names)
    cohorts = [cohort(choices, index, resource_groups) for index in range(choices.pick([1, 0, 1, 2]))]
    parents = [body["metadata"]["name"] for body in cohorts]
    queues = [cluster_queue(choices, index, resource_groups, parents) for index in range(choices.pick([2, 1, 3, 2]))]
    # The less quota, the more workloads are in each other's way.
    few = choices.flip()
    for queue in queues:
        for key in ("stopPolicy", "admissionChecksStrategy"):
            queue["spec"].pop(key, None)
        if choices.one_in(3):
            queue["spec"]["queueingStrategy"] = "StrictFIFO"
        for quota in _quotas(queue) if few else ():
            quota.update({"nominalQuota": choices.pick(["4", "3", "2"])})
            quota.pop("lendingLimit", None)
    local_queues = [local_queue(choices, index) for index in range(len(queues))]
    count = choices.pick([5, 4, 6, 3, 7, 8])
    workloads = [_workload(choices, index, len(queues), covered, few=few) for index in range(count)]
    if len(names) > 1 and choices.one_in(8):
        workloads = workloads[-3:]
        _repeat_attempts(queues[0], names, *workloads[-2:])
    sharing: Body = {"fairSharing": {}} if choices.one_in(6) else {}
    at_once = choices.pick([1, 1, 2])
    return Present((*flavors, *cohorts, *queues, *local_queues), tuple(workloads), release, sharing, at_once)


def _repeat_attempts(queue: Body, flavors: Sequence[str], head: Body, run: Body) -> None:
    """Put the run behind a workload whose attempts may repeat: its pod sets need 2, 4 and 2 of 4 and 3 cpu."""
    members = [
        {"name": name, "resources": [{"name": "cpu", "nominalQuota": amount}]}
        for name, amount in zip(flavors, ("4", "3"), strict=False)
    ]
    queue["spec"]["resourceGroups"] = [{"coveredResources": ["cpu"], "flavors": members}]
    sets = [_one_pod(f"p{number}", {"cpu": amount}) for number, amount in enumerate(("2", "4", "2"))]
    head["spec"].update({"queueName": f"{PREFIX}l0", "priority": 200, "podSets": sets})
    run["spec"].update({"queueName": f"{PREFIX}l0", "podSets": [_one_pod("p0", {"cpu": "1"})]})


def _quotas(queue: Body) -> list[Body]:
    groups_of_queue = queue["spec"]["resourceGroups"]
    return [quota for group in groups_of_queue for member in group["flavors"] for quota in member["resources"]]


def _workload(choices: Choices, index: int, queues: int, covered: Sequence[str], *, few: bool) -> Body:
    """Return a workload of up to three pod sets that need much of a queue's quota."""
    set_count = choices.pick([1, 2, 2, 3] if few else [1, 1, 2, 3])
    sets = [_pod_set(choices, f"p{number}", covered) for number in range(set_count)]
    if choices.one_in(8) and sets[0]["count"] > 1:
        sets[0]["minCount"] = 1
    spec = {
        "queueName": f"{PREFIX}l{choices.number(0, queues - 1)}",
        "priority": choices.pick([0, 100, 0, 200]),
        "podSets": sets,
    }
    body = make_object("Workload", f"{PREFIX}w{index}", spec, NAMESPACE)
    name = body["metadata"]["name"]
    return {**body, "metadata": {**body["metadata"], "uid": name, "creationTimestamp": timestamp(START + 100 * index)}}


def _pod_set(choices: Choices, name: str, covered: Sequence[str]) -> Body:
    requests = {"cpu": choices.pick(["1", "2", "3", "2", "500m"])}
    if "nvidia.com/gpu" in covered and choices.flip():
        requests["nvidia.com/gpu"] = choices.pick(["1", "2"])
    return {**_one_pod(name, requests), "count": choices.pick([1, 1, 1, 2])}


def _one_pod(name: str, requests: Body) -> Body:
    container = {"name": "one", "image": "none", "resources": {"requests": requests}}
    spec = {"restartPolicy": "Never", "containers": [container]}
    return {"name": name, "count": 1, "template": {"spec": spec}}
