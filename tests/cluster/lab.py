"""A small platform and small teams beside the dev environment, for tests of what a change may do to runs."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.cluster.people import NAMESPACE as TENANT
from tests.cluster.project import Done, Project, eventually

NAMESPACE = "lab"
OPEN, HELD = "open", "held"
"""The lab's queues: one admits at once, one nothing until `admit`."""
MOUNT = "/mnt/lab"
Config = dict[str, Any]

WAITS = f"""\
import pathlib, time
print("waiting", flush=True)
while not pathlib.Path("{MOUNT}/go").exists():
    time.sleep(0.1)
"""
"""A program that trains until a file tells it to end, so that a test decides how long."""


def platform_config(namespace: str = NAMESPACE) -> Config:
    """A stack of the platform's half alone: a namespace with two queues."""

    def cluster_queue(name: str, **changes: Any) -> Config:
        quotas = [{"name": "cpu", "nominalQuota": 4}, {"name": "memory", "nominalQuota": "8Gi"}]
        group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": namespace, "resources": quotas}]}
        return {"name": f"{namespace}-{name}", "resourceGroups": [group], **changes}

    return {
        "trainstack:environment": {
            "layers": ["platform"],
            "namespaces": [{"name": namespace}],
        },
        "trainstack:queues": {
            "flavors": [{"name": namespace}],
            "clusterQueues": [cluster_queue(OPEN), cluster_queue(HELD, stopPolicy="Hold")],
            "localQueues": [
                {"name": name, "namespace": namespace, "clusterQueue": f"{namespace}-{name}"} for name in (OPEN, HELD)
            ],
            # defaults.yaml brings classes, and those of this name are the dev environment's.
            "priorityClasses": None,
        },
    }


def team_config(platform: str, *runs: Config, namespace: str = NAMESPACE) -> Config:
    """A stack of the team's half alone: one volume, and runs."""
    return {
        "trainstack:environment": {"layers": ["training"], "platform": f"organization/trainstack/{platform}"},
        "trainstack:storage": {"volumes": [volume("lab", namespace)]},
        "trainstack:workloads": {"runs": list(runs)},
    }


def volume(name: str, namespace: str = NAMESPACE) -> Config:
    """A claim of the dev environment's class, which goes with its stack."""
    claim = {"name": name, "namespace": namespace, "storageClass": "shared", "size": "1Gi"}
    return {**claim, "accessModes": ["ReadWriteMany"], "retain": False}


def bare(name: str, kind: str = "Job", **changes: Any) -> Config:
    """An unmanaged run of a small image on the open queue, with the volume."""
    return {
        "name": name,
        "kind": kind,
        "namespace": NAMESPACE,
        "queue": OPEN,
        "managed": False,
        "image": {"name": "busybox:1.35"},
        "volumes": [{"volume": "lab", "mountPath": MOUNT}],
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
        "runAsUser": 1000,
        **changes,
    }


def managed(name: str, program: str, kind: str = "Job", **changes: Any) -> Config:
    """A managed run of a Python program on the open queue, recorded on the volume."""
    words = {"command": ["python3", "-c"], "args": [program], "record": {"volume": "lab"}}
    return bare(name, kind, **{"managed": True, "image": {"build": "workloads/digits"}, **words, **changes})


@contextmanager
def admitting(project: Project, queue: str) -> Iterator[None]:
    """Let a queue that holds everything admit for as long as the block runs."""

    def stop(policy: str) -> None:
        patch = json.dumps({"spec": {"stopPolicy": policy}})
        done = project.kubectl("patch", "clusterqueue", f"{NAMESPACE}-{queue}", "--type=merge", "--patch", patch)
        assert done.code == 0, done.text

    stop("None")
    try:
        yield
    finally:
        stop("Hold")


def launches(project: Project, name: str = "", namespace: str = NAMESPACE) -> list[dict[str, Any]]:
    """The stack's live launches, of one workload or of all."""
    labels = [f"trainstack.dev/stack={project.stack}", *([f"trainstack.dev/workload={name}"] if name else [])]
    # Whoever may not read a kind gets no list at all: the GPU service's tenant has Jobs alone.
    kinds = "jobs" if namespace == TENANT else "jobs,pytorchjobs,pods"
    return project.select(kinds, ",".join(labels), namespace)


def launch(project: Project, name: str, namespace: str = NAMESPACE) -> dict[str, Any]:
    """The one live launch of a workload."""
    (only,) = launches(project, name, namespace)
    return only


def uid(body: dict[str, Any]) -> str:
    """What tells an object from another that took its name."""
    return str(body["metadata"]["uid"])


def uids(project: Project, namespace: str = NAMESPACE) -> dict[str, str]:
    """The stack's launches by name."""
    return {body["metadata"]["name"]: uid(body) for body in launches(project, namespace=namespace)}


def run_id(body: dict[str, Any]) -> str:
    """The run that a launch, or a ledger, is of."""
    return str(body["metadata"]["labels"]["trainstack.dev/run"])


def ledgers(project: Project) -> dict[str, str]:
    """The stack's ledgers: the launch that each run was launched as."""
    found = project.select("configmaps", f"trainstack.dev/ledger,trainstack.dev/stack={project.stack}", NAMESPACE)
    return {run_id(body): body["data"]["launchName"] for body in found}


def outputs(project: Project) -> dict[str, Any]:
    """What the stack tells a person."""
    done = project.pulumi("stack", "output", "--json")
    assert done.code == 0, done.text
    found: dict[str, Any] = json.loads(done.out)
    return found


def true_conditions(body: dict[str, Any]) -> set[str]:
    """The types of the conditions that hold."""
    return {each["type"] for each in body.get("status", {}).get("conditions", ()) if each["status"] == "True"}


def await_pods(project: Project, name: str, count: int) -> list[dict[str, Any]]:
    """The running pods of a workload, once there are so many of them."""

    def running() -> list[dict[str, Any]]:
        pods = project.select("pods", f"trainstack.dev/workload={name}", NAMESPACE)
        found = [
            pod for pod in pods if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        ]
        return found if len(found) == count else []

    found: list[dict[str, Any]] = eventually(f"{count} running pods of {name}", running, every=0.2)
    return found


def await_end(project: Project, name: str, *ends: str, namespace: str = NAMESPACE) -> dict[str, Any]:
    """The launch of a workload once one of these conditions holds. The engine does not await the end of an old one."""

    def ended() -> dict[str, Any] | None:
        kept = (body for body in launches(project, name, namespace) if "deletionTimestamp" not in body["metadata"])
        return next((body for body in kept if true_conditions(body) & set(ends)), None)

    body: dict[str, Any] = eventually(f"{name}: {' or '.join(ends)}", ended, every=0.2)
    return body


def in_pod(project: Project, pod: dict[str, Any], *words: str) -> str:
    """What a command prints inside a pod."""
    done = project.kubectl("exec", "-n", NAMESPACE, pod["metadata"]["name"], "--", *words)
    assert done.code == 0, done.text
    return done.out


def quiet(project: Project, namespace: str = NAMESPACE) -> None:
    """A further `up` that reads every live object finds nothing to do, and the launches are the same objects."""
    before = uids(project, namespace)
    done = project.up("--refresh", "--expect-no-changes")
    assert done.code == 0, done.text
    assert uids(project, namespace) == before


def refused(project: Project) -> Done:
    """An `up` that is refused, and has touched no launch."""
    before = uids(project)
    done = project.up("--refresh")
    assert done.code != 0, done.text
    assert uids(project) == before
    return done


def edit_run(project: Project, name: str, edit: Callable[[Config], None]) -> None:
    """Change a run's definition in place."""

    def change(config: Config) -> None:
        (run,) = (each for each in config["trainstack:workloads"]["runs"] if each["name"] == name)
        edit(run)

    project.edit_stack(change)
