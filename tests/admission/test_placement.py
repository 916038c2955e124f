"""Verdicts with topologies by Kueue's own code, from a read of a cluster."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.make import make_cluster_queue, make_group, make_queues, make_run, make_settings
from tests.unit.preflight.cluster_cases import make_live
from trainstack.cli.kueue_judge import JudgeProgram, judged_release, kueue_judge
from trainstack.kueue.format import summary
from trainstack.kueue.verdict import Verdict
from trainstack.preflight.live_context import LiveContext, LiveOperator
from trainstack.settings.sections.queues import ResourceFlavor, Topology
from trainstack.settings.sections.topology import TopologyRequest
from trainstack.settings.sections.workloads import Resources, Workload
from trainstack.settings.values.kubernetes import HOSTNAME
from trainstack.stack_objects.stack_objects import StackObjects
from trainstack.toolchain import tools

Body = dict[str, Any]
RELEASE = judged_release()
BLOCK, RACK = "example.com/block", "example.com/rack"
QUOTA = {"cpu": "100k", "memory": "100Ti"}


@pytest.fixture(scope="module")
def program() -> JudgeProgram:
    tools.ensure([tools.JUDGE_GROUP])
    found = kueue_judge(RELEASE)
    assert isinstance(found, JudgeProgram)
    return found


def make_nodes(count: int = 4, cpu: str = "4") -> tuple[Body, ...]:
    """Two nodes in a rack, two racks in a block."""
    return tuple(
        {
            "kind": "Node",
            "metadata": {
                "name": f"n{number}",
                "labels": {"pool": "cpu", BLOCK: f"b{number // 4}", RACK: f"r{number // 2}", HOSTNAME: f"n{number}"},
            },
            "spec": {},
            "status": {
                "allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        for number in range(count)
    )


def make_pods(count: int, request: TopologyRequest, name: str = "train", cpu: str = "4") -> Workload:
    return make_run(
        name=name,
        parallelism=count,
        completions=count,
        resources=Resources(requests={"cpu": cpu, "memory": "1Gi"}),
        topology_request=request,
    )


def make_pod(node: str, owner: str, cpu: str = "4") -> Body:
    container = {"name": "one", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"name": f"{owner}-{node}".lower(), "namespace": "other", "ownerReferences": [{"kind": owner}]},
        "spec": {"nodeName": node, "containers": [container]},
        "status": {"phase": "Running"},
    }


def make_placed(hosts: list[str], priority: int = 1000) -> Body:
    """A Workload with a pod of 4 cpu on each of these hosts."""
    container = {"name": "one", "resources": {"requests": {"cpu": "4", "memory": "1Gi"}}}
    pods = {
        "name": "main",
        "count": len(hosts),
        "template": {"spec": {"containers": [container]}},
        "topologyRequest": {"required": RACK},
    }
    usage = {"cpu": str(4 * len(hosts)), "memory": f"{len(hosts)}Gi"}
    values = {"individual": {"roots": hosts}}
    placed = {
        "levels": [HOSTNAME],
        "slices": [
            {"domainCount": len(hosts), "valuesPerLevel": [values], "podCounts": {"universal": 1}},
        ],
    }
    assignment = {
        "name": "main",
        "count": len(hosts),
        "flavors": {"cpu": "cpu", "memory": "cpu"},
        "resourceUsage": usage,
        "topologyAssignment": placed,
    }
    now = "2026-01-01T00:00:00Z"
    reserved = {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": ""}
    return {
        "kind": "Workload",
        "metadata": {"name": "busy", "namespace": "research", "uid": "busy", "creationTimestamp": now},
        "spec": {"queueName": "research", "priority": priority, "podSets": [pods]},
        "status": {
            "conditions": [{**reserved, "lastTransitionTime": now}],
            "admission": {"clusterQueue": "research", "podSetAssignments": [assignment]},
        },
    }


def verdicts(
    program: JudgeProgram | str,
    *runs: Workload,
    nodes: tuple[Body, ...] | None = None,
    pods: tuple[Body, ...] = (),
    workloads: tuple[Body, ...] = (),
    release: str = RELEASE,
    **queue: Any,
) -> dict[str, Verdict]:
    queues = make_queues(
        topologies=(Topology(name="racks", levels=(BLOCK, RACK, HOSTNAME)),),
        flavors=(ResourceFlavor(name="cpu", node_labels={"pool": "cpu"}, topology="racks"),),
        cluster_queues=(make_cluster_queue(resource_groups=(make_group(("cpu", QUOTA)),), **queue),),
    )
    live = make_live({"Node": make_nodes() if nodes is None else nodes}, bound_pods=pods)
    live = replace(live, admission={**live.admission, "Topology": (), "Workload": workloads})
    assert live.operators is not None
    kueue = live.operators["kueue"]
    assert isinstance(kueue, LiveOperator)
    live = replace(live, operators={**live.operators, "kueue": replace(kueue, release=release)})
    settings = make_settings(*runs, queues=queues)
    settings = settings.model_copy(update={"operators": settings.operators.model_copy(update={"kueue": None})})
    context = LiveContext(StackObjects(settings), live, {}, judge=lambda _: program)
    return {verdict.name: verdict for verdict in context.verdicts}


def outcome(program: JudgeProgram, request: TopologyRequest, count: int, **cluster: Any) -> str:
    (verdict,) = verdicts(program, make_pods(count, request), **cluster).values()
    return summary(verdict)


def test_pods_are_placed_where_kueue_would_place_them(program: JudgeProgram) -> None:
    """A required level places all pods in one domain; a preferred level uses as few domains as possible."""
    mark = f"(by the code of Kueue {RELEASE})"
    required = TopologyRequest(required=RACK)
    assert outcome(program, required, 2) == f"fits {mark}: on cpu, in {RACK} r0"
    assert outcome(program, TopologyRequest(preferred=RACK), 3) == f"fits {mark}: on cpu, in {BLOCK} b0"
    assert outcome(program, TopologyRequest(unconstrained=True), 5, nodes=make_nodes(8)) == (
        f"fits {mark}: on cpu, in 2 of {BLOCK}"
    )
    assert outcome(program, required, 3) == (
        f"never fits {mark}: no {RACK} has room for the 3 pods even without other workloads "
        '(Kueue: topology "racks" allows to fit only 2 out of 3 pod(s))'
    )
    slices = TopologyRequest(required=BLOCK, pod_set_slice_required_topology=RACK, pod_set_slice_size=2)
    assert outcome(program, slices, 4).startswith(f"fits {mark}")


def test_pods_on_the_nodes_use_their_capacity(program: JudgeProgram) -> None:
    """The pods that Kueue has placed count, and all others; on an idle cluster only those of DaemonSets."""
    required = TopologyRequest(required=RACK)
    wait = f"waits (by the code of Kueue {RELEASE}): no example.com/rack has room for the 2 pods now"
    assert outcome(program, required, 2, workloads=(make_placed(["n0"]),)).endswith("r1")
    assert outcome(program, required, 2, workloads=(make_placed(["n0", "n2"]),)).startswith(wait)
    assert outcome(program, required, 2, pods=(make_pod("n0", "ReplicaSet"), make_pod("n2", "ReplicaSet"))).startswith(
        wait
    )
    whole = make_pod("n0", "ReplicaSet-whole")
    whole["spec"]["resources"] = whole["spec"]["containers"][0].pop("resources")
    assert outcome(program, required, 2, pods=(whole, make_pod("n2", "ReplicaSet"))).startswith(wait)
    always = (make_pod("n0", "DaemonSet"), make_pod("n2", "DaemonSet"))
    assert outcome(program, required, 2, pods=always).startswith("never fits")
    cordoned = tuple({**node, "spec": {"unschedulable": True}} for node in make_nodes())
    assert outcome(program, required, 2, nodes=cordoned).startswith(wait)


def test_the_verdict_has_the_workloads_that_are_preempted_for_a_rack(program: JudgeProgram) -> None:
    """The quota would suffice for both."""
    preemption = {"preemption": {"withinClusterQueue": "LowerPriority"}}
    queue = make_cluster_queue().model_validate({**make_cluster_queue().model_dump(by_alias=True), **preemption})
    found = outcome(
        program,
        TopologyRequest(required=RACK),
        2,
        workloads=(make_placed(["n0", "n2"], priority=1),),
        preemption=queue.preemption,
    )
    assert found == f"fits by preempting (by the code of Kueue {RELEASE}): preempts research/busy"


def test_in_a_strict_queue_a_workload_without_a_rack_holds_up_those_behind_it(program: JudgeProgram) -> None:
    waiting = make_placed(["n0", "n1", "n2"])
    del waiting["status"]
    found = outcome(program, TopologyRequest(required=RACK), 2, workloads=(waiting,), queueing_strategy="StrictFIFO")
    assert found == (
        "waits: cluster queue research is StrictFIFO: research/busy never fits, and holds up all workloads behind it"
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"release": "v0.15.1"}, f"kueue-judge is of Kueue {RELEASE}, but Kueue v0.15.1 admits the run"),
        ({"pods": None}, "these credentials cannot read pods of all namespaces"),
    ],
)
def test_without_all_that_decides_the_verdict_is_unknown(
    program: JudgeProgram, changes: dict[str, Any], reason: str
) -> None:
    assert outcome(program, TopologyRequest(required=RACK), 2, **changes) == (
        "unknown: on cpu; the quota is available, and the nodes of flavor cpu decide whether the pods can be placed: "
        f"{reason}"
    )
