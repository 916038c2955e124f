"""A run that one cluster queues and another executes: its status, its logs and its record."""

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
    environment,
    give_access,
    hub,
    merged_kubeconfig,
    reachable,
    run,
)
from tests.cluster.project import Project, eventually
from tests.conftest import start_cluster
from trainstack.dev.cluster import cluster as devcluster
from trainstack.dev.cluster.cluster import Cluster

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
"""Of a sweep: its trials report the parameter as their accuracy."""
PODS = 6
"""Of the two Jobs, the JobSet's two nodes, and the sweep's two trials."""


@dataclass(frozen=True)
class Pair:
    manager: Cluster
    worker: Cluster

    @property
    def kubeconfig(self) -> Path:
        return self.manager.state.parent / "kubeconfig"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two clusters, and a kubeconfig with a context for each."""
    states = [tmp_path_factory.getbasetemp() / "multikueue" / name for name in (HUB, WEST)]
    try:
        manager, worker = map(start_cluster, states)
        found = Pair(manager, worker)
        merged_kubeconfig(found.kubeconfig, {HUB: manager, WEST: worker})
        yield found
    finally:
        for state in states:
            devcluster.down(state, keep_data=False)


def test_a_dispatched_run_is_followed_and_fetched_from_its_cluster(pair: Pair, tmp_path: Path) -> None:
    """It waits with the reason until the worker is connected; then status, logs and record come from the worker."""
    project = Project.copy(tmp_path, pair)
    west = project.other(WEST, environment(WEST, 1, receives=[NAMESPACE]))
    nodes = run("nodes", "JobSet", WAITS, replicatedJobs=[{"name": "node", "parallelism": 2}])
    manager = project.other(HUB, hub(run("probe", "Job", WAITS), run("stopped", "Job", WAITS), nodes))
    sweep(manager)
    for stack in (west, manager):
        done = stack.up(seconds=600)
        assert done.code == 0, done.text
    seen = manager.trainstack("status").out
    assert "lists an admission check that is not active: Kueue does not reach west (" in seen

    with reachable(pair.manager, pair.worker) as server:
        give_access(manager, pair.worker, server)
        pods = eventually("all runs have their pods in the worker cluster", lambda: running(manager, PODS))
        assert objects(manager, "pods", HUB) == []
        seen = manager.trainstack("status").out
        assert seen.count("in cluster west;") == len(LAUNCHES), seen
        assert {view["cluster"] for view in json.loads(manager.trainstack("status", "--json").out)} == {WEST}
        for name, replicas in LAUNCHES.items():
            done = manager.trainstack("logs", name)
            assert {line.partition(" ")[0] for line in done.out.splitlines()} == replicas, done.text
            assert "training elsewhere" in done.out
        without_a_context(manager, pair)
        checked(manager)

    eventually(
        "the worker cluster counts as lost", lambda: "Kueue does not reach worker cluster west" in status(manager)
    )
    assert status(manager).count("which Kueue does not reach: its last known state") == len(LAUNCHES)
    with reachable(pair.manager, pair.worker) as server:
        give_access(manager, pair.worker, server)
        eventually("the worker cluster is connected again", lambda: "does not reach" not in status(manager))
        refresh = manager.changes("--refresh")
        assert refresh == {}
        done = manager.trainstack("destroy", "--yes")
        assert (done.code, "--stop" in done.text) == (3, True), done.text

        stop(manager)
        go(manager, pods)
        done = manager.trainstack("wait", "--timeout", "180")
        assert done.code == 0, done.text
        eventually("MultiKueue has deleted the copies", lambda: objects(manager, "jobs,jobsets", WEST) == [])
        done = manager.trainstack("logs", "probe")
        assert (done.code, "the run's record has a copy: trainstack fetch probe-" in done.text) == (1, True), done.text
        done = manager.trainstack("fetch", "probe")
        assert done.code == 0, done.text
        the_results(manager)
        (log,) = manager.root.glob("results/probe-*/logs/*")
        assert "trained elsewhere" in log.read_text()
        assert list(manager.root.glob("results/probe-*/_SUCCESS"))
        # It is of another owner, in a namespace that is deleted with the operator.
        done = manager.kubectl("delete", "secret", "-n", "kueue-system", "west-kubeconfig", "--context", HUB)
        assert done.code == 0, done.text
        done = manager.trainstack("destroy", "--yes", seconds=600)
        assert done.code == 0, done.text


LAUNCHES = {"probe": {"pod-0"}, "stopped": {"pod-0"}, "nodes": {"node-0", "node-1"}, "search": {"pod-0", "pod-1"}}
"""The replicas with a log, by run, and of the sweep by its Indexed Job."""


def sweep(manager: Project) -> None:
    """Declare two trials as one Indexed Job, and expand their space."""
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


def checked(manager: Project) -> None:
    """The check finds that the worker cluster has everything, and what is missing there."""

    def findings() -> list[str]:
        found = json.loads(manager.trainstack("check", "--cluster", "--json").out)["findings"]
        return [each["message"] for each in found if each["id"] == "worker-incomplete"]

    def mounting(secret: str | None) -> None:
        def edit(config: dict[str, Any]) -> None:
            (probe, *_) = config["trainstack:workloads"]["runs"]
            probe["secretEnv"] = {"TOKEN": {"secret": secret, "key": "token"}} if secret else {}

        manager.edit_stack(edit)

    assert findings() == []
    mounting("token")
    assert findings() == [f"worker cluster west does not have Secret {NAMESPACE}/token"]
    mounting(None)


def the_results(manager: Project) -> None:
    """The records of the JobSet and of the trials are on the worker's volume."""
    trials = json.loads(manager.trainstack("sweep", "results", "search", "--json").out)["trials"]
    assert [(trial["state"], trial["objective"]) for trial in trials] == [("succeeded", 0.1), ("succeeded", 0.3)]
    for name in ("nodes", trials[1]["run_id"]):
        done = manager.trainstack("fetch", name)
        assert done.code == 0, done.text
    assert len(list(manager.root.glob("results/nodes-*/logs/*"))) == 2
    assert (manager.root / "results" / trials[1]["run_id"] / "_SUCCESS").is_file()


def without_a_context(manager: Project, pair: Pair) -> None:
    """Without a context for the worker, the commands name the cluster and both remedies."""
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


def stop(manager: Project) -> None:
    """A run that is stopped in the manager's cluster ends in the worker's."""

    def named(config: dict[str, Any]) -> None:
        runs = config["trainstack:workloads"]["runs"]
        (run_id,) = [name for name in launched(manager) if name.startswith("stopped")]
        config["trainstack:workloads"] = {"runs": [one for one in runs if one["name"] != "stopped"], "stop": [run_id]}

    manager.edit_stack(named)
    done = manager.up()
    assert done.code == 0, done.text
    eventually("its pod is gone", lambda: len(objects(manager, "pods", WEST)) == PODS - 1)


def launched(manager: Project) -> list[str]:
    return [str(job["metadata"]["labels"]["trainstack.dev/run"]) for job in objects(manager, "jobs", HUB)]


def objects(project: Project, kind: str, context: str) -> list[dict[str, Any]]:
    done = project.kubectl("get", kind, "-n", NAMESPACE, "--context", context, "-o", "json")
    assert done.code == 0, done.text
    found: list[dict[str, Any]] = json.loads(done.out)["items"]
    return found


def running(project: Project, count: int) -> list[dict[str, Any]]:
    pods = [pod for pod in objects(project, "pods", WEST) if pod["status"]["phase"] == "Running"]
    return pods if len({uid(pod) for pod in pods}) == count else []


def go(project: Project, pods: list[dict[str, Any]]) -> None:
    """Let the run end, by a file on the worker's volume."""
    (name,) = [pod["metadata"]["name"] for pod in pods if pod["metadata"]["name"].startswith("probe")]
    place = ("exec", "-n", NAMESPACE, "--context", WEST, name, "--")
    done = project.kubectl(*place, "touch", "/mnt/training/go")
    assert done.code == 0, done.text
