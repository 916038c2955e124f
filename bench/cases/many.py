"""Hundreds and thousands of runs and trials, on simulated nodes."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import httpx
import yaml

from bench import tools
from bench.case import Arm, Case, Scene, nothing
from bench.cases.status import arms_of
from bench.cluster_reads import await_true, client, delete_page, items
from bench.environments import as_config
from trainstack.live.run_views import KUEUE
from trainstack.local_cluster.simulated_gpus import DURATION_ANNOTATION, SIMULATED_NODE_KEY
from trainstack.objects import labels

Form = Literal["jobs", "indexed"]
NAMESPACE, QUARTER = "bench-many", "bench-quarter"
OPEN, HELD = "bench-open", "bench-held"
"""Queues: one admits at once, one nothing."""
PLATFORM, STACK, VOLUME = "bench-many", "bench-launches", "bench"
TRIALS: dict[Form, int] = {"jobs": 50, "indexed": 1000}
"""The engine's time is quadratic in the Jobs (docs/decisions/0027-checkpoints.md): 500 take more than 20 minutes."""
SDK_JOBS = 200
"""The program of the SDK never launches more."""
RUNS = 100
SIZES = (200, 50)
LIVE, ENDED = 1000, 10_000
"""Launches of a status in NAMESPACE; QUARTER has a fourth of each."""
UP = ("up", "--yes", "--skip-preview")
Body = dict[str, Any]


def platform() -> Body:
    """Return an environment with both namespaces and both queues."""

    def cluster_queue(name: str, **changes: str) -> Body:
        quotas = [{"name": "cpu", "nominalQuota": 1000}, {"name": "memory", "nominalQuota": "2000Gi"}]
        group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": OPEN, "resources": quotas}]}
        return {"name": name, "resourceGroups": [group], **changes}

    spaces = (NAMESPACE, QUARTER)
    return {
        "environment": {"state": "embedded", "layers": ["platform"], "namespaces": [{"name": name} for name in spaces]},
        "queues": {
            "flavors": [
                {
                    "name": OPEN,
                    "nodeLabels": {"type": "kwok"},
                    "tolerations": [{"key": SIMULATED_NODE_KEY, "operator": "Exists"}],
                }
            ],
            "clusterQueues": [cluster_queue(OPEN), cluster_queue(HELD, stopPolicy="Hold")],
            "localQueues": [
                {"name": name, "namespace": space, "clusterQueue": name} for space in spaces for name in (OPEN, HELD)
            ],
            "priorityClasses": None,
        },
    }


def run(queue: str | None, **changes: Any) -> Body:
    """Return a run of one pod, which a simulated node pretends to execute for a second."""
    placed = {
        "nodeSelector": {"type": "kwok"},
        "tolerations": [{"key": SIMULATED_NODE_KEY, "operator": "Exists"}],
    }
    return {
        "kind": "Job",
        "namespace": NAMESPACE,
        "managed": False,
        "image": {"name": "busybox:1.35"},
        "command": ["train"],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
        "annotations": {DURATION_ANNOTATION: "1s"},
        "runAsUser": 1000,
        **({"queue": queue} if queue else placed),
        **changes,
    }


def sweep(trials: int, form: Form) -> Body:
    """Return the sections of a sweep on the queue that admits nothing.

    Of form `jobs` without `parallelism`: with it, one `up` would launch only so many, and the other tools all.
    """
    recorded = {"record": {"volume": VOLUME}, "volumes": [{"volume": VOLUME, "mountPath": "/mnt/bench"}]}
    gang = {"parallelism": 100} if form == "indexed" else {}
    claim = {"name": VOLUME, "namespace": NAMESPACE, "storageClass": "shared", "size": "1Gi", "retain": False}
    declared = {"name": _space(trials), "form": form, **gang, "run": run(HELD, managed=True, **recorded)}
    return {
        "storage": {"volumes": [{**claim, "accessModes": ["ReadWriteMany"]}]},
        "sweeps": {"sweeps": [declared]},
    }


def _space(trials: int) -> str:
    return f"bench-{trials}"


def space(trials: int) -> Body:
    """Return the search space of so many trials."""
    return {
        "method": "grid",
        "parameters": {"seed": {"int": {"low": 1, "high": trials}}},
        "objective": {"metric": "val_accuracy", "direction": "maximize"},
        "args": ["--seed=${parameters.seed}"],
    }


class _Namespace:
    """A namespace, which is emptied before each measurement, and the stack whose launches are measured."""

    def __init__(self, scene: Scene, api: httpx.Client, namespace: str, stack: str) -> None:
        self._scene, self._api, self._namespace, self._stack = scene, api, namespace, stack
        self._file = scene.folder / f"Pulumi.{stack}.yaml"

    def declare(self, sections: Body) -> None:
        """Write the stack's file, and create its state."""
        training = {"state": "embedded", "layers": ["training"], "platform": f"organization/trainstack/{PLATFORM}"}
        self._file.write_text(yaml.safe_dump(as_config({"environment": training, **sections})))
        tools.run(self._scene.command(*tools.CLI, "env", "-s", self._stack))

    def objects(self, name: str, sections: Body) -> tools.Objects:
        """Return what the sections declare, for other tools."""
        self.declare(sections)
        return tools.written(self._scene, name, tools.rendered(self._scene, self._stack), "bench")

    def clear(self, sections: Body) -> None:
        """Delete all launches and ledgers, forget the state, and declare the sections."""
        core = f"/api/v1/namespaces/{self._namespace}"
        paths = [
            f"/apis/batch/v1/namespaces/{self._namespace}/jobs",
            f"{core}/configmaps",
            f"{core}/persistentvolumeclaims",
        ]
        selector = f"{labels.STACK}={self._stack}"
        for path in paths:
            await_true(f"no object of {self._stack} in {path}", partial(delete_page, self._api, path, selector))
        await_true("no pod", lambda: not items(self._api, f"{core}/pods", labels.RUN))
        if self._file.exists():
            tools.run(tools.pulumi(self._scene, self._stack, "stack", "rm", "--yes", "--force"))
        self.declare(sections)

    def arm(self, name: str, sections: Body, until: Callable[[], None] = nothing) -> Arm:
        """Return an `up` of the sections."""
        return Arm(
            name=name,
            command=tools.pulumi(self._scene, self._stack, *UP),
            prepare=partial(self.clear, sections),
            until=until,
            state=tools.state_file(tools.pulumi_backend(self._scene.folder), "trainstack", self._stack),
        )

    def fill(self, live: int, ended: int) -> None:
        """Create the Jobs of so many runs, and wait for the Workload of each live one."""
        sections = runs(1, HELD, namespace=self._namespace)
        (job,) = (body for body in self.objects("run", sections).bodies() if body["kind"] == "Job")
        file = self._scene.scratch / "job.json"
        file.write_text(json.dumps(job))
        program = (sys.executable, "-m", "bench.programs.make_runs")
        tools.run(self._scene.command(*program, str(file), str(live), str(ended)))
        queued = f"{KUEUE}/namespaces/{self._namespace}/workloads"
        await_true("a Workload of each live run", lambda: len(items(self._api, queued)) >= live)

    def ended(self) -> bool:
        """Return whether all runs have succeeded."""
        jobs = items(self._api, f"/apis/batch/v1/namespaces/{self._namespace}/jobs", labels.RUN)
        return sum(bool(job["status"].get("succeeded")) for job in jobs) >= RUNS


@contextmanager
def _namespace(scene: Scene, namespace: str = NAMESPACE, stack: str = STACK) -> Iterator[_Namespace]:
    _bring_platform_up(scene)
    with client(scene.kubeconfig) as api:
        target = _Namespace(scene, api, namespace, stack)
        yield target
        target.clear({})


@contextmanager
def _runs(scene: Scene, *, queue: str | None) -> Iterator[Sequence[Arm]]:
    """Yield the arms of runs, until the last pod has finished."""
    with _namespace(scene) as namespace:
        sections = runs(RUNS, queue)
        objects = namespace.objects("runs", sections)
        until = partial(await_true, "all runs have ended", namespace.ended)
        prepare = partial(namespace.clear, sections)
        commands = {tools.KUBECTL: objects.kubectl(scene, "apply"), tools.CLIENT: objects.client(scene)}
        others = [Arm(name=name, command=command, prepare=prepare, until=until) for name, command in commands.items()]
        yield [namespace.arm(tools.TRAINSTACK, sections, until), *others]


@contextmanager
def _sizes(scene: Scene) -> Iterator[Sequence[Arm]]:
    """Yield the arms of launches of different numbers of runs that their queue does not admit."""
    with _namespace(scene) as namespace:
        yield [namespace.arm(f"{count:,} runs", runs(count, HELD)) for count in SIZES]


@contextmanager
def _sweep(scene: Scene, *, form: Form) -> Iterator[Sequence[Arm]]:
    """Yield the arms of a sweep. The other tools launch a Job for each trial, whatever the form."""
    trials = TRIALS[form]
    with _namespace(scene) as namespace:
        sections = sweep(trials, form)
        objects = namespace.objects(_space(trials), sweep(trials, "jobs"))
        make = partial(tools.program, scene, "sweep-sdk", "sdk.py", _with_jobs(objects.bodies(), SDK_JOBS))
        program = make()
        sdk = tools.SDK if trials <= SDK_JOBS else f"{tools.SDK}, {SDK_JOBS} Jobs alone"

        def prepare() -> None:
            namespace.clear(sections)
            make()

        commands = {tools.KUBECTL: objects.kubectl(scene, "apply"), tools.CLIENT: objects.client(scene)}
        yield [
            namespace.arm(tools.TRAINSTACK, sections),
            *(Arm(name=name, command=command, prepare=prepare) for name, command in commands.items()),
            replace(program.arm(sdk, *UP), prepare=prepare),
        ]


def _with_jobs(bodies: Sequence[Body], most: int) -> list[Body]:
    """Return the objects with at most so many Jobs."""
    jobs = [body for body in bodies if body["kind"] == "Job"]
    return [*(body for body in bodies if body["kind"] != "Job"), *jobs[:most]]


def _bring_platform_up(scene: Scene) -> None:
    file = scene.folder / f"Pulumi.{PLATFORM}.yaml"
    if file.exists():
        return
    file.write_text(yaml.safe_dump(as_config(platform())))
    tools.run(scene.command(*tools.CLI, "up", "-s", PLATFORM, "--yes", "--no-wait"))
    for trials in TRIALS.values():
        content = scene.folder / "sweeps" / _space(trials) / "space.yaml"
        content.parent.mkdir()
        content.write_text(yaml.safe_dump(space(trials), sort_keys=False))
        tools.run(scene.command(*tools.CLI, "sweep", "expand", _space(trials)))


@contextmanager
def _status(scene: Scene) -> Iterator[Sequence[Arm]]:
    """Yield the arms of a status of many launches, which no pod of this machine ever executed."""
    with _namespace(scene) as all_runs, _namespace(scene, QUARTER, QUARTER) as quarter:
        all_runs.fill(LIVE, ENDED)
        quarter.fill(LIVE // 4, ENDED // 4)
        fourth = scene.command(*tools.CLI, "status", "-s", QUARTER)
        yield [*arms_of(scene, STACK, NAMESPACE), Arm(name="a fourth of the runs", command=fourth)]


def runs(count: int, queue: str | None, **changes: Any) -> Body:
    """Return the section of so many runs, with changed fields of each."""
    declared = [{"name": f"run-{number}", **run(queue, **changes)} for number in range(count)]
    return {"workloads": {"runs": declared}}


CASES = (
    Case(
        id="status-many",
        title=f"`trainstack status` of {LIVE:,} live and {ENDED:,} ended runs",
        subject="clusters",
        place="simulated",
        arms=_status,
        rounds=3,
    ),
    *(
        Case(
            id=f"sweep-{form}",
            title=f"Launch of a sweep of {trials:,} trials, form `{form}`",
            subject="sweeps",
            place="simulated",
            arms=partial(_sweep, form=form),
            measure="wall",
            # An arm takes minutes, and the arms differ by factors.
            rounds=1 if form == "indexed" else 3,
            warm_up=False,
        )
        for form, trials in TRIALS.items()
    ),
    Case(
        id="runs-sizes",
        title=" and ".join(f"{count:,}" for count in SIZES) + " runs in a queue that admits none",
        subject="runs",
        place="simulated",
        arms=_sizes,
        measure="wall",
        rounds=1,
        warm_up=False,
    ),
    *(
        Case(
            id=f"runs-{name}",
            title=f"{RUNS} runs of one pod {note}, from the command to the end of the last",
            subject="runs",
            place="simulated",
            arms=partial(_runs, queue=queue),
            measure="wall",
            rounds=3,
            warm_up=False,
        )
        for name, note, queue in (("kueue", "in a Kueue queue", OPEN), ("plain", "without Kueue", None))
    ),
)
