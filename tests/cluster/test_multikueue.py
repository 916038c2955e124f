"""A MultiKueue run that one cluster queues and another executes: its status, logs and record."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.lab import uid
from tests.cluster.multikueue import (
    HUB,
    NAMESPACE,
    WEST,
    create_kubeconfig_secret,
    environment,
    exposed_api_server,
    hub,
    merged_kubeconfig,
    run,
)
from tests.cluster.project import Project, eventually
from tests.local_clusters import cluster_for_dev
from trainstack.local_cluster.cluster import LocalCluster

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

WAITS = """\
import json, os, pathlib, sys, time
print("training elsewhere", flush=True)
while not pathlib.Path("/mnt/training/go").exists():
    time.sleep(0.1)
metrics = {"epoch": 1, "val_accuracy": float((sys.argv + ["0.5"])[1])}
(pathlib.Path(os.environ["TRAINSTACK_OUTPUT"]) / "metrics.jsonl").write_text(json.dumps(metrics) + "\\n")
print("trained elsewhere", flush=True)
"""
SEARCH = {"method": "grid", "parameters": {"a": {"values": [0.1, 0.3]}}, "args": ["${parameters.a}"]}
"""The space of a sweep; its trials report the parameter as their accuracy."""
PODS = 6
"""The pods of the two Jobs, the JobSet's two nodes, and the sweep's two trials."""


@dataclass(frozen=True)
class Pair:
    manager: LocalCluster
    worker: LocalCluster

    @property
    def kubeconfig(self) -> Path:
        return self.manager.state.parent / "kubeconfig"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Start two clusters, and write a kubeconfig with a context for each."""
    folder = tmp_path_factory.getbasetemp() / "multikueue"
    with cluster_for_dev(folder / HUB) as manager, cluster_for_dev(folder / WEST) as worker:
        clusters = Pair(manager, worker)
        merged_kubeconfig(clusters.kubeconfig, {HUB: manager, WEST: worker})
        yield clusters


def test_status_logs_and_record_come_from_the_worker_cluster(pair: Pair, tmp_path: Path) -> None:
    """Until the worker cluster is connected, the run waits, and `status` has the reason."""
    project = Project.copy(tmp_path, pair)
    west = project.other_stack(WEST, environment(WEST, 1, receives=[NAMESPACE]))
    nodes = run("nodes", "JobSet", WAITS, replicatedJobs=[{"name": "node", "parallelism": 2}])
    manager = project.other_stack(HUB, hub(run("probe", "Job", WAITS), run("stopped", "Job", WAITS), nodes))
    declare_sweep(manager)
    for stack in (west, manager):
        done = stack.up(seconds=600)
        assert done.code == 0, done.text
    output = manager.trainstack("status").out
    assert "lists an admission check that is not active: Kueue does not reach west (" in output

    with exposed_api_server(pair.manager, pair.worker) as server:
        create_kubeconfig_secret(manager, pair.worker, server)
        pods = eventually("all runs have their pods in the worker cluster", lambda: running_pods(manager, PODS))
        assert objects(manager, "pods", HUB) == []
        output = manager.trainstack("status").out
        assert output.count("in cluster west;") == len(LAUNCHES), output
        assert {view["cluster"] for view in json.loads(manager.trainstack("status", "--json").out)} == {WEST}
        for name, replicas in LAUNCHES.items():
            done = manager.trainstack("logs", name)
            assert {line.partition(" ")[0] for line in done.out.splitlines()} == replicas, done.text
            assert "training elsewhere" in done.out
        assert_context_is_required(manager, pair)
        assert_check_findings(manager)

    eventually(
        "the worker cluster counts as lost", lambda: "Kueue does not reach worker cluster west" in status(manager)
    )
    assert status(manager).count("which Kueue does not reach: its last known state") == len(LAUNCHES)
    with exposed_api_server(pair.manager, pair.worker) as server:
        create_kubeconfig_secret(manager, pair.worker, server)
        eventually("the worker cluster is connected again", lambda: "does not reach" not in status(manager))
        refresh = manager.changes("--refresh")
        assert refresh == {}
        done = manager.trainstack("destroy", "--yes")
        assert (done.code, "--stop" in done.text) == (3, True), done.text

        stop_run(manager)
        let_finish(manager, pods)
        done = manager.trainstack("wait", "--timeout", "180")
        assert done.code == 0, done.text
        eventually("MultiKueue has deleted the copies", lambda: objects(manager, "jobs,jobsets", WEST) == [])
        done = manager.trainstack("logs", "probe")
        assert (done.code, "the run's record has a copy: trainstack fetch probe-" in done.text) == (1, True), done.text
        done = manager.trainstack("fetch", "probe")
        assert done.code == 0, done.text
        assert_results(manager)
        (log,) = manager.root.glob("results/probe-*/logs/*")
        assert "trained elsewhere" in log.read_text()
        assert list(manager.root.glob("results/probe-*/_SUCCESS"))
        # The Secret has another owner, and its namespace is deleted with the operator.
        done = manager.kubectl("delete", "secret", "-n", "kueue-system", "west-kubeconfig", "--context", HUB)
        assert done.code == 0, done.text
        done = manager.trainstack("destroy", "--yes", seconds=600)
        assert done.code == 0, done.text


LAUNCHES = {"probe": {"pod-0"}, "stopped": {"pod-0"}, "nodes": {"node-0", "node-1"}, "search": {"pod-0", "pod-1"}}
"""The replicas with logs, by run; a sweep counts as one run, its Indexed Job."""


def declare_sweep(manager: Project) -> None:
    """Declare a sweep of two trials as one Indexed Job, and expand its space."""
    definition = {name: value for name, value in run("search", "Job", WAITS).items() if name != "name"}
    declared = {"name": "search", "form": "indexed", "parallelism": 2, "run": definition}
    manager.edit_stack(lambda config: config.update({"trainstack:sweeps": {"sweeps": [declared]}}))
    file = manager.root / "sweeps" / "search" / "space.yaml"
    file.parent.mkdir()
    objective = {"metric": "val_accuracy", "direction": "maximize"}
    file.write_text(yaml.safe_dump({**SEARCH, "objective": objective}))
    done = manager.run(["sweep", "expand", "search"], trainstack=True)
    assert done.code == 0, done.text


def status(manager: Project) -> str:
    done = manager.trainstack("status")
    assert done.code == 0, done.text
    return done.out


def assert_check_findings(manager: Project) -> None:
    """Assert that `check --cluster` reports nothing for a complete worker cluster, and a missing Secret."""

    def findings() -> list[str]:
        found = json.loads(manager.trainstack("check", "--cluster", "--json").out)["findings"]
        return [finding["message"] for finding in found if finding["id"] == "worker-incomplete"]

    def use_secret(secret: str | None) -> None:
        def edit(config: dict[str, Any]) -> None:
            (probe, *_) = config["trainstack:workloads"]["runs"]
            probe["secretEnv"] = {"TOKEN": {"secret": secret, "key": "token"}} if secret else {}

        manager.edit_stack(edit)

    assert findings() == []
    use_secret("token")
    assert findings() == [f"worker cluster west does not have Secret {NAMESPACE}/token"]
    use_secret(None)


def assert_results(manager: Project) -> None:
    """Assert that the records of the JobSet and of the trials are on the worker's volume."""
    trials = json.loads(manager.trainstack("sweep", "results", "search", "--json").out)["trials"]
    assert [(trial["state"], trial["objective"]) for trial in trials] == [("succeeded", 0.1), ("succeeded", 0.3)]
    for name in ("nodes", trials[1]["run_id"]):
        done = manager.trainstack("fetch", name)
        assert done.code == 0, done.text
    assert len(list(manager.root.glob("results/nodes-*/logs/*"))) == 2
    assert (manager.root / "results" / trials[1]["run_id"] / "_SUCCESS").is_file()


def assert_context_is_required(manager: Project, pair: Pair) -> None:
    """Assert that without a context for the worker, commands name the cluster and the remedy."""
    config = yaml.safe_load(pair.kubeconfig.read_text())
    config["contexts"] = [context for context in config["contexts"] if context["name"] == HUB]
    file = manager.root / "hub-only"
    file.touch(0o600)
    file.write_text(yaml.safe_dump(config))
    for command in (["logs", "probe"], ["fetch", "probe"]):
        done = manager.run([*command, "-s", HUB], trainstack=True, environment={"KUBECONFIG": str(file)})
        assert done.code != 0
        assert "worker cluster west has the pods, logs and records" in done.text
        assert "has no context 'west'; add a context for that cluster" in " ".join(done.text.split())


def stop_run(manager: Project) -> None:
    """Stop a run in the manager's cluster, and wait until its pod in the worker's is gone."""

    def edit(config: dict[str, Any]) -> None:
        runs = config["trainstack:workloads"]["runs"]
        (run_id,) = [name for name in run_ids(manager) if name.startswith("stopped")]
        config["trainstack:workloads"] = {"runs": [run for run in runs if run["name"] != "stopped"], "stop": [run_id]}

    manager.edit_stack(edit)
    done = manager.up()
    assert done.code == 0, done.text
    eventually("its pod is gone", lambda: len(objects(manager, "pods", WEST)) == PODS - 1)


def run_ids(manager: Project) -> list[str]:
    return [str(job["metadata"]["labels"]["trainstack.dev/run"]) for job in objects(manager, "jobs", HUB)]


def objects(project: Project, kind: str, context: str) -> list[dict[str, Any]]:
    done = project.kubectl("get", kind, "-n", NAMESPACE, "--context", context, "-o", "json")
    assert done.code == 0, done.text
    found: list[dict[str, Any]] = json.loads(done.out)["items"]
    return found


def running_pods(project: Project, count: int) -> list[dict[str, Any]]:
    pods = [pod for pod in objects(project, "pods", WEST) if pod["status"]["phase"] == "Running"]
    return pods if len({uid(pod) for pod in pods}) == count else []


def let_finish(project: Project, pods: list[dict[str, Any]]) -> None:
    """Let the runs finish, by a file on the worker's volume."""
    (name,) = [pod["metadata"]["name"] for pod in pods if pod["metadata"]["name"].startswith("probe")]
    prefix = ("exec", "-n", NAMESPACE, "--context", WEST, name, "--")
    done = project.kubectl(*prefix, "touch", "/mnt/training/go")
    assert done.code == 0, done.text
