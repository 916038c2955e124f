"""A stack whose engine is killed: its processes, the moments of its operations, what state and cluster hold then."""

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from stacks.ending import ENDING
from tests.cluster.lab import bare, platform_config, volume
from tests.cluster.project import Done, Project, eventually

Operation = Literal["up", "destroy"]
Victim = Literal["cli", "language host", "provider"]
VICTIMS: tuple[Victim, ...] = ("cli", "language host", "provider")
WORDS: dict[Operation, tuple[str, ...]] = {"up": ("up",), "destroy": ("destroy", "--run-program")}
"""Of the engine's commands: a destroy runs the program for its hooks."""
NAMESPACE = "lab"
_WORKS = ["sh", "-c", "trap 'exit 143' TERM; sleep 3600 & wait"]
_KINDS = "storageclasses,resourceflavors,clusterqueues,localqueues,persistentvolumeclaims,jobs,configmaps"
"""Of the stack's objects; Kueue's are known by their plain names."""


def platform() -> dict[str, Any]:
    """What the stack stands on: Kueue and the namespace, in a stack that nobody kills."""
    return {
        "trainstack:environment": {"halves": ["platform"], "namespaces": [{"name": NAMESPACE}]},
        "trainstack:operators": {"kueue": {"requests": {"cpu": "50m", "memory": "128Mi"}}},
        "trainstack:queues": {"priorityClasses": None},
    }


def victim_config() -> dict[str, Any]:
    """A class, queues, volumes, and runs of every state: two at work, two queued, one that ends at once."""
    runs = [
        bare("works", command=_WORKS),
        bare("works-too", command=_WORKS),
        bare("waits", queue="held", command=_WORKS),
        bare("waits-too", queue="held", command=_WORKS),
        bare("ends", command=["true"], volumes=[]),
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
    """How many beginnings and ends of operations on objects are seen first."""

    @staticmethod
    def draw(seed: int, number: int, moments: dict[Operation, int]) -> "Kill":
        """The kill of a number: of even numbers during `up`, of odd ones during `destroy`; the rest is uniform."""
        drawn = random.Random(f"{seed} {number}")
        operation: Operation = "destroy" if number % 2 else "up"
        return Kill(operation, drawn.choice(VICTIMS), drawn.randint(1, moments[operation]))


@dataclass(frozen=True)
class Ended:
    """An engine that has ended, by itself or not."""

    done: Done
    moments: int
    struck: bool
    """Whether its moment came, and what was to be done then was done."""
    session: int
    """What all its processes have in common."""


def run(
    project: Project, operation: Operation, log: Path, moment: int = 0, strike: Callable[[int], bool] | None = None
) -> Ended:
    """Run an operation to its end, and at a moment call `strike` with its session, once this says that it did it."""
    words = [*WORDS[operation], "--yes", "--skip-preview", "--non-interactive", "--stack", project.stack]
    log.unlink(missing_ok=True)
    output = log.with_suffix(".txt")
    with output.open("w") as told:
        engine = subprocess.Popen(
            ["pulumi", *words, "--event-log", str(log)],
            cwd=project.root,
            env={
                **os.environ,
                "KUBECONFIG": str(project.kubeconfig),
                "PYTHONPATH": str(project.root),
                **project.variables,
                # A destroy is that of `trainstack destroy`, which active runs do not stop.
                **({ENDING: f"destroy:{project.stack}"} if operation == "destroy" else {}),
                # The engine's flag for the log of its events is one for those who debug it.
                "PULUMI_DEBUG_COMMANDS": "true",
            },
            stdin=subprocess.DEVNULL,
            stdout=told,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        seen, struck, end = Moments(log), False, time.monotonic() + 300
        while engine.poll() is None:
            assert time.monotonic() < end, f"{operation} has not ended: {output.read_text()}"
            if strike is not None and not struck and seen.read() >= moment:
                struck = strike(engine.pid)
            time.sleep(0.002)
    return Ended(Done(engine.returncode, output.read_text(), ""), seen.read(), struck, engine.pid)


class Moments:
    """The beginnings and ends of operations on objects, counted as the engine writes them into its log of events."""

    def __init__(self, log: Path) -> None:
        self._log, self._rest, self._offset = log, b"", 0
        self.count = 0

    def read(self) -> int:
        """Take what was written since; how many there are now."""
        if self._log.exists():
            with self._log.open("rb") as file:
                file.seek(self._offset)
                new = file.read()
            self._offset += len(new)
            *whole, self._rest = (self._rest + new).split(b"\n")
            self.count += sum(_is_moment(json.loads(line)) for line in whole)
        return self.count


def _is_moment(event: dict[str, Any]) -> bool:
    told = (event.get("resourcePreEvent") or event.get("resOutputsEvent") or {}).get("metadata") or {}
    return told.get("op") in ("create", "delete") and str(told["type"]).startswith("kubernetes:")


def kill(victim: Victim, session: int) -> bool:
    """Kill the processes of a session that are the victim; whether there was one."""
    found = [pid for pid, words in processes(session) if who(words) == victim]
    for pid in found:
        os.kill(pid, signal.SIGKILL)
    return bool(found)


def end_leftovers(session: int) -> None:
    """End what a killed engine left running: its provider looks only now and then whether it still lives."""
    for pid, _ in processes(session):
        os.kill(pid, signal.SIGKILL)
    eventually("nothing of the engine runs", lambda: not list(processes(session)))


def processes(session: int) -> Iterator[tuple[int, str]]:
    """The processes of a session that run, with their words."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, number = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if int(number) == session and state not in "ZX":
            yield int(folder.name), words


def who(words: str) -> Victim:
    """Which part of the engine a process is, by its words."""
    if "language_host" in words or "pulumi-language-python" in words:
        return "language host"
    return "provider" if "pulumi-resource-kubernetes" in words else "cli"


def recorded(project: Project) -> dict[tuple[str, str], str]:
    """The objects of the state by kind and id, with their uids."""
    done = project.pulumi("stack", "export")
    assert done.code == 0, done.text
    deployment = json.loads(done.out)["deployment"]
    assert not deployment.get("pending_operations"), deployment["pending_operations"]
    return {
        (each["type"].rpartition(":")[2], each["id"]): each["outputs"]["metadata"]["uid"]
        for each in deployment.get("resources", ())
        if each["type"].startswith("kubernetes:")
    }


def marked(project: Project) -> dict[tuple[str, str], str]:
    """The objects in the cluster with the stack's mark, likewise."""
    done = project.kubectl("get", _KINDS, "-A", "-o", "json", "-l", f"trainstack.dev/stack={project.stack}")
    assert done.code == 0, done.text
    found = {}
    for body in json.loads(done.out)["items"]:
        metadata = body["metadata"]
        place = "/".join(part for part in (metadata.get("namespace"), metadata["name"]) if part)
        found[body["kind"], place] = metadata["uid"]
    return found


def runs(objects: dict[tuple[str, str], str]) -> dict[str, str]:
    """The launches among objects."""
    return {place: uid for (kind, place), uid in objects.items() if kind == "Job"}
