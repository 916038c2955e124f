"""Reports on runs: why they wait, their logs, metrics and events, and what the cluster does not have."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.cluster.lab import (
    HELD,
    MOUNT,
    NAMESPACE,
    OPEN,
    await_pods,
    exec_in_pod,
    launch,
    team_config,
    unmanaged_run,
    volume,
)
from tests.cluster.project import COMMAND_SECONDS, ROOT, Project, eventually
from trainstack.local_cluster.spec import NODE_NAME

pytestmark = pytest.mark.cluster

LINES = 5
PRINTS = f"""\
for epoch in $(seq {LINES}); do echo "epoch $epoch/{LINES + 1} of $HOSTNAME"; sleep 0.3; done
until [ -e {MOUNT}/go ]; do sleep 0.1; done
case $HOSTNAME in *master*) until [ $(ls {MOUNT}/done 2>/dev/null | wc -l) = 2 ]; do sleep 0.1; done ;; esac
echo "last words of $HOSTNAME"
mkdir -p {MOUNT}/done && touch {MOUNT}/done/$HOSTNAME
"""
"""It runs until the file `go` exists; the master, which ends the job, exits after its workers."""


def runs() -> list[dict[str, Any]]:
    """Return two held runs, one too large, one without an image, and one that trains until the file `go` exists."""
    role = {"restartPolicy": "OnFailure"}
    too_much = {"requests": {"cpu": "40", "memory": "64Mi"}}
    return [
        unmanaged_run("first", queue=HELD),
        unmanaged_run("second", queue=HELD),
        unmanaged_run("large", resources=too_much),
        unmanaged_run("lost", image={"name": "registry.local/nowhere/lost:1"}),
        unmanaged_run(
            "torch",
            "PyTorchJob",
            command=["sh", "-c", PRINTS],
            roles={"Master": role, "Worker": {"replicas": 2, **role}},
            cleanPodPolicy="None",
        ),
    ]


@pytest.fixture(scope="module")
def team(lab: Project) -> Iterator[Project]:
    """Yield a team's stack with these runs, deployed."""
    project = lab.other_stack("daytwo", team_config(lab.stack, *runs()))
    try:
        done = project.up()
        assert done.code == 0, done.text
        yield project
    finally:
        project.take_down()


def status(project: Project) -> dict[str, dict[str, Any]]:
    """Return the views of `status --json`, by workload."""
    done = project.trainstack("status", "--json")
    assert done.code == 0, done.text
    return {view["launch"]["run_id"].rpartition("-")[0]: view for view in json.loads(done.out)}


def test_status_has_the_reason_why_each_run_waits(team: Project) -> None:
    """A held queue with the positions in it, a quota with the shortage, and an image that does not exist."""

    def reasons() -> dict[str, dict[str, Any]] | None:
        found = status(team)
        has_verdicts = all(found[name]["position"] not in (None, "unknown") for name in ("first", "second", "large"))
        # The scheduler may report a problem before the kubelet tries the image.
        has_image_problem = any(
            "cannot be pulled" in problem for pod in found["lost"]["pods"] for problem in pod["problems"]
        )
        is_bound = [claim["phase"] for claim in found["torch"]["claims"]] == ["Bound"]
        return found if has_verdicts and has_image_problem and is_bound else None

    found: dict[str, dict[str, Any]] = eventually("every run's reason", reasons, every=COMMAND_SECONDS)
    assert sorted(found[name]["position"] for name in ("first", "second")) == [0, 1]
    held = f"cluster queue {NAMESPACE}-{HELD} is stopped (stopPolicy): ask its owner to resume it"
    assert [found[name]["waits_because"] for name in ("first", "second")] == [held, held]
    shortage = f"it never fits: it requests 40 cpu, but flavor {NAMESPACE} has at most 4, 36 short"
    assert (found["large"]["queue"], found["large"]["waits_because"]) == (OPEN, shortage)
    (problem,) = found["lost"]["pods"][0]["problems"]
    assert "the image registry.local/nowhere/lost:1 cannot be pulled" in problem
    output = team.trainstack("status").out
    assert held in output
    assert shortage in output
    (claim,) = found["torch"]["claims"]
    assert (claim["name"], claim["phase"], claim["requested"]) == ("lab", "Bound", "1Gi")


def test_a_running_run_has_replicas_and_progress(team: Project) -> None:
    """The view equals the launch's status; the details have every condition and pod."""
    pods = [pod["metadata"]["name"] for pod in await_pods(team, "torch", 3)]
    eventually("epoch 5/6", lambda: all("epoch 5/6" in team.log(pod, NAMESPACE) for pod in pods))
    view = status(team)["torch"]
    assert view["done"] == pytest.approx(LINES / 6)
    assert [(role["role"], role["active"], role["of"]) for role in view["replicas"]] == [
        ("master", 1, 1),
        ("worker", 2, 2),
    ]
    assert view["progress"]["seconds_left"] >= 0
    body = launch(team, "torch")
    live = {(condition["type"], condition["status"], condition["reason"]) for condition in body["status"]["conditions"]}
    assert {(condition["type"], condition["status"], condition["reason"]) for condition in view["conditions"]} == live
    details = team.trainstack("status", "torch").out
    assert all(word in details for word in ("PyTorchJobRunning", "worker-1", "epoch 5/6", "lab"))


def test_a_running_run_has_the_usage_of_its_pods_and_nodes(team: Project) -> None:
    """The kubelet's metrics: every pod uses memory, and the node more than all of them."""
    pods = {pod["metadata"]["name"] for pod in await_pods(team, "torch", 3)}

    def measured() -> dict[str, Any] | None:
        view = status(team)["torch"]
        # The kubelet first reports zeros for a new pod.
        return view if pods == {name for name, usage in view["pod_use"].items() if usage["memory_bytes"] > 0} else None

    view = eventually("all pods are counted", measured, every=COMMAND_SECONDS)
    (node,) = view["node_use"].values()
    assert {*view["node_use"]} == {NODE_NAME}
    assert node["memory_bytes"] > sum(usage["memory_bytes"] for usage in view["pod_use"].values())
    assert node["cpu_cores"] > 0


def test_logs_of_all_replicas_are_followed_to_the_end(team: Project) -> None:
    """Every line occurs once, with its replica. The watch of the status ends too, with a summary."""
    pods = await_pods(team, "torch", 3)
    log = team.root / "followed.log"
    follow = f"{ROOT}/.venv/bin/python -m trainstack.cli logs torch --follow -s {team.stack} > {log}"
    with ThreadPoolExecutor(2) as pool:
        follows = pool.submit(team.run, ["sh", "-c", follow])
        watches = pool.submit(team.trainstack, "status", "torch", "--watch")
        eventually("what was written before", lambda: log.is_file() and log.read_text().count("epoch 5/6") == 3)
        exec_in_pod(team, pods[0], "touch", f"{MOUNT}/go")
        followed, watched = follows.result(), watches.result()
    assert (followed.code, watched.code) == (0, 0), followed.text + watched.text
    assert "all have ended: 1 succeeded" in watched.err
    name = launch(team, "torch")["metadata"]["name"]
    lines = [tuple(part.strip() for part in line.split("│", 1)) for line in log.read_text().splitlines()]
    for role, index in (("master", 0), ("worker", 0), ("worker", 1)):
        host = f"{name}-{role}-{index}"
        expected = [*(f"epoch {epoch}/6 of {host}" for epoch in range(1, LINES + 1)), f"last words of {host}"]
        assert [text for label, text in lines if label == f"{role}-{index}"] == expected
    only = team.trainstack("logs", "torch", "--role", "worker", "--index", "1", "--tail", "1").out.splitlines()
    assert [line for line in only if "init" not in line] == [f"worker-1              │ last words of {name}-worker-1"]


def test_logs_of_a_run_without_pods_give_the_reason(team: Project) -> None:
    """It is queued, or its object is deleted and it has no record because it is unmanaged."""
    done = team.trainstack("logs", "first")
    assert done.code == 1
    assert "has no pods yet: queued in held" in done.err
    team.kubectl("delete", "job", "-n", NAMESPACE, "-l", "trainstack.dev/workload=lost", "--wait=true")
    deleted = team.trainstack("logs", "lost")
    assert deleted.code == 1
    assert "an unmanaged run keeps no record" in deleted.err


def test_events_are_of_the_runs_objects_only(team: Project) -> None:
    """They are of its launch, Workload and pods, in order, and not of another run's."""
    done = team.trainstack("events", "torch", "--json")
    assert done.code == 0, done.text
    events = json.loads(done.out)
    assert [event["last"] for event in events] == sorted(event["last"] for event in events)
    name = launch(team, "torch")["metadata"]["name"]
    others = {event["name"] for event in events if name not in event["name"]}
    assert others <= {"lab"}, "the claim is the only object that is not named after the launch"
    assert {("Pod", "Scheduled"), ("Workload", "Admitted")} <= {(event["kind"], event["reason"]) for event in events}
    assert "Pod master-0" in team.trainstack("events", "torch").out


def test_check_finds_what_the_cluster_does_not_have(lab: Project) -> None:
    """A missing class, queue and priority, and a node with a GPU, each with the line that requires it."""
    run = unmanaged_run(
        "astray",
        queue="hold",
        priority="urgent",
        resources={"limits": {"cpu": "1", "nvidia.com/gpu": "64"}},
        volumes=[{"volume": "astray", "mountPath": MOUNT}],
    )
    config = team_config(lab.stack, run)
    config["trainstack:storage"] = {"volumes": [{**volume("astray"), "storageClass": "csi-cephfs-sc"}]}
    project = lab.other_stack("astray", config)
    done = project.trainstack("check", "--cluster", "--json")
    assert done.code == 4, done.text
    found = {finding["id"]: finding for finding in json.loads(done.out)["findings"]}
    expected = ("storage-class-unknown", "queue-unknown", "priority-unknown", "node-resources")
    assert {id_: found[id_]["severity"] for id_ in expected} == dict.fromkeys(expected, "error")
    assert "did you mean held?" in found["queue-unknown"]["remedy"]
    assert found["storage-class-unknown"]["where"]["file"] == "Pulumi.astray.yaml"
    assert found["storage-class-unknown"]["where"]["line"] > 0
