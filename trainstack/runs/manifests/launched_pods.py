"""Read the pods of a launch back from its objects, for each kind."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from trainstack.runs.pods import NODE

Body = Mapping[str, Any]
"""A manifest, or a live object."""


@dataclass(frozen=True)
class LaunchedPods:
    """Pods that share a template."""

    name: str
    """The role in lower case, or the Job of a JobSet; `main` if there is only one. Kueue uses the same names."""
    count: int
    """The number of pods that run at the same time."""
    template: Body
    """The pod template. For a TrainJob without its runtime, only the container fields in the TrainJob."""

    @property
    def spec(self) -> Body:
        """The pod spec."""
        spec: Body = self.template["spec"]
        return spec


def launched_pods(launch: Body, companions: Iterable[Body] = ()) -> tuple[LaunchedPods, ...]:
    """The pods of a launch by role; empty for other kinds.

    Args:
        launch: the launch's object.
        companions: the objects that the launch refers to, as far as they are known.

    """
    read = _KINDS.get(launch["kind"])
    return () if read is None else tuple(read(launch, tuple(companions)))


def mounted(objects: Sequence[Body], volume: str) -> str | None:
    """The name of the ConfigMap that the pods of a launch mount as this volume; None where they mount none.

    `objects` are as `Ledger.objects` has them: the companions, then the launch.
    """
    *companions, launch = objects
    for pods in launched_pods(launch, companions):
        for each in pods.spec.get("volumes") or ():
            if each["name"] == volume:
                return str(each["configMap"]["name"])
    return None


def _pod(launch: Body, _: tuple[Body, ...] = ()) -> Iterator[LaunchedPods]:
    yield LaunchedPods(_ONLY, 1, launch)


def _job(launch: Body, _: tuple[Body, ...] = ()) -> Iterator[LaunchedPods]:
    spec = launch["spec"]
    at_once = spec.get("parallelism", 1)
    yield LaunchedPods(_ONLY, min(at_once, spec.get("completions", at_once)), spec["template"])


def _jobset(launch: Body, _: tuple[Body, ...] = ()) -> Iterator[LaunchedPods]:
    for jobs in launch["spec"]["replicatedJobs"]:
        for each in _job(jobs["template"]):
            yield LaunchedPods(jobs["name"], each.count * jobs.get("replicas", 1), each.template)


def _pytorchjob(launch: Body, _: tuple[Body, ...] = ()) -> Iterator[LaunchedPods]:
    # The master is first, as in Kueue.
    for name, role in sorted(launch["spec"]["pytorchReplicaSpecs"].items()):
        yield LaunchedPods(name.lower(), role.get("replicas", 1), role["template"])


def _trainjob(launch: Body, companions: tuple[Body, ...]) -> Iterator[LaunchedPods]:
    trainer = dict(launch["spec"]["trainer"])
    nodes = trainer.pop("numNodes")
    trainer.pop("numProcPerNode", None)  # not a container field
    if "resourcesPerNode" in trainer:
        trainer["resources"] = trainer.pop("resourcesPerNode")
    runtimes = [each["spec"]["template"] for each in companions if each["kind"] == "TrainingRuntime"]
    templates = [each.template for runtime in runtimes for each in _jobset(runtime)]
    for template in templates or [{"spec": {"containers": [{"name": NODE}]}}]:
        containers = [{**each, **trainer} if each["name"] == NODE else each for each in template["spec"]["containers"]]
        yield LaunchedPods(NODE, nodes, {**template, "spec": {**template["spec"], "containers": containers}})


_ONLY = "main"
_KINDS: Mapping[str, Callable[[Body, tuple[Body, ...]], Iterator[LaunchedPods]]] = MappingProxyType(
    {"Job": _job, "JobSet": _jobset, "Pod": _pod, "PyTorchJob": _pytorchjob, "TrainJob": _trainjob}
)
