"""Kubeflow Trainer v2 and JobSet: an environment installs them, and runs of both kinds pass through a queue."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.project import ROOT, Project, eventually
from tests.local_clusters import cluster_for_dev
from trainstack.local_cluster.cluster import LocalCluster

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

NAMESPACE = "research"
GO = "/mnt/training/go"
SET = {
    "name": "pair",
    "kind": "JobSet",
    "namespace": NAMESPACE,
    "queue": "research",
    "managed": False,
    "image": {"name": "busybox:1.35"},
    "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
    "runAsUser": 1000,
    "volumes": [{"volume": "training", "mountPath": "/mnt/training"}],
    "replicatedJobs": [
        {"name": "driver", "command": ["sh", "-c", f"until [ -e {GO} ]; do sleep 0.2; done"]},
        # The workers run longer than the test; the set succeeds with its driver.
        {"name": "workers", "parallelism": 2, "command": ["sh", "-c", "trap 'exit 0' TERM; sleep 3600 & wait $!"]},
    ],
    "successPolicy": {"operator": "All", "targetReplicatedJobs": ["driver"]},
}
"""A driver, which waits for a file, and two workers."""
RECORDED_SET: dict[str, Any] = {
    "name": "digits-set",
    "from": "digits",
    "kind": "JobSet",
    "roles": None,
    "namespace": NAMESPACE,
    "queue": "research",
    "replicatedJobs": [{"name": "node", "parallelism": 2}],
}
"""The training of workloads/digits, on the two nodes of a JobSet."""


@pytest.fixture(scope="module")
def dedicated_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Yield a cluster on which no other test has installed Kueue."""
    with cluster_for_dev(tmp_path_factory.mktemp("trainer")) as running:
        yield running


@pytest.fixture(scope="module")
def project(dedicated_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return the dev environment with its queue on hold."""
    checkout = Project.copy(tmp_path_factory.mktemp("project"), dedicated_cluster)
    config: dict[str, Any] = yaml.safe_load((ROOT / "Pulumi.dev.yaml").read_text())["config"]
    config["trainstack:queues"]["clusterQueues"][0]["stopPolicy"] = "Hold"
    return checkout.other_stack("trainer", config)


@pytest.fixture(scope="module")
def up(project: Project) -> Project:
    """Deploy the environment on a fresh cluster with one `up`."""
    done = project.up(seconds=420)
    assert done.code == 0, done.text
    return project


def only_object(project: Project, kind: str, workload: str) -> dict[str, Any]:
    """Return the only object of this kind of a workload."""
    (body,) = project.select(kind, f"trainstack.dev/workload={workload}", NAMESPACE)
    return body


def true_conditions(body: dict[str, Any]) -> set[str]:
    """Return the types of the conditions with status True."""
    return {
        condition["type"] for condition in body.get("status", {}).get("conditions", ()) if condition["status"] == "True"
    }


def kueue_workload(project: Project, body: dict[str, Any]) -> dict[str, Any]:
    """Wait for Kueue's Workload of a launch, and return it."""

    def found() -> dict[str, Any] | None:
        selector = f"kueue.x-k8s.io/job-uid={body['metadata']['uid']}"
        return next(iter(project.select("workloads.kueue.x-k8s.io", selector, NAMESPACE)), None)

    workload: dict[str, Any] = eventually(f"a Workload of {body['metadata']['name']}", found)
    return workload


def pods_of(project: Project, workload: str) -> list[dict[str, Any]]:
    """Return a workload's pods."""
    return project.select("pods", f"trainstack.dev/workload={workload}", NAMESPACE)


def phases(project: Project, workload: str) -> list[str]:
    """Return the phases of a workload's pods."""
    return [pod["status"]["phase"] for pod in pods_of(project, workload)]


def run_id(body: dict[str, Any]) -> str:
    """Return the run id of a launch."""
    return str(body["metadata"]["labels"]["trainstack.dev/run"])


def assert_no_changes(project: Project) -> None:
    """Assert that a further `up`, which reads all live objects, changes nothing."""
    done = project.up("--refresh", "--expect-no-changes")
    assert done.code == 0, done.text


def open_queue(project: Project) -> None:
    """Remove the queue's stop policy from the environment, and deploy it."""
    project.edit_stack(lambda config: config["trainstack:queues"]["clusterQueues"][0].pop("stopPolicy"))
    done = project.up()
    assert done.code == 0, done.text


def test_digits_train_as_a_trainjob_of_three_nodes(up: Project) -> None:
    """A further `up` never changes the run. Its nodes train as one world, and node 0 writes the record."""
    digits = only_object(up, "trainjobs", "digits")
    assert digits["spec"]["suspend"] is True
    (pods,) = kueue_workload(up, digits)["spec"]["podSets"]
    assert (pods["name"], pods["count"]) == ("node", 3)
    (view,) = json.loads(up.trainstack("status", "--json").out)
    assert (view["launch"]["phase"], view["queue"]) == ("queued", "research")
    assert_no_changes(up)

    open_queue(up)
    eventually("the Workload is admitted", lambda: "Admitted" in true_conditions(kueue_workload(up, digits)))
    # The pods wait for their data, which is not uploaded yet.
    eventually("three pods run", lambda: phases(up, "digits") == ["Running"] * 3)
    assert_no_changes(up)

    done = up.trainstack("up", "--yes", seconds=420)
    assert done.code == 0, done.text
    ended = only_object(up, "trainjobs", "digits")
    assert ended["metadata"]["uid"] == digits["metadata"]["uid"]
    assert "Complete" in true_conditions(ended)
    assert "Finished" in true_conditions(kueue_workload(up, digits))
    (record,) = (up.root / "results").iterdir()
    logs = {path.name.partition(".")[0]: path.read_text() for path in (record / "logs").iterdir()}
    assert sorted(logs) == ["rank-0", "rank-1", "rank-2"]
    for rank in range(3):
        assert f"world size 3 rank {rank} " in logs[f"rank-{rank}"]
    last = json.loads((record / "result" / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["test_accuracy"] >= 0.95
    assert_no_changes(up)


def test_a_run_keeps_the_runtime_that_it_was_launched_with(up: Project) -> None:
    """One ledger records both. An edit that affects only the runtime takes effect at the next launch."""
    digits = only_object(up, "trainjobs", "digits")
    runtime = only_object(up, "trainingruntimes", "digits")
    assert digits["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"] == digits["metadata"]["name"]
    ledger = up.get("configmaps", f"run-{run_id(digits)}", NAMESPACE)
    (companion,) = json.loads(ledger["data"]["companions"])
    assert companion["spec"]["template"] != {}
    up.edit_stack(lambda config: config["trainstack:workloads"]["runs"][0].update(sharedMemory="128Mi"))
    assert_no_changes(up)


def test_a_jobset_succeeds_with_its_driver(up: Project) -> None:
    """Both of its Jobs are pod sets of the Workload. A further `up` changes nothing while it runs or after it."""
    up.edit_stack(lambda config: config["trainstack:workloads"]["runs"].append(SET))
    done = up.up()
    assert done.code == 0, done.text
    pair = only_object(up, "jobsets", "pair")
    counts = {pod_set["name"]: pod_set["count"] for pod_set in kueue_workload(up, pair)["spec"]["podSets"]}
    assert counts == {"driver": 1, "workers": 2}
    eventually("three pods run", lambda: phases(up, "pair") == ["Running"] * 3)
    (view,) = (view for view in json.loads(up.trainstack("status", "--json").out) if view["launch"]["kind"] == "JobSet")
    assert (view["launch"]["phase"], view["admitted"]) == ("running", True)
    assert_no_changes(up)

    up.edit_stack(lambda config: config["trainstack:workloads"]["runs"].remove(SET))
    refused = up.up()
    assert refused.code != 0
    assert f"JobSet {NAMESPACE}/{pair['metadata']['name']} (run {run_id(pair)}) has been running" in refused.text
    up.edit_stack(lambda config: config["trainstack:workloads"]["runs"].append(SET))

    (driver,) = (pod for pod in pods_of(up, "pair") if "-driver-" in pod["metadata"]["name"])
    touched = up.kubectl("exec", "-n", NAMESPACE, driver["metadata"]["name"], "--", "touch", GO)
    assert touched.code == 0, touched.text
    done = up.trainstack("wait", run_id(pair))
    assert done.code == 0, done.text
    assert "Completed" in true_conditions(only_object(up, "jobsets", "pair"))
    assert_no_changes(up)


def test_digits_train_as_a_jobset_of_two_nodes(up: Project, tmp_path: Path) -> None:
    """The pods of a managed JobSet are the ranks of one world, and the record of node 0 can be fetched."""
    up.edit_stack(lambda config: config["trainstack:workloads"]["runs"].append(RECORDED_SET))
    done = up.up()
    assert done.code == 0, done.text
    nodes = only_object(up, "jobsets", RECORDED_SET["name"])
    done = up.trainstack("wait", run_id(nodes), seconds=420)
    assert done.code == 0, done.text
    assert_no_changes(up)
    done = up.trainstack("fetch", run_id(nodes), "--to", str(tmp_path))
    assert done.code == 0, done.text
    for rank in range(2):
        (log,) = (tmp_path / "logs").glob(f"rank-{rank}.*")
        assert f"world size 2 rank {rank} " in log.read_text()
    last = json.loads((tmp_path / "result" / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["test_accuracy"] >= 0.95


def test_different_roles_are_refused_with_the_field(up: Project) -> None:
    """The error has the path of the setting, and no object is changed."""

    def set_different_args(config: dict[str, Any]) -> None:
        config["trainstack:workloads"]["runs"][0]["roles"] = {"Worker": {"args": ["--other"]}}

    before = only_object(up, "trainjobs", "digits")["metadata"]["uid"]
    up.edit_stack(set_different_args)
    done = up.up()
    assert done.code != 0
    assert "workloads.runs[digits].roles.Worker.args: differs from Master's" in done.text
    assert "Traceback" not in done.text
    assert only_object(up, "trainjobs", "digits")["metadata"]["uid"] == before
