"""Kubeflow Trainer v2 and JobSet: installed by an environment, and runs of both kinds through a queue."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.project import ROOT, Project, eventually
from tests.conftest import start_cluster
from trainstack.dev.cluster import cluster as devcluster
from trainstack.dev.cluster.cluster import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

NAMESPACE = "research"
FRAMEWORKS = ["batch/job", "jobset.x-k8s.io/jobset", "trainer.kubeflow.org/trainjob"]
SMALL = {"requests": {"cpu": "50m", "memory": "64Mi"}}
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
        # Ends by itself only long after the test: the driver's success is the set's.
        {"name": "workers", "parallelism": 2, "command": ["sh", "-c", "trap 'exit 0' TERM; sleep 3600 & wait $!"]},
    ],
    "successPolicy": {"operator": "All", "targetReplicatedJobs": ["driver"]},
}
"""A driver and two workers, of which the driver waits for a file."""
RECORDED_SET: dict[str, Any] = {
    "name": "digits-set",
    "from": "digits",
    "kind": "JobSet",
    "roles": None,
    "namespace": NAMESPACE,
    "queue": "research",
    "replicatedJobs": [{"name": "node", "parallelism": 2}],
}
"""The training of workloads/digits, on two nodes that are a JobSet's."""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster on which nobody else has installed Kueue."""
    state = tmp_path_factory.mktemp("trainer")
    try:
        yield start_cluster(state)
    finally:
        devcluster.down(state, keep_data=False)


@pytest.fixture(scope="module")
def project(own: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The dev environment with Trainer and JobSet for the training operator, and the digits held in the queue."""
    checkout = Project.copy(tmp_path_factory.mktemp("project"), own)
    config: dict[str, Any] = yaml.safe_load((ROOT / "Pulumi.dev.yaml").read_text())["config"]
    config["trainstack:operators"] = {
        "kueue": {**SMALL, "configuration": {"frameworks": FRAMEWORKS}},
        "jobset": SMALL,
        "trainer": SMALL,
    }
    config["trainstack:queues"]["clusterQueues"][0]["stopPolicy"] = "Hold"
    # The one word by which the PyTorchJob of workloads/digits is a TrainJob.
    config["trainstack:workloads"]["runs"][0]["kind"] = "TrainJob"
    return checkout.other("trainer", config)


@pytest.fixture(scope="module")
def up(project: Project) -> Project:
    """The environment, at the first attempt on a fresh cluster, with its data."""
    done = project.up(seconds=420)
    assert done.code == 0, done.text
    return project


def the(project: Project, kind: str, workload: str) -> dict[str, Any]:
    """The one object of this kind that is a workload's."""
    (only,) = project.select(kind, f"trainstack.dev/workload={workload}", NAMESPACE)
    return only


def true_conditions(body: dict[str, Any]) -> set[str]:
    """The types of the conditions that hold."""
    return {each["type"] for each in body.get("status", {}).get("conditions", ()) if each["status"] == "True"}


def kueue_workload(project: Project, body: dict[str, Any]) -> dict[str, Any]:
    """Kueue's one Workload of a launch, once there is one."""

    def found() -> dict[str, Any] | None:
        mark = f"kueue.x-k8s.io/job-uid={body['metadata']['uid']}"
        return next(iter(project.select("workloads.kueue.x-k8s.io", mark, NAMESPACE)), None)

    workload: dict[str, Any] = eventually(f"a Workload of {body['metadata']['name']}", found)
    return workload


def pods_of(project: Project, workload: str) -> list[dict[str, Any]]:
    """A workload's pods."""
    return project.select("pods", f"trainstack.dev/workload={workload}", NAMESPACE)


def phases(project: Project, workload: str) -> list[str]:
    """The phases of a workload's pods."""
    return [pod["status"]["phase"] for pod in pods_of(project, workload)]


def launched(body: dict[str, Any]) -> str:
    """The id of the run that a launch is of."""
    return str(body["metadata"]["labels"]["trainstack.dev/run"])


def quiet(project: Project) -> None:
    """A further `up` that reads every live object finds nothing to do."""
    done = project.up("--refresh", "--expect-no-changes")
    assert done.code == 0, done.text


def open_queue(project: Project) -> None:
    """Let the queue admit, as an edit of the environment."""
    project.edit_stack(lambda config: config["trainstack:queues"]["clusterQueues"][0].pop("stopPolicy"))
    done = project.up()
    assert done.code == 0, done.text


def test_digits_train_as_a_trainjob_of_three_nodes(up: Project) -> None:
    """Queued, running and done, a further `up` leaves them alone; they train as one world, recorded by node 0."""
    digits = the(up, "trainjobs", "digits")
    assert digits["spec"]["suspend"] is True
    (pods,) = kueue_workload(up, digits)["spec"]["podSets"]
    assert (pods["name"], pods["count"]) == ("node", 3)
    (view,) = json.loads(up.trainstack("status", "--json").out)
    assert (view["launch"]["phase"], view["queue"]) == ("queued", "research")
    quiet(up)

    open_queue(up)
    eventually("the Workload is admitted", lambda: "Admitted" in true_conditions(kueue_workload(up, digits)))
    # They wait for their data, which nobody has brought yet.
    eventually("three pods run", lambda: phases(up, "digits") == ["Running"] * 3)
    quiet(up)

    done = up.trainstack("up", "--yes", seconds=420)
    assert done.code == 0, done.text
    ended = the(up, "trainjobs", "digits")
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
    quiet(up)


def test_a_run_keeps_the_runtime_that_it_was_launched_with(up: Project) -> None:
    """Both are remembered in one ledger; an edit that only the runtime would have is for the next launch."""
    digits = the(up, "trainjobs", "digits")
    runtime = the(up, "trainingruntimes", "digits")
    assert digits["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"] == digits["metadata"]["name"]
    ledger = up.get("configmaps", f"run-{launched(digits)}", NAMESPACE)
    (companion,) = json.loads(ledger["data"]["companions"])
    assert companion["spec"]["template"] != {}
    up.edit_stack(lambda config: config["trainstack:workloads"]["runs"][0].update(sharedMemory="128Mi"))
    quiet(up)


def test_a_jobset_succeeds_with_its_driver(up: Project) -> None:
    """Through the queue, with both of its Jobs as pod sets; quiet while it runs and when it is done."""
    up.edit_stack(lambda config: config["trainstack:workloads"]["runs"].append(SET))
    done = up.up()
    assert done.code == 0, done.text
    pair = the(up, "jobsets", "pair")
    counts = {each["name"]: each["count"] for each in kueue_workload(up, pair)["spec"]["podSets"]}
    assert counts == {"driver": 1, "workers": 2}
    eventually("three pods run", lambda: phases(up, "pair") == ["Running"] * 3)
    (view,) = (each for each in json.loads(up.trainstack("status", "--json").out) if each["launch"]["kind"] == "JobSet")
    assert (view["launch"]["phase"], view["admitted"]) == ("running", True)
    quiet(up)

    up.edit_stack(lambda config: config["trainstack:workloads"]["runs"].remove(SET))
    refused = up.up()
    assert refused.code != 0
    assert f"JobSet {NAMESPACE}/{pair['metadata']['name']} (run {launched(pair)}) has been running" in refused.text
    up.edit_stack(lambda config: config["trainstack:workloads"]["runs"].append(SET))

    (driver,) = (pod for pod in pods_of(up, "pair") if "-driver-" in pod["metadata"]["name"])
    told = up.kubectl("exec", "-n", NAMESPACE, driver["metadata"]["name"], "--", "touch", GO)
    assert told.code == 0, told.text
    done = up.trainstack("wait", launched(pair))
    assert done.code == 0, done.text
    assert "Completed" in true_conditions(the(up, "jobsets", "pair"))
    quiet(up)


def test_digits_train_as_a_jobset_of_two_nodes(up: Project, tmp_path: Path) -> None:
    """A managed one: its pods are the ranks of one world, and what node 0 recorded comes back."""
    up.edit_stack(lambda config: config["trainstack:workloads"]["runs"].append(RECORDED_SET))
    done = up.up()
    assert done.code == 0, done.text
    nodes = the(up, "jobsets", RECORDED_SET["name"])
    done = up.trainstack("wait", launched(nodes), seconds=420)
    assert done.code == 0, done.text
    quiet(up)
    done = up.trainstack("fetch", launched(nodes), "--to", str(tmp_path))
    assert done.code == 0, done.text
    for rank in range(2):
        (log,) = (tmp_path / "logs").glob(f"rank-{rank}.*")
        assert f"world size 2 rank {rank} " in log.read_text()
    last = json.loads((tmp_path / "result" / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["test_accuracy"] >= 0.95


def test_roles_that_differ_are_refused_with_the_field(up: Project) -> None:
    """Before anything is touched, where the setting stands."""

    def differ(config: dict[str, Any]) -> None:
        config["trainstack:workloads"]["runs"][0]["roles"] = {"Worker": {"args": ["--other"]}}

    before = the(up, "trainjobs", "digits")["metadata"]["uid"]
    up.edit_stack(differ)
    done = up.up()
    assert done.code != 0
    assert "workloads.runs[digits].roles.Worker.args: differs from Master's" in done.text
    assert "Traceback" not in done.text
    assert the(up, "trainjobs", "digits")["metadata"]["uid"] == before
