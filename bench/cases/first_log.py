"""One changed run, from the command to the first line of its log."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import httpx
import yaml

from bench import tools
from bench.case import Arm, Case, Scene
from bench.cluster_reads import await_true, client, first_log_line, jobs_ended
from bench.environments import as_config

STACK = NAMESPACE = QUEUE = "bench-run"
_MARK = "bench.trainstack.dev/round"
"""Label of the pods of one measurement."""
_PROGRAM = ["sh", "-c", "echo first"]


def settings(mark: str) -> dict[str, Any]:
    """Return an environment with a queue and one run, which is another run for each mark."""
    quotas = [{"name": "cpu", "nominalQuota": 2}, {"name": "memory", "nominalQuota": "2Gi"}]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": QUEUE, "resources": quotas}]}
    run = {
        "name": "changed",
        "namespace": NAMESPACE,
        "kind": "Job",
        "managed": False,
        "queue": QUEUE,
        "image": {"name": "busybox:1.35"},
        "command": _PROGRAM,
        "labels": {_MARK: mark},
        "env": {"ROUND": mark},
        "runAsUser": 1000,
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
    }
    return {
        "environment": {"state": "embedded", "namespaces": [{"name": NAMESPACE}]},
        "queues": {
            "flavors": [{"name": QUEUE}],
            "clusterQueues": [{"name": QUEUE, "resourceGroups": [group]}],
            "localQueues": [{"name": QUEUE, "namespace": NAMESPACE, "clusterQueue": QUEUE}],
            "priorityClasses": None,
        },
        "workloads": {"runs": [run]},
    }


def job(template: dict[str, Any], mark: str) -> dict[str, Any]:
    """Return the run's Job under a name of its own, without the labels by which Trainstack finds it."""
    body: dict[str, Any] = json.loads(json.dumps(template))
    pod = body["spec"]["template"]
    for metadata in (body["metadata"], pod["metadata"]):
        labels = {key: value for key, value in metadata["labels"].items() if "trainstack" not in f"{key}{value}"}
        metadata["labels"] = {**labels, _MARK: mark}
    body["metadata"]["name"] = f"changed-{mark}"
    return body


class _Rounds:
    """Gives each measurement a mark of its own, which its pods have."""

    def __init__(self, api: httpx.Client) -> None:
        self._api = api
        self._mark = ""

    def prepare(self, write: Callable[[str], None]) -> None:
        # A change that would delete an active run is refused.
        await_true("the end of the earlier runs", partial(jobs_ended, self._api, NAMESPACE))
        self._mark = f"r{time.time_ns() // 1_000_000}"
        write(self._mark)

    def until(self) -> None:
        selector = f"{_MARK}={self._mark}"
        await_true("the first log line", partial(first_log_line, self._api, NAMESPACE, selector))


@contextmanager
def _arms(scene: Scene) -> Iterator[Sequence[Arm]]:
    """Bring the queue up, and yield the arms of a changed run."""
    file = scene.folder / f"Pulumi.{STACK}.yaml"

    def declare(mark: str) -> None:
        kept = yaml.safe_load(file.read_text()) if file.exists() else {}
        file.write_text(yaml.safe_dump({**kept, **as_config(settings(mark))}))

    declare("first")
    tools.run(scene.command(*tools.CLI, "up", "-s", STACK, "--yes", "--no-wait"))
    objects = tools.live_objects(scene, STACK)
    (template,) = (body for body in objects.bodies() if body["kind"] == "Job")
    program = tools.program(scene, "changed", "sdk.py", [])

    def write_file(mark: str) -> None:
        objects.file.write_text(json.dumps(tools.as_list([job(template, mark)])))

    def write_program(mark: str) -> None:
        (program.folder / "objects.json").write_text(json.dumps([job(template, mark)]))

    up = ("up", "--yes", "--skip-preview")
    with client(scene.kubeconfig) as api:
        rounds = _Rounds(api)
        commands = {
            tools.TRAINSTACK: (tools.pulumi(scene, STACK, *up), declare),
            tools.KUBECTL: (objects.kubectl(scene, "apply"), write_file),
            tools.SDK: (program.command(*up), write_program),
            tools.CLIENT: (objects.client(scene), write_file),
        }
        yield [
            Arm(name=name, command=command, prepare=partial(rounds.prepare, write), until=rounds.until)
            for name, (command, write) in commands.items()
        ]
    tools.run(scene.command("kubectl", "delete", "jobs", "--all", "-n", NAMESPACE))


CASES = (
    Case(
        id="first-log",
        title="One changed run, from the command to its first log line",
        place="cluster",
        arms=_arms,
        measure="wall",
    ),
)
