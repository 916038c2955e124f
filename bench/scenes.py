"""Places of cases: the checkout's files, or a copy of the project with its own local cluster."""

import os
import shlex
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

import yaml

from bench import checkout, tools
from bench.audit import audited
from bench.case import Case, Command, Scene
from trainstack.local_cluster import cluster as native
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.images import ensure_images, helpers, operators, workload
from trainstack.local_cluster.spec import ClusterSpec
from trainstack.local_cluster.state_folder import Layout

SIMULATED_NODES = 16
Report = Callable[[str], None]


def by_place(
    cases: Iterable[Case], scratch: Path, *, short: bool, report: Report
) -> Generator[tuple[Scene, list[Case]]]:
    """Yield the scene of each place with its cases. A cluster starts when it is needed, and stops afterwards."""
    for place, at_place in groupby(cases, lambda case: case.place):
        if place == "files":
            yield files(scratch, short=short), list(at_place)
            continue
        simulated = SIMULATED_NODES if place == "simulated" else 0
        with (
            _cluster(scratch / place, simulated, report) as running,
            _project(running, scratch / place, short=short, report=report) as scene,
        ):
            if place != "bare":
                _bring_dev_up(scene, busy=bool(simulated), report=report)
            yield scene, list(at_place)


def files(scratch: Path, *, short: bool) -> Scene:
    """Return the scene of this checkout's files, without a cluster."""
    return Scene(folder=checkout.ROOT, environment=_environment(checkout.ROOT), scratch=scratch, short=short)


@contextmanager
def on_cluster(
    folder: Path, variables: dict[str, str], cluster: LocalCluster, scratch: Path, *, short: bool
) -> Iterator[Scene]:
    """Yield the scene of a project on a cluster. `variables`: those of `trainstack env -s dev`."""
    layout = Layout.of(cluster.state)
    with audited(cluster.kubeconfig, scratch) as kubeconfig:
        yield Scene(
            folder=folder,
            environment={**_environment(folder), **variables, "KUBECONFIG": str(kubeconfig)},
            scratch=scratch,
            kubeconfig=kubeconfig,
            audit_log=layout.audit,
            short=short,
            cluster_state=cluster.state,
            cgroup=layout.cgroup,
        )


@contextmanager
def _cluster(folder: Path, simulated_nodes: int, report: Report) -> Iterator[LocalCluster]:
    spec = ClusterSpec(audit=True, simulated_nodes=simulated_nodes)
    with native.temporary_cluster(folder / "cluster", spec, report) as running:
        yield running


@contextmanager
def _project(cluster: LocalCluster, folder: Path, *, short: bool, report: Report) -> Iterator[Scene]:
    """Copy the project, and serve the images of `dev`."""
    digits = workload(checkout.ROOT / "workloads" / "digits")
    ensure_images([*operators(), *helpers(), digits], cluster.registry, report)
    project, scratch = folder / "project", folder / "scratch"
    for subfolder in (project, scratch):
        subfolder.mkdir()
    checkout.copy(project)
    env = Command(
        words=(*tools.CLI, "env", "-s", "dev"),
        folder=project,
        environment={**_environment(project), "KUBECONFIG": str(cluster.kubeconfig)},
    )
    with on_cluster(project, exported(tools.run(env)), cluster, scratch, short=short) as scene:
        yield scene


def _bring_dev_up(scene: Scene, *, busy: bool, report: Report) -> None:
    """Bring `dev` up, and follow its run to the end.

    `busy`: with a core for Kueue, which loses its lease when hundreds of Jobs share the little that `dev` requests; and
    with the limits of requests that its later releases have, of which a run needs about seven.
    """
    if busy:
        file = scene.folder / "Pulumi.dev.yaml"
        content = yaml.safe_load(file.read_text())
        kueue = content["config"]["trainstack:operators"]["kueue"]
        kueue["requests"] = {"cpu": "1", "memory": "512Mi"}
        kueue["configuration"]["clientConnection"] = {"qps": 1000, "burst": 1000}
        file.write_text(yaml.safe_dump(content, sort_keys=False))
    report("bringing dev up, and following its run")
    tools.run(scene.command(*tools.CLI, "up", "-s", "dev", "--yes"))


def exported(script: str) -> dict[str, str]:
    """Return the variables that a script of `export NAME=VALUE` lines sets."""
    pairs = (line.removeprefix("export ").partition("=") for line in script.splitlines() if "=" in line)
    return {name: shlex.split(value)[0] if value else "" for name, _, value in pairs}


def _environment(folder: Path) -> dict[str, str]:
    """Return the variables of commands in a project: its own code, and no cluster, state or tuning of the caller."""
    removed = ("GOGC", "KUBECONFIG", "PYTHONDONTWRITEBYTECODE", "TRAINSTACK_STACK")
    kept = {name: value for name, value in os.environ.items() if name not in removed}
    return {**kept, "PYTHONPATH": str(folder)}
