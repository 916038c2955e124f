"""Kills of the engine: their moments and victims, and the content of state and cluster afterwards."""

import json
import os
import random
import signal
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tests.cluster.lab import platform_config, unmanaged_run, volume
from tests.cluster.project import Project
from tests.faults import engine
from tests.faults.engine import EngineResult
from tests.permissions import permit_all

Operation = Literal["up", "destroy"]
Victim = Literal["cli", "language host", "provider"]
VICTIMS: tuple[Victim, ...] = ("cli", "language host", "provider")
COMMANDS: dict[Operation, tuple[str, ...]] = {"up": ("up",), "destroy": ("destroy", "--run-program")}
"""Of the engine's commands: a destroy runs the program for its hooks."""
NAMESPACE = "lab"
_LONG_COMMAND = ["sh", "-c", "trap 'exit 143' TERM; sleep 3600 & wait"]
_KINDS = "storageclasses,resourceflavors,clusterqueues,localqueues,persistentvolumeclaims,jobs,configmaps"
"""Of the stack's objects; Kueue's are known by their plain names."""


def platform() -> dict[str, Any]:
    """Return the platform of the stack: Kueue and the namespace, in a stack that is never killed."""
    return {
        "trainstack:environment": {"layers": ["platform"], "namespaces": [{"name": NAMESPACE}]},
        "trainstack:operators": {"kueue": {"requests": {"cpu": "50m", "memory": "128Mi"}}},
        "trainstack:queues": {"priorityClasses": None},
    }


def victim_config() -> dict[str, Any]:
    """Return a class, queues, volumes, and runs in every state: two active, two queued, one that finishes at once."""
    runs = [
        unmanaged_run("works", command=_LONG_COMMAND),
        unmanaged_run("works-too", command=_LONG_COMMAND),
        unmanaged_run("waits", queue="held", command=_LONG_COMMAND),
        unmanaged_run("waits-too", queue="held", command=_LONG_COMMAND),
        unmanaged_run("ends", command=["true"], volumes=[]),
    ]
    return {
        "trainstack:environment": {"existing": {"namespaces": [NAMESPACE]}},
        "trainstack:storage": {
            "classes": [{"name": "killed", "provisioner": "rancher.io/local-path"}],
            "volumes": [{**volume(name), "storageClass": "killed"} for name in ("lab", "spare")],
        },
        "trainstack:queues": platform_config()["trainstack:queues"],
        "trainstack:workloads": {"runs": runs},
    }


@dataclass(frozen=True)
class Kill:
    """One SIGKILL."""

    operation: Operation
    victim: Victim
    moment: int
    """The number of starts and ends of operations on objects before it."""

    @staticmethod
    def draw(seed: int, number: int, moments: dict[Operation, int]) -> "Kill":
        """Return the kill with this number: during `up` if it is even, else during `destroy`; the rest is uniform."""
        drawn = random.Random(f"{seed} {number}")
        operation: Operation = "destroy" if number % 2 else "up"
        return Kill(operation, drawn.choice(VICTIMS), drawn.randint(1, moments[operation]))


def run(
    project: Project, operation: Operation, log: Path, moment: int = 0, inject: Callable[[int], bool] | None = None
) -> EngineResult:
    """Run an operation to its end, and at a moment call `inject` with its session until it returns True."""
    # A destroy is that of `trainstack destroy`, which active runs do not stop.
    permitted: AbstractContextManager[Mapping[str, str]] = nullcontext({})
    if operation == "destroy":
        permitted = permit_all(project.root, project.stack, project.resources())
    with permitted as ending:
        return engine.run(project, *COMMANDS[operation], log=log, moment=moment, inject=inject, environment=ending)


def kill(victim: Victim, session: int) -> bool:
    """Kill the victim's processes in a session; return whether there was one."""
    found = [pid for pid, words in engine.processes(session) if engine_part(words) == victim]
    for pid in found:
        os.kill(pid, signal.SIGKILL)
    return bool(found)


def engine_part(words: str) -> Victim:
    """Return the part of the engine that a process is, from its command line."""
    if "language_host" in words or "pulumi-language-python" in words:
        return "language host"
    return "provider" if "pulumi-resource-kubernetes" in words else "cli"


def state_uids(project: Project) -> dict[tuple[str, str], str]:
    """Return the UIDs of the objects in the state, by kind and id."""
    done = project.pulumi("stack", "export")
    assert done.code == 0, done.text
    deployment = json.loads(done.out)["deployment"]
    assert not deployment.get("pending_operations"), deployment["pending_operations"]
    return {
        (resource["type"].rpartition(":")[2], resource["id"]): resource["outputs"]["metadata"]["uid"]
        for resource in deployment.get("resources", ())
        # The namespace by which the provider checks its cluster is only read; it is not the stack's.
        if resource["type"].startswith("kubernetes:") and not resource.get("external")
    }


def live_uids(project: Project) -> dict[tuple[str, str], str]:
    """Return the UIDs of the marked objects in the cluster, by kind and id."""
    found = {}
    for body in project.select(_KINDS, f"trainstack.dev/stack={project.stack}"):
        metadata = body["metadata"]
        place = "/".join(part for part in (metadata.get("namespace"), metadata["name"]) if part)
        found[body["kind"], place] = metadata["uid"]
    return found


def launch_uids(objects: dict[tuple[str, str], str]) -> dict[str, str]:
    """Return the UIDs of the launches among the objects, by name."""
    return {place: uid for (kind, place), uid in objects.items() if kind == "Job"}
