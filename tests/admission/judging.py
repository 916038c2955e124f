"""The verdicts of the simulator and of Kueue's own code on the same cases, without a cluster.

The program `kueue-judge` runs Kueue's scheduler, cache and queues on objects in memory. It answers for a workload at
the head of its queue: what pending workloads do to each other, webhooks and controllers are not in it.
"""

import copy
import json
import re
import subprocess
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property

from tests.admission.cases import (
    AMOUNTS,
    LABELS,
    OVERHEAD,
    PREFIX,
    REQUESTS,
    Body,
    Case,
    is_admitted_after_refusal,
    make_object,
)
from tests.admission.choices import Choices
from trainstack.kueue.admission_simulator import AdmissionSimulator
from trainstack.kueue.differences import RELEASES
from trainstack.kueue.flavor_assigner import scale_requests
from trainstack.kueue.model import AdmittedWorkload, FlavorResource, Usage
from trainstack.kueue.quantities import format_quantity, resource_value
from trainstack.kueue.resource_node import CohortTree
from trainstack.kueue.verdict import Verdict
from trainstack.kueue.workloads import read_kueue_workload
from trainstack.toolchain import groups, tools

PROGRAM_GROUPS = {minor: f"judge-{minor}" for minor in RELEASES}
"""The toolchain's group of each minor release's program."""
START = 1_800_000_000
"""When the first workload of a case was created, in seconds since 1970; each later one a second after."""


@dataclass(frozen=True)
class Answer:
    """The outcome for one workload."""

    mode: str
    """`Fit`, `Preempt` or `NoFit`."""
    pod_sets: tuple[tuple[str, int, tuple[tuple[str, str], ...]], ...] = ()
    """Name, count and flavors."""
    usage: tuple[tuple[FlavorResource, int], ...] = ()
    borrowed: frozenset[FlavorResource] = frozenset()
    """What of it the cluster queue borrows then."""
    preempts: frozenset[str] = frozenset()
    """Without those whose eviction had begun before."""


@dataclass(frozen=True)
class Question:
    """A workload in question, in a cluster with admitted workloads."""

    case: Case
    admitted: tuple[Body, ...]
    """Workloads with their status."""

    def quota_users(self) -> list[AdmittedWorkload]:
        """The workloads with quota, as the engine reads them."""
        read = (read_kueue_workload(body, self.case.model) for body in self.admitted)
        return [workload for workload in read if isinstance(workload, AdmittedWorkload)]

    @cached_property
    def verdict(self) -> Verdict:
        """Return the simulator's verdict."""
        candidate = self.case.workload(self.case.candidate, START + len(self.admitted))
        return AdmissionSimulator(self.case.model, self.quota_users()).verdict(candidate)

    def simulated_answer(self) -> Answer | None:
        """The engine's answer; None if it does not know."""
        return _of_verdict(self.verdict, {other.workload.key for other in self.quota_users() if other.is_evicted})

    def unknown_reason(self) -> str:
        """Return why the outcome is unknown, without names of the case, or an empty string."""
        if self.simulated_answer() is not None:
            return ""
        reason = self.verdict.reasons[0]
        return reason.cause if reason.cause == "topology" else re.sub(rf"\S*{PREFIX}\S*", "…", reason.message)

    def input(self) -> Body:
        """Return the input of the program."""
        namespace = self.case.candidate["metadata"]["namespace"]
        shared = [
            {"kind": "Namespace", "metadata": {"name": namespace, "labels": LABELS}},
            {
                "kind": "RuntimeClass",
                "metadata": {"name": "admission-heavy"},
                "handler": "runc",
                "overhead": {"podFixed": OVERHEAD},
            },
        ]
        now = timestamp(START + len(self.admitted))
        return {
            "objects": [*self.case.stored_objects, *shared, *self.admitted],
            "submit": [self.case.candidate],
            "configuration": self.case.configuration,
            "now": now,
        }


def configuration(choices: Choices, release: str) -> Body:
    """A Configuration of Kueue, in the version of its API that the release's program reads.

    No output of a transformation is requested too where Kueue's sum of both depends on the order of a Go map.
    """
    rules = RELEASES[release]
    resources: Body = {}
    if choices.one_in(8):
        resources["excludeResourcePrefixes"] = [choices.pick(["nvidia.com/", "example.com/", "mem"])]
    if choices.one_in(5):
        output = choices.pick(["example.com/credits", "cpu", "nvidia.com/gpu"] if rules.adds_outputs else [CREDITS])
        resources["transformations"] = [
            {
                "input": choices.pick(["nvidia.com/gpu", "cpu"]),
                "strategy": choices.pick(["Retain", "Replace"]),
                "outputs": {output: choices.pick(["2", "500m", "1.5", "333m"])},
            }
        ]
    gates: dict[str, bool] = {}
    if "QuotaCheckStrategy" in rules.gates and choices.one_in(8):
        resources["quotaCheckStrategy"] = choices.pick(["IgnoreUndeclared", "BlockUndeclared"])
        gates["QuotaCheckStrategy"] = choices.below(4) < 3
    if "FlavorFungibilityPreserveScanProgress" in rules.gates and choices.one_in(8):
        gates["FlavorFungibilityPreserveScanProgress"] = False
    sharing: Body = {}
    if choices.one_in(4):
        strategies = choices.pick([{}, {"preemptionStrategies": ["LessThanInitialShare"]}])
        # In v1beta1 fair sharing is off by default.
        sharing = {"fairSharing": strategies | ({"enable": True} if release == "v0.14" else {})}
    return {
        **({"resources": resources} if resources else {}),
        **({"featureGates": gates} if gates else {}),
        **sharing,
    }


CREDITS = "example.com/credits"
_HUGE = ("9E", "8Ei", "1e19", "9223372036854775807", "30E")
"""Quotas near the 64 bits of Kueue's sums and beyond."""


def with_huge_quotas(case: Case, choices: Choices) -> Case:
    """Return a case in which some quotas are unlimited, or become so as sums."""
    objects = copy.deepcopy(case.objects)
    for body in objects:
        for group in body["spec"].get("resourceGroups") or () if body["kind"] in ("ClusterQueue", "Cohort") else ():
            for quota in (quota for flavor in group["flavors"] for quota in flavor["resources"]):
                if choices.one_in(3):
                    quota[choices.pick(sorted(quota.keys() - {"name"}))] = choices.pick(_HUGE)
    return replace(case, objects=objects)


def with_pod_level_resources(case: Case, choices: Choices) -> Case:
    """Return a case whose last workload has pods with requests or limits of the whole pod."""
    candidate = copy.deepcopy(case.candidate)
    for pods in candidate["spec"]["podSets"]:
        amounts: Body = {}
        for key in choices.sample(["requests", "limits"]):
            amounts[key] = {name: choices.pick(REQUESTS[name]) for name in choices.sample(["cpu", "memory"], least=1)}
        if amounts:
            pods["template"]["spec"]["resources"] = amounts
    return replace(case, candidate=candidate)


def with_numbers(case: Case, choices: Choices) -> Case:
    """Return a case on an idle cluster, whose pods compare numbers, or what is almost one, with labels and taints."""
    objects, candidate = copy.deepcopy((case.objects, case.candidate))
    for body in objects:
        if body["kind"] == "ResourceFlavor" and choices.flip():
            body["spec"].setdefault("nodeLabels", {})["size"] = choices.pick(_NUMBERS)
            if choices.one_in(3):
                taint = {"key": "size", "value": choices.pick(_NUMBERS), "effect": "NoSchedule"}
                body["spec"]["nodeTaints"] = [taint]
    for pods in candidate["spec"]["podSets"]:
        spec, operator = pods["template"]["spec"], choices.pick(["Gt", "Lt"])
        bound = choices.pick([*_NUMBERS, "40Gi", "-5", " 5", "\N{ARABIC-INDIC DIGIT FIVE}"])
        terms = [{"matchExpressions": [{"key": "size", "operator": operator, "values": [bound]}]}]
        if choices.one_in(4):
            terms.append({"matchExpressions": [{"key": "size", "operator": "In", "values": [choices.pick(_NUMBERS)]}]})
        if choices.below(3):
            required = {"nodeSelectorTerms": terms}
            spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        if choices.below(3):
            spec["tolerations"] = [{"key": "size", "operator": operator, "value": choices.pick([*_NUMBERS, "40Gi"])}]
    return replace(case, objects=objects, before=(), candidate=candidate)


_NUMBERS = ("5", "64", "007", "1_0", str(2**63 - 1), str(2**63), "big")


def with_weights(case: Case, choices: Choices) -> Case:
    """Return a case whose queues and cohorts may have a weight in fair sharing."""
    objects = copy.deepcopy(case.objects)
    for body in objects:
        if body["kind"] in ("ClusterQueue", "Cohort") and choices.flip():
            body["spec"]["fairSharing"] = {"weight": choices.pick(["2", "500m", "1", "0"])}
    return replace(case, objects=objects)


def with_topology(case: Case, choices: Choices) -> Case:
    """Return a case on an idle cluster whose flavors have a topology with room for all pods, which may request it."""
    # Kueue counts the pods that a node holds in 32 bits: of a few bytes each, none would fit a node of any size.
    text = re.sub(r'("(?:memory|ephemeral-storage)": )"\d+m"', r'\1"1M"', json.dumps([case.objects, case.candidate]))
    objects, candidate = json.loads(text)
    # In v0.18, pods that request nothing at all have no room on any node.
    text = re.sub(r'("(?:memory|ephemeral-storage)": )"0"', r'\1"1M"', json.dumps(candidate))
    candidate = json.loads(re.sub(r'(": )"0"', r'\1"1"', text))
    chosen = [body for body in objects if body["kind"] == "ResourceFlavor" and choices.flip()]
    for body in chosen:
        body["spec"]["topologyName"] = "racks"
        body["spec"].setdefault("nodeLabels", {})["flavor"] = body["metadata"]["name"]
    for pods in candidate["spec"]["podSets"]:
        if choices.flip():
            pods["topologyRequest"] = choices.pick(
                [{"required": RACK}, {"preferred": RACK}, {"unconstrained": True}, {"required": "example.com/block"}]
            )
    topology = make_object("Topology", "racks", {"levels": [{"nodeLabel": RACK}]})
    return replace(
        case, objects=(*objects, *([topology, *map(_node, chosen)] if chosen else ())), before=(), candidate=candidate
    )


RACK = "example.com/rack"


def _node(flavor: Body) -> Body:
    """Return a node that is a whole rack of a flavor."""
    labels = {**flavor["spec"]["nodeLabels"], RACK: flavor["metadata"]["name"]}
    room = {"cpu": "1k", "memory": "1Ti", "nvidia.com/gpu": "1k", "ephemeral-storage": "1Ti", "pods": "1k"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{flavor['metadata']['name']}", "labels": labels},
        "spec": {"taints": flavor["spec"].get("nodeTaints") or []},
        "status": {
            "allocatable": {**room, "example.com/credits": "1k", "example.com/other": "1k"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def questions(case: Case, choices: Choices) -> list[Question]:
    """Ask about each workload of a case, and about the last one on an idle and on a disturbed cluster too."""
    found: list[Question] = []
    admitted: list[Body] = []
    for turn, body in enumerate(case.before):
        question = Question(replace(case, candidate=body), tuple(admitted))
        found.append(question)
        admitted.append(_with_admission(question, turn))
    found += [Question(case, tuple(using)) for using in ([], *([admitted] if admitted else []))]
    if admitted:
        disturbed = tuple(_disturbed(body, choices) for body in admitted)
        found.append(Question(_changed(case, choices), disturbed))
    # The program makes no second attempt, at which a strict queue forgets a LimitRange's defaults.
    return [question for question in found if not is_admitted_after_refusal(question.case)]


def answers(asked: Sequence[Question]) -> list[Answer | None]:
    """Return the answers of one release of Kueue's code, or None where it panics.

    With fair sharing, Kueue's scheduler panics for a queue without a cohort whose own candidates do not suffice.
    """
    (release,) = {question.case.release for question in asked}
    (program,) = groups.GROUPS_BY_NAME[PROGRAM_GROUPS[release]].programs
    text = json.dumps([question.input() for question in asked])
    done = subprocess.run([tools.program(program.name)], input=text, capture_output=True, text=True, check=True)
    return [_of_program(question, found) for question, found in zip(asked, json.loads(done.stdout), strict=True)]


def disagreements(asked: Sequence[Question]) -> list[tuple[Question, Answer, Answer]]:
    """Return the questions on which simulator and Kueue's code disagree, with both answers."""
    return [
        (question, own, other)
        for question, other in zip(asked, answers(asked), strict=True)
        if other is not None and (own := question.simulated_answer()) not in (None, other) and own is not None
    ]


def _of_verdict(verdict: Verdict, evicted: Collection[str]) -> Answer | None:
    if verdict.preempts:
        return Answer("Preempt", preempts=frozenset(verdict.preempts) - frozenset(evicted))
    if not verdict.assigned:
        return None if verdict.outcome == "unknown" else Answer("NoFit")
    return Answer(
        "Fit",
        pod_sets=tuple((pods.pod_set, pods.count, tuple(sorted(pods.flavors.items()))) for pods in verdict.assigned),
        usage=_sorted(verdict.usage),
        borrowed=frozenset(verdict.borrowed),
    )


def _of_program(question: Question, found: Body) -> Answer | None:
    if "fairSharing" in question.case.configuration and "Kueue's scheduler panics" in found.get("error", ""):
        return None
    assert "error" not in found, f"{found['error']}: {question!r}"
    (verdict,) = found["verdicts"]
    if verdict["mode"] != "Fit":
        return Answer(verdict["mode"], preempts=frozenset(verdict.get("targets") or ()))
    usage: dict[FlavorResource, int] = {}
    for pods in verdict["podSets"]:
        for resource, flavor in (pods.get("flavors") or {}).items():
            number = resource_value(resource, pods["resourceUsage"][resource])
            usage[flavor, resource] = usage.get((flavor, resource), 0) + number
    return Answer(
        "Fit",
        pod_sets=tuple(
            (pods["name"], pods["count"], tuple(sorted((pods.get("flavors") or {}).items())))
            for pods in verdict["podSets"]
        ),
        usage=_sorted(usage),
        borrowed=frozenset((flavor, resource) for flavor, _, resource in map(_parts, verdict.get("borrowed") or ())),
    )


def _parts(key: str) -> tuple[str, str, str]:
    return key.partition("/")


def _sorted(usage: Usage) -> tuple[tuple[FlavorResource, int], ...]:
    return tuple(sorted(usage.items()))


def _with_admission(question: Question, turn: int) -> Body:
    """The workload asked about, as Kueue admits it."""
    case = question.case
    body, workload = case.candidate, case.workload(case.candidate, turn)
    verdict = AdmissionSimulator(case.model, question.quota_users()).verdict(workload)
    assignments = []
    for pods, wanted in zip(verdict.assigned, workload.pod_sets, strict=True):
        usage = {**scale_requests(wanted, pods.count), "pods": pods.count}
        assignments.append(
            {
                "name": pods.pod_set,
                "count": pods.count,
                "flavors": dict(pods.flavors),
                "resourceUsage": {name: format_quantity(name, usage[name]) for name in pods.flavors},
            }
        )
    created = timestamp(START + turn)
    reserved = {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": ""}
    return {
        **body,
        "metadata": {**body["metadata"], "creationTimestamp": created, "uid": body["metadata"]["name"]},
        "status": {
            "admission": {"clusterQueue": verdict.cluster_queue, "podSetAssignments": assignments},
            "conditions": [{**reserved, "lastTransitionTime": created}],
        },
    }


def _disturbed(body: Body, choices: Choices) -> Body:
    """Return an admitted workload that may be in eviction, or that has reclaimable pods."""
    status = {**body["status"]}
    if choices.one_in(4):
        evicted = {"type": "Evicted", "status": "True", "reason": "Preempted", "message": ""}
        time = status["conditions"][0]["lastTransitionTime"]
        status["conditions"] = [*status["conditions"], {**evicted, "lastTransitionTime": time}]
    if choices.one_in(4):
        pods = choices.pick(status["admission"]["podSetAssignments"])
        status["reclaimablePods"] = [{"name": pods["name"], "count": choices.number(0, pods["count"])}]
    return {**body, "status": status}


def _changed(case: Case, choices: Choices) -> Case:
    """Return a case whose platform may have changed after the admission of the workloads."""
    objects = copy.deepcopy(case.objects)
    queues = [body["spec"] for body in objects if body["kind"] == "ClusterQueue"]
    for spec in queues:
        group = choices.pick(spec["resourceGroups"])
        flavors = group["flavors"]
        if choices.one_in(3):
            quota = choices.pick(choices.pick(flavors)["resources"])
            quota["nominalQuota"] = choices.pick(AMOUNTS[quota["name"]])
            quota.pop("lendingLimit", None)
        if choices.one_in(8) and len(flavors) > 1:
            del flavors[choices.below(len(flavors))]
        if choices.one_in(8):
            spec["cohortName"] = f"{PREFIX}c{choices.below(3)}"
        if choices.one_in(12):
            spec["stopPolicy"] = "Hold"
    if choices.one_in(12):
        left_out = choices.below(len(objects))
        objects = (*objects[:left_out], *objects[left_out + 1 :])
    changed = replace(case, objects=objects)
    tree = CohortTree(changed.model)
    # Kueue's process ends with a stack overflow when it counts a workload below a cycle of cohorts.
    return case if any(map(tree.is_cyclic, tree.cohorts)) else changed


def timestamp(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
