"""Let kueue-judge place 10 runs in racks of many nodes, and print the seconds that its process takes.

    python -m bench.programs.judge_nodes 500

Two nodes form a rack, two racks a block. Each node has five pods that do not belong to Kueue.
"""

import resource
import sys
from typing import Any

from bench.programs.clock import Clock
from trainstack.cli.kueue_judge import judged_release, kueue_judge
from trainstack.toolchain import tools

_BLOCK, _RACK, _HOSTNAME = "example.com/block", "example.com/rack", "kubernetes.io/hostname"
_NAME = "research"
_PODS_PER_NODE = 5
_RUNS = 10

Body = dict[str, Any]


def _object(kind: str, name: str, spec: Body, namespace: str = "", **fields: Any) -> Body:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"kind": kind, "metadata": metadata, "spec": spec, **fields}


def _queues() -> list[Body]:
    quotas = [{"name": "cpu", "nominalQuota": "100k"}, {"name": "memory", "nominalQuota": "100Ti"}]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "cpu", "resources": quotas}]}
    levels = [{"nodeLabel": label} for label in (_BLOCK, _RACK, _HOSTNAME)]
    return [
        _object("Topology", "racks", {"levels": levels}),
        _object("ResourceFlavor", "cpu", {"nodeLabels": {"pool": "cpu"}, "topologyName": "racks"}),
        _object("ClusterQueue", _NAME, {"namespaceSelector": {}, "resourceGroups": [group]}),
        _object("LocalQueue", _NAME, {"clusterQueue": _NAME}, _NAME),
        {"kind": "Namespace", "metadata": {"name": _NAME}},
    ]


def _node(number: int) -> Body:
    name = f"n{number}"
    labels = {"pool": "cpu", _BLOCK: f"b{number // 4}", _RACK: f"r{number // 2}", _HOSTNAME: name}
    allocatable = {"cpu": "4", "memory": "64Gi", "pods": "110"}
    status = {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {}, "status": status}


def _template(cpu: str, memory: str, **spec: Any) -> Body:
    requests = {"cpu": cpu, "memory": memory}
    return {"containers": [{"name": "main", "resources": {"requests": requests}}], **spec}


def _run(number: int) -> Body:
    count = 2 + number % 3
    template = {"spec": _template("1", "1Gi")}
    pods = {"name": "main", "count": count, "template": template, "topologyRequest": {"required": _RACK}}
    return _object("Workload", f"run-{number}", {"queueName": _NAME, "priority": 0, "podSets": [pods]}, _NAME)


def main(nodes: int) -> None:
    tools.ensure([tools.JUDGE_GROUP])
    judge = kueue_judge(judged_release())
    if isinstance(judge, str):
        raise SystemExit(judge)
    pods = [
        _object("Pod", f"pod-{number}", _template("100m", "1Mi", nodeName=f"n{number % nodes}"))
        for number in range(nodes * _PODS_PER_NODE)
    ]
    runs = [_run(number) for number in range(_RUNS)]
    case = {"objects": [*_queues(), *map(_node, range(nodes)), *pods], "submit": runs, "alone": True}
    clock = Clock()
    before = _cpu_of_children()
    (answer,) = judge.ask([case])
    seconds = {**clock.seconds(), "cpu_seconds": _cpu_of_children() - before}
    if sum(verdict.get("mode") == "Fit" for verdict in answer.get("verdicts") or ()) != _RUNS:
        raise SystemExit(f"not every run fits: {answer}")
    clock.show(seconds)


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main(int(sys.argv[1]))
