"""Drawn environments of Kueue with a workload in question, for unit tests, Kueue's own code, and a running Kueue."""

import itertools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import hypothesis
from hypothesis import strategies as st

from tests.admission.choices import Choices
from trainstack.kueue.admission_simulator import AdmissionSimulator
from trainstack.kueue.differences import RELEASES
from trainstack.kueue.from_objects import read_model
from trainstack.kueue.model import AdmittedWorkload, Model, Workload
from trainstack.kueue.workloads import read_kueue_workload
from trainstack.platform.queues import API_VERSION
from trainstack.toolchain.groups import DEFAULT_KUEUE_MINOR

Body = dict[str, Any]
PREFIX = "case-"
"""What every name of a case begins with, so that many can stand side by side."""
NAMESPACE = "slot-ns"
LABELS = {"team": "red"}
"""Of the namespace."""
OVERHEAD = {"cpu": "250m", "memory": "64Mi"}
"""Of the RuntimeClass `admission-heavy`, which all cases share."""

AMOUNTS = {
    "cpu": ("4", "3", "6", "2", "8", "2500m", "5e0", "10", "1.5", "0", "12", "0.0035k", "9"),
    "memory": (
        "4Gi",
        "3Gi",
        "6Gi",
        "2Gi",
        "8Gi",
        "5G",
        "12Gi",
        "0",
        "3.5Gi",
        "5e9",
        "4194304Ki",
        "6000M",
        "4096000000m",
    ),
    "nvidia.com/gpu": ("4", "6", "3", "2", "8", "7", "5", "0", "3000m", "0.5", "10"),
    "ephemeral-storage": ("10Gi", "20G", "1e10", "7.5Gi", "0"),
    "example.com/credits": ("10", "20", "5", "0"),
    "pods": ("8", "6", "12", "4", "16", "0", "1e1"),
}
REQUESTS = {
    "cpu": ("500m", "1", "250m", "750m", "333m", "2", "1500m", "1500u", "100m", "0", "1.25", "1e0", "1n"),
    "memory": ("512Mi", "256Mi", "1Gi", "700M", "2Gi", "1e8", "100500m", "0", "1.5Gi", "900000Ki", "0.5G", "100m"),
    "nvidia.com/gpu": ("1", "1", "2", "1", "0"),
    "ephemeral-storage": ("1Gi", "2.5G", "1e9", "500m", "0"),
}
COVERED = (
    ("cpu",),
    ("cpu", "memory"),
    ("cpu", "nvidia.com/gpu"),
    ("cpu", "memory", "nvidia.com/gpu"),
    ("cpu", "memory", "pods"),
    ("cpu", "memory", "nvidia.com/gpu", "ephemeral-storage"),
    ("cpu", "nvidia.com/gpu", "example.com/credits"),
)
PRIORITIES = (0, 100, 200)


@dataclass(frozen=True)
class Case:
    """Objects, the earlier workloads in their order, and the workload in question."""

    objects: tuple[Body, ...]
    """Flavors, cohorts, cluster queues, local queues, limit ranges."""
    before: tuple[Body, ...]
    """Workloads; each is admitted before the next one comes."""
    candidate: Body
    configuration: Body = field(default_factory=dict)
    """Kueue's."""
    release: str = DEFAULT_KUEUE_MINOR
    """Kueue's."""

    def with_names(self, prefix: str, namespace: str) -> "Case":
        """Return the case with its own names and namespace."""
        text = json.dumps([self.objects, self.before, self.candidate])
        objects, before, candidate = json.loads(text.replace(PREFIX, prefix).replace(NAMESPACE, namespace))
        return Case(tuple(objects), tuple(before), candidate)

    @property
    def stored_objects(self) -> list[Body]:
        """Return the objects in the version of Kueue's API that its release stores."""
        return [*map(_in_v1beta1, self.objects)] if self.release == "v0.14" else [*self.objects]

    @property
    def model(self) -> Model:
        """Return the model of the objects."""
        shared = [
            {"kind": "Namespace", "metadata": {"name": self.candidate["metadata"]["namespace"], "labels": LABELS}},
            {
                "kind": "RuntimeClass",
                "metadata": {"name": "admission-heavy"},
                "overhead": {"podFixed": OVERHEAD},
            },
        ]
        return read_model(
            [*self.stored_objects, *shared],
            unread_kinds=("Node",),
            kueue_configuration=self.configuration,
            release=self.release,
        )

    def workload(self, body: Body, turn: int) -> Workload:
        """Return a workload of the case as the simulator reads it, with its creation time."""
        read = read_kueue_workload(body, self.model)
        assert isinstance(read, Workload)
        return replace(read, created=float(turn))


def _in_v1beta1(body: Body) -> Body:
    """An object with the names of Kueue's API v1beta1."""
    if body["kind"] != "ClusterQueue":
        return body
    names = {"cohortName": "cohort"}
    spec = {names.get(key, key): value for key, value in body["spec"].items()}
    old = {("whenCanBorrow", "MayStopSearch"): "Borrow", ("whenCanPreempt", "MayStopSearch"): "Preempt"}
    if fungibility := spec.get("flavorFungibility"):
        spec["flavorFungibility"] = {key: old.get((key, value), value) for key, value in fungibility.items()}
    return {**body, "spec": spec}


def admitted_before(case: Case) -> tuple[list[AdmittedWorkload], list[Body]]:
    """Return the earlier workloads that are admitted at once, and their objects."""
    model = case.model
    found: list[AdmittedWorkload] = []
    kept: list[Body] = []
    for body in case.before:
        turn = len(kept)
        workload = case.workload(body, turn)
        verdict = AdmissionSimulator(model, found).verdict(workload)
        if verdict.fits and not verdict.preempts:
            found.append(AdmittedWorkload(workload, verdict.cluster_queue, verdict.usage, reserved_at=float(turn)))
            kept.append(body)
    return found, kept


def draw_cases(seed: int, count: int) -> list[Case]:
    """Return this number of cases; the same seed returns the same cases."""
    found = (draw_case(Choices.of_seed(seed, index)) for index in itertools.count())
    return list(itertools.islice(filter(None, found), count))


@st.composite
def cases(draw: Callable[[st.SearchStrategy[int]], int]) -> Case:
    """Draw such cases with Hypothesis."""
    case = draw_case(Choices.of_hypothesis(draw))
    hypothesis.assume(case is not None)
    assert case is not None
    return case


def draw_case(choices: Choices, configuration: Body | None = None, release: str = DEFAULT_KUEUE_MINOR) -> Case | None:
    """Return an environment with one to four queues, up to six workloads, and the workload in question.

    None if the engine's answer is not Kueue's by intention (`is_admitted_after_refusal`).
    """
    flavors = [flavor(choices, f"{PREFIX}f{index}") for index in range(choices.pick([1, 2, 3, 2, 4]))]
    names = [body["metadata"]["name"] for body in flavors]
    covered = choices.pick(COVERED)
    groups = groups_of(choices, covered, names)
    cohorts = [cohort(choices, index, groups) for index in range(choices.pick([0, 1, 2, 1, 3, 4]))]
    parents = [body["metadata"]["name"] for body in cohorts]
    queues = [cluster_queue(choices, index, groups, parents) for index in range(choices.pick([1, 2, 3, 2, 3, 4]))]
    if release == "v0.14":
        # Its ClusterQueues have no such field.
        for queue in queues:
            queue["spec"].get("flavorFungibility", {}).pop("preference", None)
    locals_ = [local_queue(choices, index) for index in range(len(queues))]
    limits = [limit_range(choices)] if choices.one_in(12) else []
    if choices.one_in(30):
        del flavors[-1]
    fill = choices.pick([1, 2, 1, 3])
    before = [
        workload(choices, f"{PREFIX}w{index}", len(queues), covered, times=fill)
        for index in range(choices.pick([0, 3, 5, 2, 6, 4, 3, 5, 4, 7, 8]))
    ]
    times = choices.pick([1, 1, 2, 3])
    candidate = workload(choices, f"{PREFIX}asked", len(queues), covered, times, (200, 100, 200, 0))
    case = Case(
        (*flavors, *cohorts, *queues, *locals_, *limits), tuple(before), candidate, configuration or {}, release
    )
    if is_admitted_after_refusal(case):
        return None
    using, kept = admitted_before(case)
    case = replace(case, before=tuple(kept))
    return _at_the_edge(case, using, choices) if choices.below(3) else case


def is_admitted_after_refusal(case: Case) -> bool:
    """Return whether Kueue first refuses the workload and then admits it.

    Kueue refuses a pod if the namespace's defaults contradict its own request or limit. A strict queue retries at
    once with the object that the API server returned for the refusal. It has no defaults, so it is admitted.
    Source: AdjustResources in pkg/workload/resources.go and requeueAndUpdate in
    pkg/scheduler/scheduler.go of Kueue v0.15.2.
    """
    candidate = case.workload(case.candidate, 0)
    local = (case.model.local_queues or {}).get((candidate.namespace, candidate.queue))
    queues = {body["metadata"]["name"]: body["spec"] for body in case.objects if body["kind"] == "ClusterQueue"}
    strict = local is not None and queues.get(local.cluster_queue, {}).get("queueingStrategy") == "StrictFIFO"
    if RELEASES[case.release].keeps_limit_range_defaults:
        return False
    return strict and any(pods.faults or pods.pod_refusals or pods.first_refusals for pods in candidate.pod_sets)


def _at_the_edge(case: Case, using: list[AdmittedWorkload], choices: Choices) -> Case:
    """Change the count of the first pod set: as many as fit, one more, or so many that others must be preempted."""

    def asking(count: int) -> Body:
        first, *others = case.candidate["spec"]["podSets"]
        return {**case.candidate, "spec": {**case.candidate["spec"], "podSets": [{**first, "count": count}, *others]}}

    def edge(simulator: AdmissionSimulator, start: int) -> int:
        """Return the first count that does not fit at once."""
        verdicts = (simulator.verdict(case.workload(asking(count), 9)) for count in range(start, MAX_PODS))
        fitting = itertools.takewhile(lambda verdict: verdict.outcome in ("fits", "fits by borrowing"), verdicts)
        return start + sum(1 for _ in fitting)

    start = case.candidate["spec"]["podSets"][0]["count"]
    now = edge(AdmissionSimulator(case.model, using), start)
    if choices.flip():
        now = choices.number(now, max(now, edge(AdmissionSimulator(case.model), now) - 1))
    elif choices.flip():
        now -= 1
    return replace(case, candidate=asking(max(start, now)))


MAX_PODS = 40
"""Pods by which a set may grow in search of the edge."""


Groups = list[tuple[tuple[str, ...], list[str]]]
"""Of each resource group the covered resources and the flavors."""


def groups_of(choices: Choices, covered: tuple[str, ...], flavors: list[str]) -> Groups:
    """Return one to three groups with their own flavors."""
    count = choices.number(1, min(3, len(covered), len(flavors)))
    cuts, places = (sorted(choices.sample(range(1, len(things)))[: count - 1]) for things in (covered, flavors))
    if len(cuts) != count - 1 or len(places) != count - 1:
        return [(covered, flavors)]
    return [
        (covered[start:end], flavors[first:last])
        for (start, end), (first, last) in zip(
            pairwise((0, *cuts, len(covered))), pairwise((0, *places, len(flavors))), strict=True
        )
    ]


def flavor(choices: Choices, name: str) -> Body:
    """Return a flavor, sometimes with labels, taints and tolerations."""
    spec: Body = {}
    labels = {key: choices.pick(["a", "b"]) for key in choices.sample(["pool", "zone"])}
    if labels:
        spec["nodeLabels"] = labels
    if choices.one_in(7):
        effect = choices.pick(["NoSchedule", "NoExecute", "PreferNoSchedule"])
        spec["nodeTaints"] = [{"key": "kind", "value": choices.pick(["spot", "big"]), "effect": effect}]
        if choices.one_in(4):
            spec["tolerations"] = [{"key": "kind", "operator": "Exists"}]
    return make_object("ResourceFlavor", name, spec)


def cohort(choices: Choices, index: int, groups: Groups) -> Body:
    """Return a cohort; its parent is usually an earlier one, but sometimes a later one, which may cause a cycle."""
    spec: Body = {}
    if choices.one_in(25):
        spec["parentName"] = f"{PREFIX}c{choices.number(0, 2)}"
    elif index and choices.below(3):
        spec["parentName"] = f"{PREFIX}c{index - 1 - choices.below(index)}"
    if choices.one_in(4):
        spec["resourceGroups"] = [
            group(choices, covered, choices.sample(flavors, least=1), within="parentName" in spec)
            for covered, flavors in groups
        ]
    return make_object("Cohort", f"{PREFIX}c{index}", spec)


def group(choices: Choices, covered: tuple[str, ...], flavors: list[str], *, within: bool) -> Body:
    """Return a resource group; it has limits only within a cohort."""
    return {
        "coveredResources": list(covered),
        "flavors": [
            {"name": name, "resources": [quota(choices, resource, within=within) for resource in covered]}
            for name in flavors
        ],
    }


def quota(choices: Choices, resource: str, *, within: bool) -> Body:
    """Return a quota; the lending limit is at most its nominal amount."""
    amounts = AMOUNTS[resource]
    result = {"name": resource, "nominalQuota": choices.pick(amounts)}
    if within and choices.one_in(4):
        result["borrowingLimit"] = choices.pick(amounts)
    if within and choices.one_in(4):
        lending = choices.pick(["0", result["nominalQuota"], "half"])
        result["lendingLimit"] = _half(result["nominalQuota"]) if lending == "half" else lending
    return result


def _half(amount: str) -> str:
    number, suffix = re.fullmatch(r"([\d.]+)(.*)", amount).groups()  # type: ignore[union-attr]
    return f"{int(float(number)) // 2}{suffix}"


def cluster_queue(choices: Choices, index: int, groups: Groups, parents: list[str]) -> Body:
    """A queue of some of the flavors, in an order of its own."""
    spec: Body = {"namespaceSelector": {}}
    if parents and not choices.one_in(8):
        spec["cohortName"] = choices.pick(parents)
    spec["resourceGroups"] = [
        group(choices, covered, choices.sample(flavors, least=1), within="cohortName" in spec)
        for covered, flavors in groups
    ]
    if choices.one_in(20):
        spec["namespaceSelector"] = choices.pick(
            [
                {"matchLabels": {"team": "red"}},
                {"matchLabels": {"team": "blue"}},
                {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["blue"]}]},
                {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
            ]
        )
    if not choices.one_in(6):
        spec["preemption"] = _preemption(choices, cohort="cohortName" in spec)
    if choices.flip():
        tries = ["MayStopSearch", "TryNextFlavor"]
        spec["flavorFungibility"] = {
            "whenCanBorrow": choices.pick(tries),
            "whenCanPreempt": choices.pick(tries),
        }
        if set(spec["flavorFungibility"].values()) == {"TryNextFlavor"} and choices.flip():
            spec["flavorFungibility"]["preference"] = choices.pick(
                ["BorrowingOverPreemption", "PreemptionOverBorrowing"]
            )
    if choices.one_in(5):
        spec["queueingStrategy"] = "StrictFIFO"
    if choices.one_in(60):
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": f"{PREFIX}nobody"}]}
    if choices.one_in(60):
        spec["stopPolicy"] = "Hold"
    return make_object("ClusterQueue", f"{PREFIX}q{index}", spec)


def _preemption(choices: Choices, *, cohort: bool) -> Body:
    within = choices.pick(["LowerPriority", "LowerOrNewerEqualPriority", "LowerPriority", "Never"])
    reclaim = choices.pick(["Any", "LowerPriority", "Any", "Never"]) if cohort else "Never"
    result: Body = {"withinClusterQueue": within, "reclaimWithinCohort": reclaim}
    if reclaim != "Never" and choices.flip():
        borrowing: Body = {"policy": "LowerPriority"}
        if choices.flip():
            borrowing["maxPriorityThreshold"] = choices.pick(PRIORITIES)
        result["borrowWithinCohort"] = borrowing
    return result


def local_queue(choices: Choices, index: int) -> Body:
    """Return the local queue of a cluster queue; sometimes it is on hold, or its cluster queue is missing."""
    target = f"{PREFIX}q{index}" if not choices.one_in(80) else f"{PREFIX}nowhere"
    spec = {"clusterQueue": target}
    if choices.one_in(80):
        spec["stopPolicy"] = "Hold"
    return make_object("LocalQueue", f"{PREFIX}l{index}", spec, NAMESPACE)


def limit_range(choices: Choices) -> Body:
    """Defaults and bounds of containers, or bounds of pods."""
    if choices.flip():
        item: Body = {"type": "Container", "default": {"cpu": "2", "memory": "2Gi"}}
        if choices.flip():
            item["defaultRequest"] = {"cpu": choices.pick(["1", "250m"])}
        if choices.flip():
            item["max"] = {"cpu": "2", "memory": "2Gi"}
        if choices.flip():
            item["min"] = {"cpu": "200m"}
    else:
        item = {"type": "Pod", "max": {"cpu": choices.pick(["2", "4"])}}
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": f"{PREFIX}limits", "namespace": NAMESPACE},
        "spec": {"limits": [item]},
    }


def workload(
    choices: Choices,
    name: str,
    queues: int,
    covered: tuple[str, ...],
    times: int = 1,
    priorities: tuple[int, ...] = (0, 100),
) -> Body:
    """Return a workload of one to three pod sets, scaled up if it is to find little free quota."""
    count = choices.pick([1, 2, 1, 1, 1, 2, 3])
    sets = [pod_set(choices, f"p{index}", covered) for index in range(count)]
    for pods in sets:
        pods["count"] *= times
    if choices.one_in(4):
        chosen = sets[choices.number(0, count - 1)]
        if chosen["count"] > 1:
            chosen["minCount"] = choices.number(1, chosen["count"])
    queue = 0 if choices.flip() else choices.number(0, queues - 1)
    spec = {"queueName": f"{PREFIX}l{queue}", "priority": choices.pick(priorities), "podSets": sets}
    return make_object("Workload", name, spec, NAMESPACE)


def pod_set(choices: Choices, name: str, covered: tuple[str, ...]) -> Body:
    """Return up to six pods of one or two containers, sometimes with init containers or sidecars."""
    names = [resource for resource in covered if resource in REQUESTS]
    spec: Body = {"restartPolicy": "Never", "containers": [container(choices, "one", names)]}
    if choices.one_in(6):
        spec["containers"].append(container(choices, "two", names))
    if choices.one_in(5):
        spec["initContainers"] = [
            container(choices, f"first{index}", names, first=True) for index in range(choices.number(1, 2))
        ]
    if "memory" in covered and choices.one_in(12):
        spec["runtimeClassName"] = "admission-heavy"
    if choices.one_in(20):
        spec["resources"] = {"requests": {"cpu": choices.pick(REQUESTS["cpu"])}}
    if choices.one_in(9):
        spec["nodeSelector"] = {
            key: choices.pick(["a", "b"]) for key in choices.sample(["pool", "zone", "rack"], least=1)
        }
    if choices.one_in(5):
        spec["tolerations"] = [toleration(choices)]
    if choices.one_in(10):
        terms = [[expression(choices) for _ in range(choices.number(1, 2))] for _ in range(choices.number(1, 2))]
        required = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return {"name": name, "count": choices.pick([1, 2, 1, 2, 1, 3, 1, 4, 0]), "template": {"spec": spec}}


def toleration(choices: Choices) -> Body:
    """Return a toleration of the flavors' taints, or of others."""
    result = choices.pick(
        [
            {"key": "kind", "operator": "Exists"},
            {"key": "kind", "operator": "Equal", "value": "spot"},
            {"key": "kind", "value": "big"},
            {"operator": "Exists"},
            {"key": "other", "operator": "Exists"},
        ]
    )
    if choices.flip():
        result = {**result, "effect": choices.pick(["NoSchedule", "NoExecute"])}
    return dict(result)


def expression(choices: Choices) -> Body:
    """Return a requirement on the flavors' labels, or on others."""
    key = choices.pick(["pool", "zone", "rack"])
    operator = choices.pick(["In", "NotIn", "Exists", "DoesNotExist"])
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    return {"key": key, "operator": operator, "values": choices.sample(["a", "b"], least=1)}


def container(choices: Choices, name: str, resources: list[str], *, first: bool = False) -> Body:
    """Return a container with requests, limits, or both."""
    requirements: Body = {}
    for resource in choices.sample(resources, least=0 if first else 1):
        amount = choices.pick(REQUESTS[resource])
        where = choices.pick(["requests", "limits", "both"])
        for key in ("requests", "limits") if where == "both" else (where,):
            requirements.setdefault(key, {})[resource] = amount
    if choices.one_in(80):
        requirements.setdefault("requests", {})["example.com/other"] = choices.pick(["1", "0"])
    result: Body = {"name": name, "image": "none", "resources": requirements}
    if first and choices.flip():
        result["restartPolicy"] = "Always"
    return result


def make_object(kind: str, name: str, spec: Body, namespace: str = "") -> Body:
    """Return an object of Kueue."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
