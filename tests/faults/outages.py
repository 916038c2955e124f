"""A team's stack under faults: a run that trains, a change in whose middle something goes away, and what is left."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.cluster.lab import (
    HELD,
    MOUNT,
    NAMESPACE,
    bare,
    launch,
    launches,
    managed,
    platform_config,
    run_id,
    team_config,
    uids,
    volume,
)
from tests.cluster.people import Person, make_job, make_pytorchjob
from tests.cluster.project import Done, Project, eventually
from tests.faults import engine, injection
from tests.faults.rivals import TRAINS, undisturbed
from trainstack.dev.cluster.cluster import Cluster

EPOCHS, EPOCH_SECONDS = 60, 0.25
"""Long enough for a fault to come in the middle."""
SECONDS = 600
"""What a command or a run may take on a machine that has other things to do."""
MOST_MOMENTS = 18
"""Beginnings and ends of operations on objects that the second change has at least."""
Config = dict[str, Any]


def platform() -> Config:
    """The platform's half: Kueue and the training operator, a class, the lab's namespace and queues."""
    requests = {"requests": {"cpu": "50m", "memory": "128Mi"}}
    return {
        **platform_config(),
        "trainstack:storage": {"classes": [{"name": "shared", "provisioner": "rancher.io/local-path"}]},
        "trainstack:operators": dict.fromkeys(("kueue", "trainingOperator"), requests),
    }


def team(platform: Project, claim: str = "lab", *, first: bool = False) -> Project:
    """A stack with one volume and a run that trains on it, not up yet; `first`: one that only has the volume made.

    After an outage the claim needs another name: the scheduler's view of the cluster is old for a while, and a claim
    whose namesake was bound is taken for bound, so its pod is placed and nobody makes the volume.
    """
    mounts: Config = {"volumes": [{"volume": claim, "mountPath": MOUNT}]}
    if first:
        run = bare("first", command=["true"], **mounts)
    else:
        words = [TRAINS, str(EPOCHS), str(EPOCH_SECONDS)]
        resources = {"requests": {"cpu": "100m", "memory": "128Mi"}}
        run = managed("trains", "", args=words, resources=resources, backoffLimit=9, record={"volume": claim}, **mounts)
    return platform.other(
        "team", {**team_config(platform.stack, run), "trainstack:storage": {"volumes": [volume(claim)]}}
    )


def more(project: Project) -> None:
    """Edit the stack: more volumes, and runs that wait."""

    def edit(config: Config) -> None:
        config["trainstack:storage"]["volumes"] += [volume(f"more-{number}") for number in range(5)]
        master = {"Master": {"restartPolicy": "Never"}}
        config["trainstack:workloads"]["runs"] += [
            bare("waits-0", queue=HELD, command=["true"], volumes=[]),
            bare("waits-1", queue=HELD, command=["true"], volumes=[]),
            bare("waits-2", "PyTorchJob", queue=HELD, command=["true"], volumes=[], roles=master),
        ]

    project.edit_stack(edit)


def up_during(project: Project, moment: int, fault: Callable[[], object]) -> Done:
    """`pulumi up`, and the fault when so many beginnings and ends of operations on objects have been told of."""

    def strike(_: int) -> bool:
        fault()
        return True

    ended = engine.run(
        project, "up", log=project.root / "events.log", moment=moment, strike=strike, seconds=2 * SECONDS
    )
    assert ended.struck, f"it ended before moment {moment}: {ended.done.text}"
    return ended.done


def answers(project: Project) -> bool:
    """Whether the API server does, the node and every controller of the platform are well, and so are the webhooks.

    What the API server says of controllers is for a moment what was so before it went away; so webhooks are asked.
    """
    done = project.run(["kubectl", "get", "--raw=/readyz", "--request-timeout=5s"])
    if done.code != 0:
        return False
    found = json.loads(project.run(["kubectl", "get", "nodes,deployments", "-A", "-o", "json"]).out or '{"items": []}')
    return bool(found["items"]) and all(_well(each) for each in found["items"]) and _admits(project)


def _admits(project: Project) -> bool:
    """Whether a Job and a PyTorchJob come through admission, of which nothing is stored."""
    pytorchjob = make_pytorchjob("asked", "none", 1)
    labels = {"kueue.x-k8s.io/queue-name": HELD}
    bodies = [make_job("asked-"), {**pytorchjob, "metadata": {"generateName": "asked-"}}]
    for body in bodies:
        body["metadata"] |= {"namespace": NAMESPACE, "labels": labels}
    listed = {"apiVersion": "v1", "kind": "List", "items": bodies}
    return Person(project.kubeconfig).kubectl("create", "--dry-run=server", body=listed).code == 0


def _well(body: dict[str, Any]) -> bool:
    if body["kind"] == "Deployment":
        return bool(body.get("status", {}).get("readyReplicas") == body["spec"]["replicas"])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in body["status"]["conditions"])


def mend(project: Project) -> list[str]:
    """What the documentation says after an interrupted `up`, until it goes through; the commands that were needed."""
    needed = []
    for words in (("up", "--skip-preview"), ("refresh", "--clear-pending-creates"), ("up", "--skip-preview")):
        done = project.pulumi(*words, "--yes", seconds=SECONDS)
        needed.append(words[0])
        assert "Traceback" not in done.text, done.text
        if words[0] == "up" and done.code == 0:
            return needed
    raise AssertionError(f"{needed} did not mend it: {done.text}")


def whole(project: Project) -> None:
    """The cluster has every object of the state and no other with the stack's mark, and nothing is left to do."""
    done = project.up("--refresh", "--expect-no-changes", seconds=SECONDS)
    assert done.code == 0, done.text
    done = project.pulumi("stack", "export")
    deployment = json.loads(done.out)["deployment"]
    assert not deployment.get("pending_operations"), deployment["pending_operations"]
    state = {
        each["outputs"]["metadata"]["uid"]: each["urn"]
        for each in deployment["resources"]
        if each["type"].startswith("kubernetes:")
    }
    kinds = "persistentvolumeclaims,configmaps,jobs,pytorchjobs"
    live = project.select(kinds, f"trainstack.dev/stack={project.stack}", NAMESPACE)
    assert {each["metadata"]["uid"] for each in live} <= state.keys(), state
    assert {*uids(project).values()} == {uid for uid, urn in state.items() if "Job::" in urn}


def end(project: Project) -> None:
    """Take the stack away, and wait until its runs are gone: they go with their Workloads, which the garbage collector
    tries less and less often while Kueue's webhook is away.
    """
    project.take_down(seconds=SECONDS)
    eventually("its runs are gone", lambda: not launches(project), SECONDS)


def volume_folder(project: Project, claim: str) -> str:
    """The node's folder of the volume, once a pod has had it made."""
    name = eventually("a volume", lambda: project.get("pvc", claim, NAMESPACE)["spec"].get("volumeName"), SECONDS)
    source = project.get("pv", name)["spec"]
    return str((source.get("hostPath") or source["local"])["path"])


def logs(project: Project) -> str:
    """What the pods of the run that trains have said."""
    return project.kubectl("logs", "-n", NAMESPACE, "-l", "trainstack.dev/workload=trains", "--tail=-1").out


@contextmanager
def filled(disk: Path) -> Iterator[None]:
    """No byte is free on a disk for as long as the block runs."""
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

    def __init__(self, project: Project, cluster: Cluster, claim: str = "lab") -> None:
        run = run_id(launch(project, "trains"))
        self.folder = injection.host_path(cluster, f"{volume_folder(project, claim)}/runs/{run}")

    def epochs(self) -> list[int]:
        """Those that were begun."""
        file = self.folder / "checkpoints" / "trained"
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def trains(self, epoch: int) -> None:
        """Wait until it has got so far."""
        eventually(f"epoch {epoch}", lambda: len(self.epochs()) >= epoch, SECONDS)

    def attempts(self) -> int:
        """How many there were."""
        return len(list((self.folder / "attempts").iterdir()))

    def ends_as_undisturbed(self) -> None:
        """It ends, resumed at each attempt where the last one was, with what it would have come to by itself."""
        eventually("the end of the run", (self.folder / "_SUCCESS").exists, SECONDS)
        assert (self.folder / "result" / "metrics.jsonl").read_bytes() == undisturbed(EPOCHS)
        assert sorted(set(self.epochs())) == list(range(1, EPOCHS + 1))
        # An attempt that ended in the middle of an epoch begins that one again.
        assert len(self.epochs()) <= EPOCHS + self.attempts() - 1


def controllers(project: Project, cluster: Cluster) -> injection.Find:
    """Gives the processes of the platform's controllers."""
    pods = [
        each["metadata"]["uid"]
        for namespace in ("kueue-system", "kubeflow")
        for each in project.get("pods", namespace=namespace)["items"]
    ]
    return lambda: [process for uid in pods for process in injection.pod(cluster, uid)]


def restart_node(project: Project, cluster: Cluster) -> None:
    """What a restart does: kubelet, containerd and every process of every pod end, and the first two come back."""
    uids_ = [each["metadata"]["uid"] for each in project.get("pods")["items"]]
    found = [process for uid in uids_ for process in injection.pod(cluster, uid)]
    injection.kill([*injection.components(cluster, "kubelet", "containerd"), *found])


def api_away(cluster: Cluster, seconds: float) -> None:
    """Nobody answers at the API server's address for so long."""
    injection.keep_away(lambda: injection.components(cluster, "apiserver"), seconds)
