"""A run that requests a GPU product gets quota of its flavor only, and its pods run on nodes with this product."""

import copy as copies
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.lab import launch, true_conditions
from tests.cluster.people import NAMESPACE, OTHER_PRODUCT, PRODUCT, QUEUE, Person
from tests.cluster.project import Project, eventually
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.simulated_gpus import DURATION_ANNOTATION, GPU, GPU_PRODUCT, SIMULATED_NODE_KEY, node_name
from trainstack.local_cluster.spec import NODE_NAME

pytestmark = pytest.mark.cluster

FLAVOR, OTHER_FLAVOR = "a100-mig-1g-5gb", "h100-80gb"


@pytest.fixture
def _other_product(owner: Person) -> Iterator[None]:
    """Add quota of another product to the tenant's queue; simulated nodes have this product."""
    queue = owner.get("clusterqueue", NAMESPACE)
    (group,) = copies.deepcopy(queue["spec"]["resourceGroups"])
    quotas = [{"name": name, "nominalQuota": quota} for name, quota in (("cpu", 16), ("memory", "32Gi"), (GPU, 8))]
    group["flavors"].append({"name": OTHER_FLAVOR, "resources": quotas})
    owner.create(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "ResourceFlavor",
            "metadata": {"name": OTHER_FLAVOR},
            "spec": {
                "nodeLabels": {GPU_PRODUCT: OTHER_PRODUCT},
                "tolerations": [{"key": SIMULATED_NODE_KEY, "operator": "Exists"}],
            },
        }
    )
    try:
        owner.patch("clusterqueue", NAMESPACE, {"spec": {"resourceGroups": [group]}})
        yield
    finally:
        owner.patch("clusterqueue", NAMESPACE, {"spec": {"resourceGroups": queue["spec"]["resourceGroups"]}})
        done = owner.kubectl("delete", "resourceflavor", OTHER_FLAVOR, "--timeout=60s")
        assert done.code == 0, done.text


@pytest.fixture
def project(sites: LocalCluster, tenant: Person, _other_product: None, tmp_path: Path) -> Iterator[Project]:
    """Yield a tenant's project with two runs: one holds all GPUs of a product, one requests the other product."""
    runs = [
        make_run("holds", PRODUCT, 4, "sh", "-c", "trap exit TERM; sleep infinity & wait"),
        {**make_run("other", OTHER_PRODUCT, 8, "echo", "trained"), "annotations": {DURATION_ANNOTATION: "10s"}},
    ]
    environment = {"profile": "tenant", "layers": ["training"], "existing": {"namespaces": [NAMESPACE]}}
    config = {
        "trainstack:environment": environment,
        "trainstack:queues": {"priorityClasses": None},
        "trainstack:workloads": {"runs": runs},
    }
    copied = Project.copy(tmp_path / "copy", sites)
    stack = Project(copied.root, tenant.kubeconfig, copied.stack).other_stack("products", config)
    try:
        yield stack
    finally:
        stack.take_down()


def make_run(name: str, product: str, gpus: int, *command: str) -> dict[str, Any]:
    """Return a Job of the tenant that requests this number of GPUs of a product."""
    return {
        "name": name,
        "kind": "Job",
        "naming": "generated",
        "managed": False,
        "security": "baseline",
        "namespace": NAMESPACE,
        "queue": QUEUE,
        "image": {"name": "busybox"},
        "command": [*command],
        "resources": {
            "requests": {"cpu": "10m", "memory": "16Mi"},
            "limits": {"cpu": "1", "memory": "64Mi", GPU: gpus},
        },
        "nodeSelector": {GPU_PRODUCT: product},
        "completions": 1,
        "backoffLimit": 0,
    }


WAITS = make_run("waits", PRODUCT, 1, "sh", "-c", "sleep 3; echo trained")


def test_a_run_gets_only_the_product_that_it_requests(project: Project, owner: Person, tenant: Person) -> None:
    """If the quota of its product is used up, it waits although another product is free; `status` has the reason."""
    done = project.up()
    assert done.code == 0, done.text
    holds, other = (launch(project, name, NAMESPACE) for name in ("holds", "other"))

    assert flavors(owner, other) == {OTHER_FLAVOR}
    eventually("the other product's run ends", lambda: "Complete" in conditions(owner, other))
    assert nodes(owner, other) == [node_name(0)]
    eventually("a pod of the one that holds all", lambda: nodes(owner, holds) == [NODE_NAME])
    assert flavors(owner, holds) == {FLAVOR}

    # All GPUs of the other product are free again.
    project.edit_stack(lambda config: config["trainstack:workloads"]["runs"].append(WAITS))
    done = project.up()
    assert done.code == 0, done.text
    waits = launch(project, "waits", NAMESPACE)

    def reasons() -> str:
        (workload,) = workloads(owner, waits)
        assert "admission" not in workload.get("status", {})
        return " ".join(condition["message"] for condition in workload.get("status", {}).get("conditions", ()))

    # Kueue resumes at the flavor after its last attempt, so its message may not have the first flavor.
    eventually("Kueue says why not there", lambda: f"flavor {OTHER_FLAVOR} doesn't match node affinity" in reasons())
    assert nodes(owner, waits) == []
    (view,) = json.loads(project.trainstack("status", "waits", "--json").out)
    assert f"flavor {OTHER_FLAVOR} does not match its node selector" in view["waits_because"]

    assert tenant.kubectl("delete", "job", "-n", NAMESPACE, holds["metadata"]["name"]).code == 0
    assert flavors(owner, waits) == {FLAVOR}
    eventually("it ends", lambda: "Complete" in conditions(owner, waits))
    assert nodes(owner, waits) == [NODE_NAME]
    assert project.trainstack("logs", "waits").out.endswith("trained\n")


def conditions(owner: Person, job: dict[str, Any]) -> set[str]:
    """Return the types of a Job's true conditions."""
    return true_conditions(owner.get("job", job["metadata"]["name"], NAMESPACE))


def workloads(owner: Person, job: dict[str, Any]) -> list[dict[str, Any]]:
    """Return Kueue's Workloads of a Job."""
    selector = f"kueue.x-k8s.io/job-uid={job['metadata']['uid']}"
    return owner.items("workloads.kueue.x-k8s.io", NAMESPACE, selector)


def flavors(owner: Person, job: dict[str, Any]) -> set[str]:
    """Wait for the admission of a Job, and return the flavors of its quota."""

    def assigned() -> list[dict[str, Any]]:
        admissions = (workload.get("status", {}).get("admission", {}) for workload in workloads(owner, job))
        return [assignment for admission in admissions for assignment in admission.get("podSetAssignments", ())]

    assignments = eventually(f"{job['metadata']['name']} is admitted", assigned)
    return {flavor for assignment in assignments for flavor in assignment["flavors"].values()}


def nodes(owner: Person, job: dict[str, Any]) -> list[str]:
    """Return the nodes of a Job's pods."""
    return [pod["spec"].get("nodeName", "") for pod in owner.pods(f"job-name={job['metadata']['name']}", NAMESPACE)]
