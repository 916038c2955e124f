"""`trainstack status`, and the idle local cluster."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from bench import tools
from bench.case import Arm, Case, Scene
from trainstack.live.run_views import KUEUE
from trainstack.local_cluster.cgroups import member_pids, read_hierarchies

IDLE_SECONDS = 60
_LISTS = {
    "jobs.batch": "/apis/batch/v1",
    "trainjobs.trainer.kubeflow.org": "/apis/trainer.kubeflow.org/v1alpha1",
    "pods": "/api/v1",
    "workloads.kueue.x-k8s.io": KUEUE,
    "events": "/api/v1",
}
"""The content of a status: the name of each list for kubectl, and its API."""


def arms_of(scene: Scene, stack: str, namespace: str) -> list[Arm]:
    """Return the arms of a status: the others read the lists, and explain nothing."""
    paths = [f"{api}/namespaces/{namespace}/{name.partition('.')[0]}" for name, api in _LISTS.items()]
    return [
        Arm(name=tools.TRAINSTACK, command=scene.command(*tools.CLI, "status", "-s", stack)),
        Arm(name=tools.KUBECTL, command=scene.command("kubectl", "get", ",".join(_LISTS), "-n", namespace)),
        Arm(name=tools.CLIENT, command=scene.command(sys.executable, "-m", "bench.programs.lists", *paths)),
    ]


@contextmanager
def _dev(scene: Scene) -> Iterator[Sequence[Arm]]:
    yield arms_of(scene, "dev", "research")


@contextmanager
def _idle(scene: Scene) -> Iterator[Sequence[Arm]]:
    """Yield an observation of all processes of the cluster."""
    observed = partial(member_pids, scene.cgroup, read_hierarchies())
    yield [Arm(name="local cluster", command=scene.command("sleep", str(IDLE_SECONDS)), members=observed)]


CASES = (
    Case(id="status", title="`trainstack status -s dev`", subject="clusters", place="cluster", arms=_dev),
    Case(
        id="idle",
        title=f"The local cluster with `dev`, idle for {IDLE_SECONDS} s",
        subject="clusters",
        place="cluster",
        arms=_idle,
        rounds=3,
        warm_up=False,
    ),
)
