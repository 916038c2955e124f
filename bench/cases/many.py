"""Hundreds and thousands of runs and trials, on simulated nodes."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import httpx
import yaml

from bench import tools
from bench.case import Arm, Case, Scene, nothing
from bench.cases.status import arms_of
from bench.cluster_reads import await_true, client, delete_page, items
from bench.environments import as_config
from trainstack.dev.cluster.simulated import DURATION, SIMULATED
from trainstack.live.progress import KUEUE
from trainstack.objects import labels

NAMESPACE = "bench-many"
OPEN, HELD = "bench-open", "bench-held"
"""Queues: one admits at once, one nothing."""
PLATFORM, STACK, SWEEP, VOLUME = "bench-many", "bench-launches", "bench-sweep", "bench"
TRIALS, RUNS = 1000, 500
LIVE, ENDED = 1000, 10_000
Body = dict[str, Any]


def platform() -> Body:
    """Return an environment with a namespace and both queues."""

    def cluster_queue(name: str, **changes: str) -> Body:
        quotas = [{"name": "cpu", "nominalQuota": 1000}, {"name": "memory", "nominalQuota": "2000Gi"}]
        group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": OPEN, "resources": quotas}]}
        return {"name": name, "resourceGroups": [group], **changes}

    return {
        "environment": {"state": "embedded", "layers": ["platform"], "namespaces": [{"name": NAMESPACE}]},
        "queues": {
            "flavors": [
                {
                    "name": OPEN,
                    "nodeLabels": {"type": "kwok"},
                    "tolerations": [{"key": SIMULATED, "operator": "Exists"}],
                }
            ],
            "clusterQueues": [cluster_queue(OPEN), cluster_queue(HELD, stopPolicy="Hold")],
            "localQueues": [{"name": name, "namespace": NAMESPACE, "clusterQueue": name} for name in (OPEN, HELD)],
            "priorityClasses": None,
        },
    }


def run(queue: str | None, **changes: Any) -> Body:
    """Return a run of one pod, which a simulated node pretends to execute for a second."""
    placed = {
        "nodeSelector": {"type": "kwok"},
        "tolerations": [{"key": SIMULATED, "operator": "Exists"}],
    }
    return {
        "kind": "Job",
        "namespace": NAMESPACE,
        "managed": False,
        "image": {"name": "busybox:1.35"},
        "command": ["train"],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
        "annotations": {DURATION: "1s"},
        "runAsUser": 1000,
        **({"queue": queue} if queue else placed),
        **changes,
    }


def sweep(form: str) -> Body:
    """Return a sweep of TRIALS trials on the queue that admits nothing.

    Of form `jobs` without `parallelism`: with it, one `up` would launch only so many, and the other tools all.
    """
    recorded = {"record": {"volume": VOLUME}, "volumes": [{"volume": VOLUME, "mountPath": "/mnt/bench"}]}
    gang = {"parallelism": 100} if form == "indexed" else {}
    return {"name": SWEEP, "form": form, **gang, "run": run(HELD, managed=True, **recorded)}


SPACE: Body = {
    "method": "grid",
    "parameters": {"seed": {"int": {"low": 1, "high": TRIALS}}},
    "objective": {"metric": "val_accuracy", "direction": "maximize"},
    "args": ["--seed=${parameters.seed}"],
}


class _Namespace:
    """The namespace, which is emptied before each measurement, and the stack whose launches are measured."""

    def __init__(self, scene: Scene, api: httpx.Client, section: Body) -> None:
        self._scene, self._api = scene, api
        training = {"state": "embedded", "layers": ["training"], "platform": f"organization/trainstack/{PLATFORM}"}
        self._file = scene.folder / f"Pulumi.{STACK}.yaml"
        self._text = yaml.safe_dump(as_config({"environment": training, **section}))

    def declare(self) -> None:
        """Write the stack's file, and create its state."""
        self._file.write_text(self._text)
        tools.run(self._scene.command(*tools.CLI, "env", "-s", STACK))

    def clear(self) -> None:
        """Delete all launches and ledgers, and forget the state."""
        core = f"/api/v1/namespaces/{NAMESPACE}"
        paths = [f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", f"{core}/configmaps", f"{core}/persistentvolumeclaims"]
        selector = f"{labels.STACK}={STACK}"
        for path in paths:
            await_true(f"no object of {STACK} in {path}", partial(delete_page, self._api, path, selector))
        await_true("no pod", lambda: not items(self._api, f"{core}/pods", labels.RUN))
        if self._file.exists():
            tools.run(tools.pulumi(self._scene, STACK, "stack", "rm", "--yes", "--force"))
        self.declare()

    def ended(self) -> bool:
        """Whether all runs have succeeded."""
        jobs = items(self._api, f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", labels.RUN)
        return sum(bool(job["status"].get("succeeded")) for job in jobs) >= RUNS


@contextmanager
def _arms(scene: Scene, *, section: Body, to_the_end: bool) -> Iterator[Sequence[Arm]]:
    """Yield the arms of launches of a section; with `to_the_end`, until the last pod has finished."""
    _bring_platform_up(scene)
    with client(scene.kubeconfig) as api:
        namespace = _Namespace(scene, api, section)
        namespace.declare()
        objects = tools.written(scene, STACK, tools.rendered(scene, STACK), "bench")
        until = partial(await_true, "all runs have ended", namespace.ended) if to_the_end else nothing
        up = tools.pulumi(scene, STACK, "up", "--yes", "--skip-preview")
        commands = {
            tools.TRAINSTACK: up,
            tools.KUBECTL: objects.kubectl(scene, "apply"),
            tools.CLIENT: objects.client(scene),
        }
        yield [
            Arm(name=name, command=command, prepare=namespace.clear, until=until) for name, command in commands.items()
        ]
        namespace.clear()


def _bring_platform_up(scene: Scene) -> None:
    file = scene.folder / f"Pulumi.{PLATFORM}.yaml"
    if not file.exists():
        file.write_text(yaml.safe_dump(as_config(platform())))
        tools.run(scene.command(*tools.CLI, "up", "-s", PLATFORM, "--yes", "--no-wait"))
        space = scene.folder / "sweeps" / SWEEP / "space.yaml"
        space.parent.mkdir()
        space.write_text(yaml.safe_dump(SPACE, sort_keys=False))
        tools.run(scene.command(*tools.CLI, "sweep", "expand", SWEEP))


@contextmanager
def _status(scene: Scene) -> Iterator[Sequence[Arm]]:
    """Yield the arms of a status of many launches, which no pod of this machine ever executed."""
    _bring_platform_up(scene)
    with client(scene.kubeconfig) as api:
        namespace = _Namespace(scene, api, {"workloads": {"runs": [{"name": "run", **run(HELD)}]}})
        namespace.declare()
        (job,) = (body for body in tools.rendered(scene, STACK) if body["kind"] == "Job")
        file = scene.scratch / "job.json"
        file.write_text(json.dumps(job))
        program = (sys.executable, "-m", "bench.programs.make_runs")
        tools.run(scene.command(*program, str(file), str(LIVE), str(ENDED)))
        queued = f"{KUEUE}/namespaces/{NAMESPACE}/workloads"
        await_true("a Workload of each live run", lambda: len(items(api, queued)) >= LIVE)
        yield arms_of(scene, STACK, NAMESPACE)
        namespace.clear()


def _runs(queue: str | None) -> Body:
    return {"workloads": {"runs": [{"name": f"run-{number}", **run(queue)} for number in range(RUNS)]}}


def _volume() -> Body:
    claim = {"name": VOLUME, "namespace": NAMESPACE, "storageClass": "shared", "size": "1Gi", "retain": False}
    return {"storage": {"volumes": [{**claim, "accessModes": ["ReadWriteMany"]}]}}


CASES = (
    Case(
        id="status-many",
        title=f"`trainstack status` of {LIVE:,} live and {ENDED:,} ended runs",
        place="simulated",
        arms=_status,
        rounds=3,
    ),
    *(
        Case(
            id=f"sweep-{form}",
            title=f"Launch of a sweep of {TRIALS:,} trials, form `{form}`",
            place="simulated",
            arms=partial(_arms, section={**_volume(), "sweeps": {"sweeps": [sweep(form)]}}, to_the_end=False),
            rounds=3,
            warm_up=False,
        )
        for form in ("jobs", "indexed")
    ),
    *(
        Case(
            id=f"runs-{name}",
            title=f"{RUNS} runs of one pod {note}, from the command to the end of the last",
            place="simulated",
            arms=partial(_arms, section=_runs(queue), to_the_end=True),
            measure="wall",
            rounds=3,
            warm_up=False,
        )
        for name, note, queue in (("kueue", "in a Kueue queue", OPEN), ("plain", "without Kueue", None))
    ),
)
