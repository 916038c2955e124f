"""Components in a Pulumi program that has no settings of ours: dicts and lists, and no hooks."""

from typing import Any

import pulumi
import pytest

from tests.unit.components.declare import declare
from trainstack.components.queues import Queues
from trainstack.components.runs import TrainingRun

QUEUES: dict[str, Any] = {
    "flavors": [{"name": "cpu"}],
    "clusterQueues": [
        {
            "name": "research",
            "namespaces": ["research"],
            "resourceGroups": [
                {
                    "coveredResources": ["cpu"],
                    "flavors": [{"name": "cpu", "resources": [{"name": "cpu", "nominalQuota": "4"}]}],
                }
            ],
        }
    ],
    "localQueues": [{"name": "research", "namespace": "research", "clusterQueue": "research"}],
}
RUN: dict[str, Any] = {
    "name": "hello",
    "kind": "Job",
    "namespace": "research",
    "queue": "research",
    "managed": False,
    "image": {"name": "busybox:1.35"},
    "command": ["echo", "hello"],
    "resources": {"requests": {"cpu": "1", "memory": "64Mi"}, "limits": {"memory": "64Mi"}},
}


def test_queues_from_a_dict() -> None:
    """The objects have the order that Kueue needs, the label of the Pulumi stack, and no hooks."""
    found = declare(lambda opts: Queues("queues", QUEUES, opts))
    queue = found["ClusterQueue research"]
    assert queue.inputs["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] == "4"
    assert queue.inputs["metadata"]["labels"]["trainstack.dev/stack"] == "dev"
    assert queue.dependencies == ["cpu"]
    assert not queue.hooks


def test_a_fault_of_a_dict_has_its_path() -> None:
    """The program ends before the engine receives an object."""
    broken = {**QUEUES, "localQueues": [{"name": "research", "namespace": "research"}]}
    with pytest.raises(pulumi.RunError, match=r"Queues: localQueues\.0\.clusterQueue: Field required"):
        declare(lambda opts: Queues("queues", broken, opts))


def test_a_run_from_a_dict() -> None:
    """The launch is named after its content, and its ledger follows it."""
    found = declare(lambda opts: TrainingRun("hello", RUN, opts))
    (job,) = (registration for key, registration in found.items() if key.startswith("Job "))
    assert job.name.startswith("research/hello-")
    assert job.inputs["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "research"
    assert job.inputs["spec"]["template"]["spec"]["containers"][0]["image"] == "busybox:1.35"
    assert not job.hooks
    (ledger,) = (registration for key, registration in found.items() if key.startswith("ConfigMap "))
    assert ledger.dependencies == [job.name]
    assert found["TrainingRun hello"].outputs["launch"] == job.name


def test_a_run_that_needs_a_checkout_is_refused() -> None:
    """An image that this repository builds is known to its commands alone."""
    with pytest.raises(pulumi.RunError, match=r"run hello: TrainingRun takes `image\.name`"):
        declare(lambda opts: TrainingRun("hello", {**RUN, "image": {"build": "workloads/hello"}}, opts))
