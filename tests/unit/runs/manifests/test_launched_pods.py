"""The pods of a launch, read from the builders' manifests."""

import pytest

from tests.unit.make import make_distributed, make_run
from tests.unit.runs.launches import make_launch
from trainstack.runs.manifests.build import companions, manifest
from trainstack.runs.manifests.kind import LaunchedPods
from trainstack.runs.manifests.launched_pods import launched_pods
from trainstack.runs.role_pods import NODE
from trainstack.settings.sections.workloads import ReplicatedJob, Workload

JOBS = (ReplicatedJob(name="driver"), ReplicatedJob(name="workers", replicas=2, parallelism=2, completions=4))


def make_objects(workload: Workload) -> tuple[LaunchedPods, ...]:
    """Return the pods of a workload's launch, with its companions."""
    launch = make_launch()
    return launched_pods(manifest(workload, "dev", launch), companions(workload, "dev", launch))


@pytest.mark.parametrize(
    ("workload", "counts"),
    [
        (make_run(), [1]),
        (make_run(kind="Pod"), [1]),
        (make_run(managed=False, completions=4, parallelism=2), [2]),
        (make_run(managed=False, completions=2, parallelism=4), [2]),
        (make_distributed(), [1, 2]),
        (make_distributed(kind="TrainJob"), [3]),
        (make_run(kind="JobSet", managed=False, replicated_jobs=JOBS), [1, 4]),
    ],
    ids=["Job", "Pod", "Job of many", "Job of few", "PyTorchJob", "TrainJob", "JobSet"],
)
def test_the_pods_of_every_kind_are_read(workload: Workload, counts: list[int]) -> None:
    """The result has their number, their volumes, and the image and resources of each container."""
    found = make_objects(workload)
    assert [pods.count for pods in found] == counts
    for pods in found:
        assert "training" in [
            volume["persistentVolumeClaim"]["claimName"]
            for volume in pods.spec["volumes"]
            if "persistentVolumeClaim" in volume
        ]
        (container,) = pods.spec["containers"]
        assert container["resources"]["requests"]
        assert container["image"]


def test_a_trainjob_without_its_runtime_has_its_own_values() -> None:
    """They are the number of nodes and the resources per node."""
    launch = manifest(make_distributed(kind="TrainJob"), "dev", make_launch())
    (pods,) = launched_pods(launch)
    trainer = launch["spec"]["trainer"]
    assert (pods.count, list(pods.spec)) == (3, ["containers"])
    (container,) = pods.spec["containers"]
    assert (container["name"], container["resources"]) == (NODE, trainer["resourcesPerNode"])


def test_a_trainjobs_pods_are_those_of_its_workload_as_a_pytorchjob() -> None:
    """They are the runtime's, with the values of the TrainJob."""
    (node,) = make_objects(make_distributed(kind="TrainJob"))
    master = make_objects(make_distributed())[0]
    (of_node,), (of_master,) = node.spec["containers"], master.spec["containers"]
    for key in ("image", "command", "args", "resources", "volumeMounts"):
        assert of_node.get(key) == of_master.get(key), key


def test_an_object_that_is_not_a_launch_has_no_pods() -> None:
    """It is not an error."""
    assert launched_pods({"kind": "ConfigMap", "data": {}}) == ()
