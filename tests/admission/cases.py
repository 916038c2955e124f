"""Environments of Kueue and what is asked of them, as hypothesis draws them: for unit tests, and for the real Kueue."""

import contextlib
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st

from trainstack.kueue.admission_simulator import AdmissionSimulator
from trainstack.kueue.from_objects import read_model
from trainstack.kueue.model import Admitted, Model, Workload
from trainstack.kueue.workloads import read_kueue_workload
from trainstack.platform.queues import API_VERSION

Body = dict[str, Any]
T = TypeVar("T")
PREFIX = "case-"
"""What every name of a case begins with, so that many can stand side by side."""
NAMESPACE = "slot-ns"
LABELS = {"team": "red"}
"""Of the namespace."""
OVERHEAD = {"cpu": "250m", "memory": "64Mi"}
"""Of the RuntimeClass `admission-heavy`, which all cases share."""

UNTIMED: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck)}
"""Settings of hypothesis for draws that take as long as they take."""

AMOUNTS = {
    "cpu": ("2", "3", "4", "1", "6", "2500m", "3", "8", "2", "0"),
    "memory": ("4Gi", "3Gi", "6Gi", "2Gi", "8Gi", "5G", "12Gi", "0"),
    "nvidia.com/gpu": ("2", "3", "4", "2", "1", "6", "8", "0"),
    "pods": ("6", "4", "8", "12", "3", "0"),
}
REQUESTS = {
    "cpu": ("500m", "1", "250m", "750m", "333m", "2", "1500m", "1500u", "100m", "0"),
    "memory": ("512Mi", "256Mi", "1Gi", "700M", "2Gi", "1e8", "100500m", "0"),
    "nvidia.com/gpu": ("1", "1", "2", "1", "0"),
}
COVERED = (
    ("cpu",),
    ("cpu", "memory"),
    ("cpu", "nvidia.com/gpu"),
    ("cpu", "memory", "nvidia.com/gpu"),
    ("cpu", "memory", "pods"),
)
PRIORITIES = (0, 100, 200)


@dataclass(frozen=True)
class Case:
    """Objects, the workloads that come first, one after the other, and the one that is asked about."""

    objects: tuple[Body, ...]
    """Flavors, cohorts, cluster queues, local queues, limit ranges."""
    before: tuple[Body, ...]
    """Workloads; each is admitted before the next one comes."""
    asked: Body

    def named(self, prefix: str, namespace: str) -> "Case":
        """The same with names of its own, in a namespace of its own."""
        text = json.dumps([self.objects, self.before, self.asked])
        objects, before, asked = json.loads(text.replace(PREFIX, prefix).replace(NAMESPACE, namespace))
        return Case(tuple(objects), tuple(before), asked)

    @property
    def environment(self) -> str:
        """Its objects, in writing."""
        return json.dumps(self.objects)

    @property
    def model(self) -> Model:
        """The objects as the engine reads them."""
        shared = [
            {"kind": "Namespace", "metadata": {"name": self.asked["metadata"]["namespace"], "labels": LABELS}},
            {
                "kind": "RuntimeClass",
                "metadata": {"name": "admission-heavy"},
                "overhead": {"podFixed": OVERHEAD},
            },
        ]
        return read_model([*self.objects, *shared], unread=("Node",))

    def workload(self, body: Body, turn: int) -> Workload:
        """A workload of it as the engine reads it, created at its turn."""
        read = read_kueue_workload(body, self.model)
        assert isinstance(read, Workload)
        return replace(read, created=float(turn))


def admitted_before(case: Case) -> tuple[list[Admitted], list[Body]]:
    """Those of the first workloads that are admitted as they come, and their objects; the others are left out."""
    model = case.model
    found: list[Admitted] = []
    kept: list[Body] = []
    for body in case.before:
        turn = len(kept)
        workload = case.workload(body, turn)
        verdict = AdmissionSimulator(model, found).verdict(workload, with_remedies=False)
        if verdict.fits and not verdict.preempts:
            found.append(Admitted(workload, verdict.cluster_queue, verdict.usage, reserved=float(turn)))
            kept.append(body)
    return found, kept


Draw = Callable[[st.SearchStrategy[Any]], Any]


def one_in(draw: Draw, many: int) -> bool:
    """True about once in so many draws; shrinks to False. Not at an end of the range, which is drawn more often."""
    return bool(draw(st.integers(0, many - 1)) == many // 2)


def some(draw: Draw, things: tuple[Any, ...] | list[Any], least: int = 0) -> list[Any]:
    """A selection in any order."""
    return list(draw(st.lists(st.sampled_from(things), unique=True, min_size=least))) if things else []


def collected(seed: int, most: int, strategy: st.SearchStrategy[T], take: Callable[[T], bool]) -> None:
    """Draw from a strategy, the same for the same seed, until `take` has enough; at most so many."""

    @hypothesis.seed(seed)
    @hypothesis.settings(
        database=None, max_examples=most, phases=[Phase.generate], report_multiple_bugs=False, **UNTIMED
    )
    @hypothesis.given(strategy)
    def draw(drawn: T) -> None:
        if take(drawn):
            raise _EnoughError

    with contextlib.suppress(_EnoughError):
        draw()


class _EnoughError(Exception):
    """To hypothesis a failure, at which it stops."""


def drawn(seed: int, count: int) -> list[Case]:
    """So many cases, the same ones for the same seed, in the order in which hypothesis draws them.

    It likes to vary what it has drawn before: of one environment at most three cases are taken. At most a third begins
    with an idle cluster.
    """
    found: dict[str, Case] = {}
    environments: Counter[str] = Counter()

    def take(case: Case) -> bool:
        idle = sum(not each.before for each in found.values())
        if (case.before or idle < count // 3) and repr(case) not in found and environments[case.environment] < 3:
            found[repr(case)] = case
            environments[case.environment] += 1
        return len(found) == count

    collected(seed, 8 * count, cases(), take)
    return list(found.values())


@st.composite
def cases(draw: Draw) -> Case:
    """An environment with one to four queues, up to three workloads in it, and one that asks."""
    flavors = [draw(flavor(f"{PREFIX}f{index}")) for index in range(draw(st.sampled_from([1, 2, 3, 2, 4])))]
    names = [each["metadata"]["name"] for each in flavors]
    covered = draw(st.sampled_from(COVERED))
    groups = groups_of(draw, covered, names)
    cohorts = [draw(cohort(index, groups)) for index in range(draw(st.sampled_from([0, 1, 2, 1, 3])))]
    parents = [each["metadata"]["name"] for each in cohorts]
    queues = [draw(cluster_queue(index, groups, parents)) for index in range(draw(st.sampled_from([1, 2, 3, 2, 3, 4])))]
    locals_ = [draw(local_queue(index)) for index in range(len(queues))]
    limits = [draw(limit_range())] if one_in(draw, 12) else []
    if one_in(draw, 30):
        del flavors[-1]
    fill = draw(st.sampled_from([1, 2, 3]))
    before = [
        draw(workload(f"{PREFIX}w{index}", len(queues), covered, times=fill))
        for index in range(draw(st.sampled_from([0, 3, 5, 2, 6, 4, 1, 3, 5, 4])))
    ]
    times = draw(st.sampled_from([1, 2, 3]))
    asked = draw(workload(f"{PREFIX}asked", len(queues), covered, times, (200, 100, 200, 0)))
    case = Case((*flavors, *cohorts, *queues, *locals_, *limits), tuple(before), asked)
    hypothesis.assume(not slips_in(case))
    using, kept = admitted_before(case)
    case = replace(case, before=tuple(kept))
    return _at_the_edge(case, using, over=draw(st.booleans())) if draw(st.booleans()) else case


def slips_in(case: Case) -> bool:
    """Whether Kueue refuses it at first, and then gives it quota.

    Kueue refuses a pod of which the namespace's defaults contradict its own request or limit. A strict queue tries it
    again at once, and then as the API server gave it back when the refusal was noted, without the defaults: nothing is
    wrong with that. Source: AdjustResources in pkg/workload/resources.go and requeueAndUpdate in
    pkg/scheduler/scheduler.go of Kueue v0.15.2.
    """
    asked = case.workload(case.asked, 0)
    local = (case.model.local_queues or {}).get((asked.namespace, asked.queue))
    queues = {each["metadata"]["name"]: each["spec"] for each in case.objects if each["kind"] == "ClusterQueue"}
    strict = local is not None and queues.get(local.cluster_queue, {}).get("queueingStrategy") == "StrictFIFO"
    return strict and any(pods.faults or pods.refused_pods or pods.refused_at_first for pods in asked.pod_sets)


def _at_the_edge(case: Case, using: list[Admitted], *, over: bool) -> Case:
    """The same with as many pods in the first set as fit at once, or with one more than that."""
    simulator, at_once = AdmissionSimulator(case.model, using), ("fits", "fits by borrowing")

    def asking(count: int) -> Body:
        first, *others = case.asked["spec"]["podSets"]
        return {**case.asked, "spec": {**case.asked["spec"], "podSets": [{**first, "count": count}, *others]}}

    def fits(count: int) -> bool:
        return simulator.verdict(case.workload(asking(count), 9), with_remedies=False).outcome in at_once

    start = case.asked["spec"]["podSets"][0]["count"]
    edge = next((count for count in range(start, start + MANY) if not fits(count)), start)
    return replace(case, asked=asking(edge if over or edge == start else edge - 1))


MANY = 40
"""Pods by which a set may grow in search of the edge."""


def groups_of(draw: Draw, covered: tuple[str, ...], flavors: list[str]) -> list[tuple[tuple[str, ...], list[str]]]:
    """The covered resources and the flavors of one group, or of two."""
    if len(covered) > 1 and len(flavors) > 1 and draw(st.booleans()):
        cut = draw(st.integers(1, len(covered) - 1))
        place = draw(st.integers(1, len(flavors) - 1))
        return [(covered[:cut], flavors[:place]), (covered[cut:], flavors[place:])]
    return [(covered, flavors)]


@st.composite
def flavor(draw: Draw, name: str) -> Body:
    """A flavor, now and then with labels, taints and tolerations."""
    spec: Body = {}
    labels = {key: draw(st.sampled_from(["a", "b"])) for key in some(draw, ["pool", "zone"])}
    if labels:
        spec["nodeLabels"] = labels
    if one_in(draw, 7):
        effect = draw(st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"]))
        spec["nodeTaints"] = [{"key": "kind", "value": draw(st.sampled_from(["spot", "big"])), "effect": effect}]
        if one_in(draw, 4):
            spec["tolerations"] = [{"key": "kind", "operator": "Exists"}]
    return made("ResourceFlavor", name, spec)


@st.composite
def cohort(draw: Draw, index: int, groups: list[tuple[tuple[str, ...], list[str]]]) -> Body:
    """A cohort; its parent comes before it, but once in a while after it, which may make a circle."""
    spec: Body = {}
    if one_in(draw, 25):
        spec["parentName"] = f"{PREFIX}c{draw(st.integers(0, 2))}"
    elif index and draw(st.booleans()):
        spec["parentName"] = f"{PREFIX}c{draw(st.integers(0, index - 1))}"
    if one_in(draw, 4):
        spec["resourceGroups"] = [
            draw(group(covered, some(draw, flavors, least=1), within="parentName" in spec))
            for covered, flavors in groups
        ]
    return made("Cohort", f"{PREFIX}c{index}", spec)


@st.composite
def group(draw: Draw, covered: tuple[str, ...], flavors: list[str], *, within: bool) -> Body:
    """A resource group; only within a cohort are there limits."""
    return {
        "coveredResources": list(covered),
        "flavors": [
            {"name": name, "resources": [draw(quota(resource, within=within)) for resource in covered]}
            for name in flavors
        ],
    }


@st.composite
def quota(draw: Draw, resource: str, *, within: bool) -> Body:
    """A quota; what may be lent is a part of it."""
    amounts = AMOUNTS[resource]
    result = {"name": resource, "nominalQuota": draw(st.sampled_from(amounts))}
    if within and one_in(draw, 4):
        result["borrowingLimit"] = draw(st.sampled_from(amounts))
    if within and one_in(draw, 4):
        lending = draw(st.sampled_from(["0", result["nominalQuota"], "half"]))
        result["lendingLimit"] = _half(result["nominalQuota"]) if lending == "half" else lending
    return result


def _half(amount: str) -> str:
    number = amount.rstrip("mGiM")
    return f"{int(number) // 2}{amount[len(number) :]}"


@st.composite
def cluster_queue(draw: Draw, index: int, groups: list[tuple[tuple[str, ...], list[str]]], parents: list[str]) -> Body:
    """A queue of some of the flavors, in an order of its own."""
    spec: Body = {"namespaceSelector": {}}
    if parents and not one_in(draw, 8):
        spec["cohortName"] = draw(st.sampled_from(parents))
    spec["resourceGroups"] = [
        draw(group(covered, some(draw, flavors, least=1), within="cohortName" in spec)) for covered, flavors in groups
    ]
    if one_in(draw, 20):
        spec["namespaceSelector"] = draw(
            st.sampled_from(
                [
                    {"matchLabels": {"team": "red"}},
                    {"matchLabels": {"team": "blue"}},
                    {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["blue"]}]},
                    {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
                ]
            )
        )
    if not one_in(draw, 4):
        spec["preemption"] = _preemption(draw, cohort="cohortName" in spec)
    if draw(st.booleans()):
        tries = ["MayStopSearch", "TryNextFlavor"]
        spec["flavorFungibility"] = {
            "whenCanBorrow": draw(st.sampled_from(tries)),
            "whenCanPreempt": draw(st.sampled_from(tries)),
        }
        if set(spec["flavorFungibility"].values()) == {"TryNextFlavor"} and draw(st.booleans()):
            spec["flavorFungibility"]["preference"] = draw(
                st.sampled_from(["BorrowingOverPreemption", "PreemptionOverBorrowing"])
            )
    if one_in(draw, 5):
        spec["queueingStrategy"] = "StrictFIFO"
    if one_in(draw, 60):
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": f"{PREFIX}nobody"}]}
    if one_in(draw, 60):
        spec["stopPolicy"] = "Hold"
    return made("ClusterQueue", f"{PREFIX}q{index}", spec)


def _preemption(draw: Draw, *, cohort: bool) -> Body:
    within = draw(st.sampled_from(["LowerPriority", "LowerOrNewerEqualPriority", "Never"]))
    reclaim = draw(st.sampled_from(["Any", "LowerPriority", "Never"])) if cohort else "Never"
    result = {"withinClusterQueue": within, "reclaimWithinCohort": reclaim}
    if reclaim != "Never" and draw(st.booleans()):
        borrowing = {"policy": "LowerPriority"}
        if draw(st.booleans()):
            borrowing["maxPriorityThreshold"] = draw(st.sampled_from(PRIORITIES))
        result["borrowWithinCohort"] = borrowing
    return result


@st.composite
def local_queue(draw: Draw, index: int) -> Body:
    """The local queue of a cluster queue; once in a while on hold, or of a cluster queue that is not there."""
    target = f"{PREFIX}q{index}" if not one_in(draw, 80) else f"{PREFIX}nowhere"
    spec = {"clusterQueue": target}
    if one_in(draw, 80):
        spec["stopPolicy"] = "Hold"
    return made("LocalQueue", f"{PREFIX}l{index}", spec, NAMESPACE)


@st.composite
def limit_range(draw: Draw) -> Body:
    """Defaults and bounds of containers, or bounds of pods."""
    if draw(st.booleans()):
        item: Body = {"type": "Container", "default": {"cpu": "2", "memory": "2Gi"}}
        if draw(st.booleans()):
            item["defaultRequest"] = {"cpu": draw(st.sampled_from(["1", "250m"]))}
        if draw(st.booleans()):
            item["max"] = {"cpu": "2", "memory": "2Gi"}
        if draw(st.booleans()):
            item["min"] = {"cpu": "200m"}
    else:
        item = {"type": "Pod", "max": {"cpu": draw(st.sampled_from(["2", "4"]))}}
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": f"{PREFIX}limits", "namespace": NAMESPACE},
        "spec": {"limits": [item]},
    }


@st.composite
def workload(
    draw: Draw, name: str, queues: int, covered: tuple[str, ...], times: int = 1, priorities: tuple[int, ...] = (0, 100)
) -> Body:
    """A workload of one to three pod sets; of one that is to find little left, each is so many times as large."""
    count = draw(st.sampled_from([1, 2, 1, 1, 1, 2, 3]))
    sets = [draw(pod_set(f"p{index}", covered)) for index in range(count)]
    for each in sets:
        each["count"] *= times
    if one_in(draw, 4):
        chosen = sets[draw(st.integers(0, count - 1))]
        if chosen["count"] > 1:
            chosen["minCount"] = draw(st.integers(1, chosen["count"]))
    queue = 0 if draw(st.booleans()) else draw(st.integers(0, queues - 1))
    spec = {"queueName": f"{PREFIX}l{queue}", "priority": draw(st.sampled_from(priorities)), "podSets": sets}
    return made("Workload", name, spec, NAMESPACE)


@st.composite
def pod_set(draw: Draw, name: str, covered: tuple[str, ...]) -> Body:
    """Up to six pods, each of one or two containers, sometimes with others before them or beside them."""
    names = [each for each in covered if each in REQUESTS]
    spec: Body = {"restartPolicy": "Never", "containers": [draw(container("one", names))]}
    if one_in(draw, 6):
        spec["containers"].append(draw(container("two", names)))
    if one_in(draw, 5):
        spec["initContainers"] = [
            draw(container(f"first{index}", names, first=True)) for index in range(draw(st.integers(1, 2)))
        ]
    if "memory" in covered and one_in(draw, 12):
        spec["runtimeClassName"] = "admission-heavy"
    if one_in(draw, 20):
        spec["resources"] = {"requests": {"cpu": draw(st.sampled_from(REQUESTS["cpu"]))}}
    if one_in(draw, 9):
        spec["nodeSelector"] = {
            key: draw(st.sampled_from(["a", "b"])) for key in some(draw, ["pool", "zone", "rack"], least=1)
        }
    if one_in(draw, 5):
        spec["tolerations"] = [draw(toleration())]
    if one_in(draw, 10):
        terms = draw(st.lists(st.lists(expression(), min_size=1, max_size=2), min_size=1, max_size=2))
        required = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return {"name": name, "count": draw(st.sampled_from([1, 2, 1, 2, 1, 3, 1, 4, 0])), "template": {"spec": spec}}


@st.composite
def toleration(draw: Draw) -> Body:
    """A toleration of the taints that flavors have, or of others."""
    result = draw(
        st.sampled_from(
            [
                {"key": "kind", "operator": "Exists"},
                {"key": "kind", "operator": "Equal", "value": "spot"},
                {"key": "kind", "value": "big"},
                {"operator": "Exists"},
                {"key": "other", "operator": "Exists"},
            ]
        )
    )
    if draw(st.booleans()):
        result = {**result, "effect": draw(st.sampled_from(["NoSchedule", "NoExecute"]))}
    return dict(result)


@st.composite
def expression(draw: Draw) -> Body:
    """A requirement on labels that flavors have, or on others."""
    key = draw(st.sampled_from(["pool", "zone", "rack"]))
    operator = draw(st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]))
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    return {"key": key, "operator": operator, "values": some(draw, ["a", "b"], least=1)}


@st.composite
def container(draw: Draw, name: str, resources: list[str], *, first: bool = False) -> Body:
    """A container with requests, limits, or both."""
    said: Body = {}
    for resource in some(draw, resources, least=0 if first else 1):
        amount = draw(st.sampled_from(REQUESTS[resource]))
        where = draw(st.sampled_from(["requests", "limits", "both"]))
        for key in ("requests", "limits") if where == "both" else (where,):
            said.setdefault(key, {})[resource] = amount
    if one_in(draw, 80):
        said.setdefault("requests", {})["example.com/other"] = draw(st.sampled_from(["1", "0"]))
    result: Body = {"name": name, "image": "none", "resources": said}
    if first and draw(st.booleans()):
        result["restartPolicy"] = "Always"
    return result


def made(kind: str, name: str, spec: Body, namespace: str = "") -> Body:
    """One of Kueue's objects."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
