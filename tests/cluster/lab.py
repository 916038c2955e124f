"""A small platform and small teams beside the dev environment, for tests of what a change may do to runs."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.cluster.people import NAMESPACE as TENANT
from tests.cluster.project import CommandResult, Project, eventually

NAMESPACE = "lab"
OPEN, HELD = "open", "held"
"""The lab's queues: one admits at once, the other only within `admission_enabled`."""
MOUNT = "/mnt/lab"
Config = dict[str, Any]

WAIT_PROGRAM = f"""\
import pathlib, time
print("waiting", flush=True)
while not pathlib.Path("{MOUNT}/go").exists():
    time.sleep(0.1)
"""
"""A program that runs until a file exists, so that a test controls its duration."""


def platform_config(namespace: str = NAMESPACE) -> Config:
    """Return the configuration of a platform-only stack: a namespace with two queues."""

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
            # defaults.yaml has classes, and the dev environment owns those of these names.
            "priorityClasses": None,
        },
    }


def team_config(platform: str, *runs: Config, namespace: str = NAMESPACE) -> Config:
    """Return the configuration of a training-only stack: one volume and runs."""
    return {
        "trainstack:environment": {"layers": ["training"], "platform": f"organization/trainstack/{platform}"},
        "trainstack:storage": {"volumes": [volume("lab", namespace)]},
        "trainstack:workloads": {"runs": list(runs)},
    }


def volume(name: str, namespace: str = NAMESPACE) -> Config:
    """Return a claim of the dev environment's class that is deleted with its stack."""
    claim = {"name": name, "namespace": namespace, "storageClass": "shared", "size": "1Gi"}
    return {**claim, "accessModes": ["ReadWriteMany"], "retain": False}


def unmanaged_run(name: str, kind: str = "Job", **changes: Any) -> Config:
    """Return an unmanaged run of a small image on the open queue, with the volume."""
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


def managed_run(name: str, program: str, kind: str = "Job", **changes: Any) -> Config:
    """Return a managed run of a Python program on the open queue, recorded on the volume."""
    words = {"command": ["python3", "-c"], "args": [program], "record": {"volume": "lab"}}
    return unmanaged_run(name, kind, **{"managed": True, "image": {"build": "workloads/digits"}, **words, **changes})


@contextmanager
def admission_enabled(project: Project, queue: str) -> Iterator[None]:
    """Set a held queue to admit for the duration of the block."""

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
    """Return the stack's live launches, of one workload or of all."""
    labels = [f"trainstack.dev/stack={project.stack}", *([f"trainstack.dev/workload={name}"] if name else [])]
    # The list fails if the user may not read one of the kinds: the GPU service's tenant has only Jobs.
    kinds = "jobs" if namespace == TENANT else "jobs,pytorchjobs,pods"
    return project.select(kinds, ",".join(labels), namespace)


def launch(project: Project, name: str, namespace: str = NAMESPACE) -> dict[str, Any]:
    """Return the only live launch of a workload."""
    (only,) = launches(project, name, namespace)
    return only


def uid(body: dict[str, Any]) -> str:
    """Return the UID, which differs if another object has replaced this one."""
    return str(body["metadata"]["uid"])


def uids(project: Project, namespace: str = NAMESPACE) -> dict[str, str]:
    """Return the UIDs of the stack's launches, by name."""
    return {body["metadata"]["name"]: uid(body) for body in launches(project, namespace=namespace)}


def run_id(body: dict[str, Any]) -> str:
    """Return the run id of a launch or a ledger."""
    return str(body["metadata"]["labels"]["trainstack.dev/run"])


def ledgers(project: Project) -> dict[str, str]:
    """Return the launch names in the stack's ledgers, by run id."""
    found = project.select("configmaps", f"trainstack.dev/ledger,trainstack.dev/stack={project.stack}", NAMESPACE)
    return {run_id(body): body["data"]["launchName"] for body in found}


def outputs(project: Project) -> dict[str, Any]:
    """Return the stack outputs."""
    done = project.pulumi("stack", "output", "--json")
    assert done.code == 0, done.text
    found: dict[str, Any] = json.loads(done.out)
    return found


def true_conditions(body: dict[str, Any]) -> set[str]:
    """Return the types of the conditions with status True."""
    return {
        condition["type"] for condition in body.get("status", {}).get("conditions", ()) if condition["status"] == "True"
    }


def await_pods(project: Project, name: str, count: int) -> list[dict[str, Any]]:
    """Wait for this number of running pods of a workload, and return them."""

    def running() -> list[dict[str, Any]]:
        pods = project.select("pods", f"trainstack.dev/workload={name}", NAMESPACE)
        found = [
            pod for pod in pods if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        ]
        return found if len(found) == count else []

    found: list[dict[str, Any]] = eventually(f"{count} running pods of {name}", running, every=0.2)
    return found


def await_end(project: Project, name: str, *ends: str, namespace: str = NAMESPACE) -> dict[str, Any]:
    """Wait until a launch of a workload that is not being deleted has one of these conditions, and return it."""

    def ended() -> dict[str, Any] | None:
        kept = (body for body in launches(project, name, namespace) if "deletionTimestamp" not in body["metadata"])
        return next((body for body in kept if true_conditions(body) & set(ends)), None)

    body: dict[str, Any] = eventually(f"{name}: {' or '.join(ends)}", ended, every=0.2)
    return body


def exec_in_pod(project: Project, pod: dict[str, Any], *words: str) -> str:
    """Run a command in a pod and return its output."""
    done = project.kubectl("exec", "-n", NAMESPACE, pod["metadata"]["name"], "--", *words)
    assert done.code == 0, done.text
    return done.out


def assert_no_changes(project: Project, namespace: str = NAMESPACE) -> None:
    """Assert that `up --refresh` changes nothing and leaves the launches as they are."""
    before = uids(project, namespace)
    done = project.up("--refresh", "--expect-no-changes")
    assert done.code == 0, done.text
    assert uids(project, namespace) == before


def assert_up_refused(project: Project) -> CommandResult:
    """Assert that `up` is refused and changes no launch."""
    before = uids(project)
    done = project.up("--refresh")
    assert done.code != 0, done.text
    assert uids(project) == before
    return done


def edit_run(project: Project, name: str, edit: Callable[[Config], None]) -> None:
    """Change a run's definition in place."""

    def change(config: Config) -> None:
        (run,) = (declared for declared in config["trainstack:workloads"]["runs"] if declared["name"] == name)
        edit(run)

    project.edit_stack(change)
