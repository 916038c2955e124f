"""Components in a Pulumi program without settings models: dicts and lists, and no hooks."""

from typing import Any

import pulumi
import pytest

from tests.unit.components.declare import declare
from trainstack.components.queues import Queues
from trainstack.components.runs import TrainingRun
from trainstack.components.sections import validate_section
from trainstack.components.sweeps import Sweep
from trainstack.settings.sections.sweeps import Sweep as SweepSettings

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
SWEEP: dict[str, Any] = {
    "name": "search",
    "run": {key: value for key, value in RUN.items() if key != "name"},
    "space": {
        "method": "grid",
        "parameters": {"lr": {"values": [0.1, 0.01]}},
        "objective": {"metric": "loss", "direction": "minimize"},
        "args": ["${parameters.lr}"],
    },
}
GPU = {"limits": {"nvidia.com/gpu": 1}}
MANAGED = {
    "managed": True,
    "record": {"volume": "training"},
    "volumes": [{"volume": "training", "mountPath": "/mnt/training"}],
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
    """Only the commands of the checkout know the image that it builds."""
    with pytest.raises(pulumi.RunError, match=r"run hello: image\.build requires a checkout of the trainstack project"):
        declare(lambda opts: TrainingRun("hello", {**RUN, "image": {"build": "workloads/hello"}}, opts))


def test_a_sweep_from_a_dict() -> None:
    """Each set of the space is a launch with its own ledger, without hooks."""
    found = declare(lambda opts: Sweep("search", SWEEP, opts))
    sweep = found["Sweep search"]
    jobs = [registration for key, registration in found.items() if key.startswith("Job ")]
    ledgers = [registration for key, registration in found.items() if key.startswith("ConfigMap ")]
    assert sweep.type == "trainstack:training:Sweep"
    assert sorted(sweep.outputs["launches"]) == sorted(job.name for job in jobs)
    containers = [job.inputs["spec"]["template"]["spec"]["containers"][0] for job in jobs]
    assert sorted(container["args"][-1] for container in containers) == ["0.01", "0.1"]
    assert sorted(ledger.dependencies for ledger in ledgers) == sorted([job.name] for job in jobs)
    # A change of the sets may renumber a trial, and must not replace its Job.
    assert [job.options["ignoreChanges"] for job in jobs] == [["metadata", "spec"]] * 2
    for registration in (*jobs, *ledgers):
        assert registration.parent == "search"
        assert not registration.hooks
        assert not registration.options["protect"]
        assert not registration.options["retainOnDelete"]
        assert registration.inputs["metadata"]["labels"]["trainstack.dev/stack"] == "dev"


def test_an_indexed_sweep_from_a_dict() -> None:
    """One Job for all sets, after the wrapper and the parameter file that its pods mount."""
    args = {**SWEEP, "form": "indexed", "parallelism": 1, "run": {**SWEEP["run"], **MANAGED}}
    found = declare(lambda opts: Sweep("search", args, opts))
    (job,) = (registration for key, registration in found.items() if key.startswith("Job "))
    assert job.inputs["spec"]["completions"] == 2
    assert job.inputs["spec"]["completionMode"] == "Indexed"
    parameters, wrapper = (found[f"ConfigMap {name}"] for name in job.dependencies)
    assert "hyperparams.yml" in parameters.inputs["data"]
    assert "run.py" in wrapper.inputs["data"]


def test_the_parameter_file_of_a_sweep_is_retained_after_a_change_of_its_sets() -> None:
    """Other sets are another file; a queued launch of an unchanged trial still mounts the old one."""
    args = {**SWEEP, "space": {**SWEEP["space"], "file": "/search/hyperparams.yml"}}
    found = declare(lambda opts: Sweep("search", args, opts))
    jobs = [registration for key, registration in found.items() if key.startswith("Job ")]
    (file,) = {name for job in jobs for name in job.dependencies}
    for registration in found.values():
        assert registration.options["retainOnDelete"] == (registration.name == file)


def test_a_sweep_of_typed_models_declares_the_same() -> None:
    """A dict is validated as the model."""
    typed = validate_section(SweepSettings, {**SWEEP, "run": RUN | {"name": "search"}})
    assert declare(lambda opts: Sweep("search", typed, opts)) == declare(lambda opts: Sweep("search", SWEEP, opts))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"run": {**SWEEP["run"], "image": {"build": "."}}}, r"run search: image\.build requires a checkout"),
        ({"run": {**SWEEP["run"], "name": "other"}}, r"sweep search: run\.name is other"),
        ({"form": "batch"}, r"Sweep: form: Input should be 'jobs' or 'indexed'"),
        ({"space": {**SWEEP["space"], "constraints": ["lr > 1"]}}, r"sweep search: space\.constraints: "),
        ({"space": {**SWEEP["space"], "method": "random"}}, r"sweep search: space\.method: "),
        ({"run": {**SWEEP["run"], "command": ["echo", "x" * 2**20]}}, r"workload search: the ledger of .* needs"),
        (
            {"maxGpuHours": 1, "run": {**SWEEP["run"], "activeDeadlineSeconds": 3600, "resources": GPU}},
            r"sweep search: the trials may take 2\.0 GPU hours, more than maxGpuHours \(1\)",
        ),
    ],
)
def test_a_sweep_that_cannot_be_built_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(pulumi.RunError, match=message):
        declare(lambda opts: Sweep("search", {**SWEEP, **changes}, opts))
