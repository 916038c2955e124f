"""One changed run, from the command to the first line of its log."""

import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import yaml

from bench import tools
from bench.case import Arm, Case, Scene
from bench.cluster_reads import await_true, client, first_log_line, jobs_ended
from bench.environments import as_config
from bench.meter import BenchError
from trainstack.live.kubeconfig import LOCAL_CLUSTER_FILE

STACK = NAMESPACE = QUEUE = "bench-run"
DEV, DEV_NAMESPACE, DEV_QUEUE = "dev", "research", "research"
_MARK = "bench.trainstack.dev/round"
"""Label of the pods of one measurement."""
_PROGRAM = ["sh", "-c", "echo first"]


def declared_run(namespace: str, queue: str, mark: str) -> dict[str, Any]:
    """Return a run, which is another run for each mark."""
    return {
        "name": "changed",
        "namespace": namespace,
        "kind": "Job",
        "managed": False,
        "queue": queue,
        "image": {"name": "busybox:1.35"},
        "command": _PROGRAM,
        "labels": {_MARK: mark},
        "env": {"ROUND": mark},
        "runAsUser": 1000,
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
    }


def settings(mark: str) -> dict[str, Any]:
    """Return an environment with a queue and one run."""
    quotas = [{"name": "cpu", "nominalQuota": 2}, {"name": "memory", "nominalQuota": "2Gi"}]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": QUEUE, "resources": quotas}]}
    return {
        "environment": {"state": "embedded", "namespaces": [{"name": NAMESPACE}]},
        "queues": {
            "flavors": [{"name": QUEUE}],
            "clusterQueues": [{"name": QUEUE, "resourceGroups": [group]}],
            "localQueues": [{"name": QUEUE, "namespace": NAMESPACE, "clusterQueue": QUEUE}],
            "priorityClasses": None,
        },
        "workloads": {"runs": [declared_run(NAMESPACE, QUEUE, mark)]},
    }


def job(template: dict[str, Any], mark: str) -> dict[str, Any]:
    """Return the run's Job under its own name, without the labels by which Trainstack finds it."""
    body: dict[str, Any] = json.loads(json.dumps(template))
    pod = body["spec"]["template"]
    for metadata in (body["metadata"], pod["metadata"]):
        labels = {key: value for key, value in metadata["labels"].items() if "trainstack" not in f"{key}{value}"}
        metadata["labels"] = {**labels, _MARK: mark}
    body["metadata"]["name"] = f"changed-{mark}"
    return body


class _Rounds:
    """Marks of measurements: each measurement has its own, which is a label of its pods."""

    def __init__(self, api: httpx.Client, namespace: str) -> None:
        self._api, self._namespace = api, namespace
        self._mark = ""

    def prepare(self, write: Callable[[str], None]) -> None:
        # A change that would delete an active run is refused.
        await_true("the end of the earlier runs", partial(jobs_ended, self._api, self._namespace, _MARK))
        self._mark = f"r{time.time_ns() // 1_000_000}"
        write(self._mark)

    def until(self) -> None:
        selector = f"{_MARK}={self._mark}"
        await_true("the first log line", partial(first_log_line, self._api, self._namespace, selector))


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
        rounds = _Rounds(api, NAMESPACE)
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


@contextmanager
def _up_dev(scene: Scene) -> Iterator[Sequence[Arm]]:
    """Add a run to `dev`, and yield the arms of its change, with the scene's cluster as the project's local one."""
    file = scene.folder / f"Pulumi.{DEV}.yaml"
    before = file.read_text()

    def declare(mark: str) -> None:
        content = yaml.safe_load(before)
        content["config"]["trainstack:workloads"]["runs"].append(declared_run(DEV_NAMESPACE, DEV_QUEUE, mark))
        file.write_text(yaml.safe_dump(content, sort_keys=False))

    # With --no-wait, the command ends when the run is launched.
    up = (*tools.CLI, "up", "-s", DEV, "--yes", "--no-wait")
    with _as_local(scene) as kubeconfig, client(scene.kubeconfig) as api:
        command = scene.command(*up, KUBECONFIG=str(kubeconfig))
        declare("first")
        tools.run(command)
        objects = tools.live_objects(scene, DEV)
        (template,) = (body for body in objects.bodies() if _MARK in body["metadata"].get("labels", {}))

        def write_file(mark: str) -> None:
            objects.file.write_text(json.dumps(tools.as_list([job(template, mark)])))

        rounds = _Rounds(api, DEV_NAMESPACE)
        try:
            yield [
                Arm(
                    name=tools.TRAINSTACK,
                    command=command,
                    prepare=partial(rounds.prepare, declare),
                    until=rounds.until,
                    check=_no_build,
                    state=tools.state_file(tools.pulumi_backend(scene.folder), "trainstack", DEV),
                ),
                Arm(
                    name=tools.KUBECTL,
                    command=objects.kubectl(scene, "apply"),
                    prepare=partial(rounds.prepare, write_file),
                    until=rounds.until,
                ),
            ]
        finally:
            await_true("the end of the last run", partial(jobs_ended, api, DEV_NAMESPACE, _MARK))
            file.write_text(before)
            tools.run(command)
            tools.run(scene.command("kubectl", "delete", "jobs", "-l", _MARK, "-n", DEV_NAMESPACE))


@contextmanager
def _as_local(scene: Scene) -> Iterator[Path]:
    """Make the scene's cluster the project's local one, with the user whose writes are counted; yield its kubeconfig.

    So `trainstack up` ensures the cluster and its images, as for everybody who uses `dev`.
    """
    if scene.cluster_state is None or scene.kubeconfig is None:
        raise BenchError("this case needs a cluster")
    kubeconfig = scene.folder / LOCAL_CLUSTER_FILE
    folder = kubeconfig.parent
    folder.mkdir()
    try:
        for entry in scene.cluster_state.iterdir():
            (folder / entry.name).symlink_to(scene.kubeconfig if entry.name == kubeconfig.name else entry)
        yield kubeconfig
    finally:
        shutil.rmtree(folder)


def _no_build(output: str) -> None:
    if "the registry has all" not in output:
        raise BenchError(f"`trainstack up` built or pushed an image:\n{output}")


CASES = (
    Case(
        id="first-log",
        title="One changed run, from the command to its first log line",
        subject="runs",
        place="cluster",
        arms=_arms,
        measure="wall",
    ),
    Case(
        id="first-log-dev",
        title="A changed run of `dev`, to its first log line",
        subject="runs",
        place="cluster",
        arms=_up_dev,
        measure="wall",
    ),
)
