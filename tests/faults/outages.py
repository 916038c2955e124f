"""A team's stack under faults: a run that trains, a fault in the middle of a change, and checks of the result."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.cluster.lab import (
    HELD,
    MOUNT,
    NAMESPACE,
    launch,
    launches,
    managed_run,
    platform_config,
    run_id,
    team_config,
    uids,
    unmanaged_run,
    volume,
)
from tests.cluster.people import Person, make_job, make_pytorchjob
from tests.cluster.project import CommandResult, Project, eventually
from tests.faults import engine, injection
from tests.faults.competing_pods import TRAINING_PROGRAM, expected_metrics
from trainstack.local_cluster.cluster import LocalCluster

EPOCHS, EPOCH_SECONDS = 60, 0.25
"""Long enough for a fault in the middle."""
SECONDS = 600
"""The timeout for a command or a run, on a busy machine."""
MOST_MOMENTS = 18
"""Beginnings and ends of operations on objects that the second change has at least."""
Config = dict[str, Any]


def platform() -> Config:
    """Return the platform: Kueue and the training operator, a class, the lab's namespace and queues."""
    requests = {"requests": {"cpu": "50m", "memory": "128Mi"}}
    return {
        **platform_config(),
        "trainstack:storage": {"classes": [{"name": "shared", "provisioner": "rancher.io/local-path"}]},
        "trainstack:operators": dict.fromkeys(("kueue", "trainingOperator"), requests),
    }


def team(platform: Project, claim: str = "lab", *, first: bool = False) -> Project:
    """Return a stack with a volume and a run that trains on it, not deployed yet; `first`: it only mounts the volume.

    After an outage the claim needs another name: the scheduler's cache is stale for a while, and it considers a new
    claim bound if a claim of the same name was. It then places the pod, but the volume is never provisioned.
    """
    mounts: Config = {"volumes": [{"volume": claim, "mountPath": MOUNT}]}
    if first:
        run = unmanaged_run("first", command=["true"], **mounts)
    else:
        words = [TRAINING_PROGRAM, str(EPOCHS), str(EPOCH_SECONDS)]
        resources = {"requests": {"cpu": "100m", "memory": "128Mi"}}
        run = managed_run(
            "trains", "", args=words, resources=resources, backoffLimit=9, record={"volume": claim}, **mounts
        )
    return platform.other_stack(
        "team", {**team_config(platform.stack, run), "trainstack:storage": {"volumes": [volume(claim)]}}
    )


def add_objects(project: Project) -> None:
    """Add volumes and waiting runs to the stack."""

    def edit(config: Config) -> None:
        config["trainstack:storage"]["volumes"] += [volume(f"more-{number}") for number in range(5)]
        master = {"Master": {"restartPolicy": "Never"}}
        config["trainstack:workloads"]["runs"] += [
            unmanaged_run("waits-0", queue=HELD, command=["true"], volumes=[]),
            unmanaged_run("waits-1", queue=HELD, command=["true"], volumes=[]),
            unmanaged_run("waits-2", "PyTorchJob", queue=HELD, command=["true"], volumes=[], roles=master),
        ]

    project.edit_stack(edit)


def up_with_fault(project: Project, moment: int, fault: Callable[[], object]) -> CommandResult:
    """Run `pulumi up`, and inject the fault after this number of starts and ends of operations on objects."""

    def inject(_: int) -> bool:
        fault()
        return True

    ended = engine.run(
        project, "up", log=project.root / "events.log", moment=moment, inject=inject, seconds=2 * SECONDS
    )
    assert ended.fault_injected, f"it ended before moment {moment}: {ended.done.text}"
    return ended.done


def is_cluster_ready(project: Project) -> bool:
    """Return whether the API server, the node, the platform's controllers and their webhooks are ready.

    After an outage the status of controllers is stale for a moment, so the webhooks are tried too.
    """
    done = project.run(["kubectl", "get", "--raw=/readyz", "--request-timeout=5s"])
    if done.code != 0:
        return False
    found = json.loads(project.run(["kubectl", "get", "nodes,deployments", "-A", "-o", "json"]).out or '{"items": []}')
    return bool(found["items"]) and all(_is_ready(body) for body in found["items"]) and _admits(project)


def _admits(project: Project) -> bool:
    """Return whether a Job and a PyTorchJob pass admission in a dry run."""
    pytorchjob = make_pytorchjob("asked", "none", 1)
    labels = {"kueue.x-k8s.io/queue-name": HELD}
    bodies = [make_job("asked-"), {**pytorchjob, "metadata": {"generateName": "asked-"}}]
    for body in bodies:
        body["metadata"] |= {"namespace": NAMESPACE, "labels": labels}
    listed = {"apiVersion": "v1", "kind": "List", "items": bodies}
    return Person(project.kubeconfig).kubectl("create", "--dry-run=server", body=listed).code == 0


def _is_ready(body: dict[str, Any]) -> bool:
    if body["kind"] == "Deployment":
        return bool(body.get("status", {}).get("readyReplicas") == body["spec"]["replicas"])
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in body["status"]["conditions"]
    )


def run_recovery_commands(project: Project) -> list[str]:
    """Run the documented commands after an interrupted `up` until it succeeds; return the ones that were needed."""
    needed = []
    for words in (("up", "--skip-preview"), ("refresh", "--clear-pending-creates"), ("up", "--skip-preview")):
        done = project.pulumi(*words, "--yes", seconds=SECONDS)
        needed.append(words[0])
        assert "Traceback" not in done.text, done.text
        if words[0] == "up" and done.code == 0:
            return needed
    raise AssertionError(f"{needed} did not mend it: {done.text}")


def assert_consistent(project: Project) -> None:
    """Check that the cluster has the objects of the state and no other marked object, and that no change is left."""
    done = project.up("--refresh", "--expect-no-changes", seconds=SECONDS)
    assert done.code == 0, done.text
    done = project.pulumi("stack", "export")
    deployment = json.loads(done.out)["deployment"]
    assert not deployment.get("pending_operations"), deployment["pending_operations"]
    state = {
        resource["outputs"]["metadata"]["uid"]: resource["urn"]
        for resource in deployment["resources"]
        if resource["type"].startswith("kubernetes:")
    }
    kinds = "persistentvolumeclaims,configmaps,jobs,pytorchjobs"
    live = project.select(kinds, f"trainstack.dev/stack={project.stack}", NAMESPACE)
    assert {body["metadata"]["uid"] for body in live} <= state.keys(), state
    assert {*uids(project).values()} == {uid for uid, urn in state.items() if "Job::" in urn}


def remove_stack(project: Project) -> None:
    """Remove the stack, and wait until its runs are gone: they are deleted after their Workloads, which the garbage
    collector retries at growing intervals while Kueue's webhook is down.
    """
    project.take_down(seconds=SECONDS)
    eventually("its runs are gone", lambda: not launches(project), SECONDS)


def volume_folder(project: Project, claim: str) -> str:
    """Return the node's folder of the volume, once a pod has caused its creation."""
    name = eventually("a volume", lambda: project.get("pvc", claim, NAMESPACE)["spec"].get("volumeName"), SECONDS)
    source = project.get("pv", name)["spec"]
    return str((source.get("hostPath") or source["local"])["path"])


def logs(project: Project) -> str:
    """Return the logs of the run that trains."""
    return project.kubectl("logs", "-n", NAMESPACE, "-l", "trainstack.dev/workload=trains", "--tail=-1").out


@contextmanager
def full_disk(disk: Path) -> Iterator[None]:
    """Fill a disk during the block."""
    filler = disk / "filler"
    try:
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(4096)):
                pass
        yield
    finally:
        filler.unlink()


class Record:
    """The record of the run that trains, read from the node's disk: no API server is needed."""

    def __init__(self, project: Project, cluster: LocalCluster, claim: str = "lab") -> None:
        run = run_id(launch(project, "trains"))
        self.folder = injection.host_path(cluster, f"{volume_folder(project, claim)}/runs/{run}")

    def epochs(self) -> list[int]:
        """Return the started epochs."""
        file = self.folder / "checkpoints" / "trained"
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def await_epoch(self, epoch: int) -> None:
        """Wait until this epoch has started."""
        eventually(f"epoch {epoch}", lambda: len(self.epochs()) >= epoch, SECONDS)

    def attempts(self) -> int:
        """Return the number of attempts."""
        return len(list((self.folder / "attempts").iterdir()))

    def assert_expected_result(self) -> None:
        """Wait for the end of the run; check that attempts resumed, and that the result is undisturbed."""
        eventually("the end of the run", (self.folder / "_SUCCESS").exists, SECONDS)
        assert (self.folder / "result" / "metrics.jsonl").read_bytes() == expected_metrics(EPOCHS)
        assert sorted(set(self.epochs())) == list(range(1, EPOCHS + 1))
        # An attempt repeats the epoch in which the last one ended.
        assert len(self.epochs()) <= EPOCHS + self.attempts() - 1


def controllers(project: Project, cluster: LocalCluster) -> injection.FindProcesses:
    """Return a function that finds the processes of the platform's controllers."""
    pods = [
        pod["metadata"]["uid"]
        for namespace in ("kueue-system", "kubeflow")
        for pod in project.get("pods", namespace=namespace)["items"]
    ]
    return lambda: [process for uid in pods for process in injection.pod_processes(cluster, uid)]


def restart_node(project: Project, cluster: LocalCluster) -> None:
    """Simulate a restart of the node: kill kubelet, containerd and all pods; the first two are started again."""
    all_uids = [pod["metadata"]["uid"] for pod in project.get("pods")["items"]]
    found = [process for uid in all_uids for process in injection.pod_processes(cluster, uid)]
    injection.kill([*injection.component_processes(cluster, "kubelet", "containerd"), *found])


def keep_api_server_down(cluster: LocalCluster, seconds: float) -> None:
    """Keep the API server down for this time."""
    injection.keep_down(lambda: injection.component_processes(cluster, "apiserver"), seconds)
