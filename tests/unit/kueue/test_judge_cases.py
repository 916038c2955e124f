"""The input and output of the program that runs Kueue's own code."""

from pathlib import Path
from typing import Any

import pytest

from trainstack.cli.kueue_judge import JudgeProgram
from trainstack.kueue.from_objects import read_queue_state
from trainstack.kueue.judge_cases import judge_case
from trainstack.kueue.placement import JudgeError

Body = dict[str, Any]
LEVEL = "example.com/rack"
NOW = "2026-01-01T00:00:00Z"
OBJECTS: tuple[Body, ...] = (
    {"kind": "Topology", "metadata": {"name": "racks"}, "spec": {"levels": [{"nodeLabel": LEVEL}]}},
    {"kind": "ResourceFlavor", "metadata": {"name": "cpu"}, "spec": {"topologyName": "racks"}},
    {"kind": "Node", "metadata": {"name": "n0", "labels": {LEVEL: "r0"}}},
)


def objects_of(kind: str, *objects: Body, pods: tuple[Body, ...] = ()) -> list[Body]:
    """Return the objects of a kind in a case."""
    found = judge_case(read_queue_state([*OBJECTS, *objects]), pods, [], idle=False)
    return [body for body in found["objects"] if body["kind"] == kind]


def test_pod_level_requests_are_passed() -> None:
    resources = {"requests": {"cpu": "4"}, "limits": {"cpu": "8"}}
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n0", "containers": [{"name": "c"}], "resources": resources}}
    (passed,) = objects_of("Pod", pods=(pod,))
    assert passed["spec"]["resources"] == {"requests": {"cpu": "4"}}


def make_reserving(name: str, *conditions: str) -> Body:
    pods = {"name": "main", "count": 1, "template": {"spec": {"containers": []}}}
    assignment = {"name": "main", "count": 1, "flavors": {}, "resourceUsage": {}}
    return {
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "ns", "creationTimestamp": NOW},
        "spec": {"queueName": "q", "podSets": [pods]},
        "status": {
            "conditions": [
                {"type": condition, "status": "True", "lastTransitionTime": NOW} for condition in conditions
            ],
            "admission": {"clusterQueue": "q", "podSetAssignments": [assignment]},
        },
    }


def test_only_workloads_with_reserved_quota_are_passed() -> None:
    """By default Kueue retains finished Workloads, so there may be thousands."""
    running, ended = make_reserving("a", "QuotaReserved"), make_reserving("b", "QuotaReserved", "Finished")
    assert [body["metadata"]["name"] for body in objects_of("Workload", running, ended)] == ["a"]


@pytest.mark.parametrize("text", ["[]", '[{"verdicts": [', "{}", ""])
def test_an_output_that_does_not_answer_every_case_is_an_error(tmp_path: Path, text: str) -> None:
    program = tmp_path / "kueue-judge"
    program.write_text(f"#!/bin/sh\ncat > /dev/null\ncat <<'END'\n{text}\nEND\n")
    program.chmod(0o755)
    with pytest.raises(JudgeError, match="kueue-judge does not answer"):
        JudgeProgram(program, "v0.15.2").ask([{"objects": []}])
