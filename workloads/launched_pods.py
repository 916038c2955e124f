"""The pods that a launch makes, read back from its objects: where each kind of launch keeps them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from workloads.pods import NODE

Body = Mapping[str, Any]
"""A manifest, or a live object."""


@dataclass(frozen=True)
class LaunchedPods:
    """Pods that are alike."""

    count: int
    """How many stand at once."""
    spec: Body
    """The spec of each. Of a TrainJob without its runtime: only what the TrainJob says of the one container."""


def launched_pods(launch: Body, companions: Iterable[Body] = ()) -> tuple[LaunchedPods, ...]:
    """The pods of a launch by role; none for a kind that is no launch's.

    Args:
        launch: the launch's object.
        companions: what it refers to, as far as it is known.

    """
    read = _KINDS.get(launch["kind"])
    return () if read is None else tuple(read(launch["spec"], tuple(companions)))


def _pod(spec: Body, _: tuple[Body, ...] = ()) -> Iterator[LaunchedPods]:
    yield LaunchedPods(1, spec)


def _job(spec: Body, _: tuple[Body, ...] = ()) -> Iterator[LaunchedPods]:
    at_once = spec.get("parallelism", 1)
    yield LaunchedPods(min(at_once, spec.get("completions", at_once)), spec["template"]["spec"])


def _jobset(spec: Body, _: tuple[Body, ...] = ()) -> Iterator[LaunchedPods]:
    for jobs in spec["replicatedJobs"]:
        for each in _job(jobs["template"]["spec"]):
            yield LaunchedPods(each.count * jobs.get("replicas", 1), each.spec)


def _pytorchjob(spec: Body, _: tuple[Body, ...] = ()) -> Iterator[LaunchedPods]:
    for role in spec["pytorchReplicaSpecs"].values():
        yield LaunchedPods(role.get("replicas", 1), role["template"]["spec"])


def _trainjob(spec: Body, companions: tuple[Body, ...]) -> Iterator[LaunchedPods]:
    said = dict(spec["trainer"])
    nodes = said.pop("numNodes")
    said.pop("numProcPerNode", None)  # not the container's
    if "resourcesPerNode" in said:
        said["resources"] = said.pop("resourcesPerNode")
    runtimes = [each["spec"]["template"]["spec"] for each in companions if each["kind"] == "TrainingRuntime"]
    pods = [each.spec for runtime in runtimes for each in _jobset(runtime)]
    for pod in pods or [{"containers": [{"name": NODE}]}]:
        containers = [{**each, **said} if each["name"] == NODE else each for each in pod["containers"]]
        yield LaunchedPods(nodes, {**pod, "containers": containers})


_KINDS: Mapping[str, Callable[[Body, tuple[Body, ...]], Iterator[LaunchedPods]]] = MappingProxyType(
    {"Job": _job, "JobSet": _jobset, "Pod": _pod, "PyTorchJob": _pytorchjob, "TrainJob": _trainjob}
)
