"""The stand-in sends the same writes to an API server as Pulumi's engine and its Kubernetes provider."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.apiserver import ApiServer, write_kubeconfig
from tests.cluster.project import Project
from tests.stateful import cluster
from tests.stateful.checkout import make_run
from tests.stateful.real import EnginePair
from tests.stateful.world import AWAY, HOME, make_world, user_of
from trainstack.live import paths
from trainstack.objects.labels import LEDGER

Step = str | tuple[str, str] | Callable[[EnginePair], None]
"""A command, an `up` with an option that selects resources by a part of their URNs, or what happens between two."""
JOBS = "batch/v1:Job"


def succeed(pair: EnginePair) -> None:
    """Every launch ends well."""
    pair.for_each_launch(lambda server, body: cluster.set_status(server, paths.object_path(body), "succeeded"))


def expire(pair: EnginePair) -> None:
    """Every launch is removed by a TTL."""
    pair.for_each_launch(lambda server, body: cluster.delete(server, paths.object_path(body)))


def lose_ledgers(pair: EnginePair) -> None:
    """A person deletes every ledger."""
    stack = pair.world.people["ann"].stack
    for server in pair.servers.values():
        for body in cluster.config_maps(server, pair.world.namespaces, stack, LEDGER):
            cluster.delete(server, paths.object_path(body))


def edit(**changes: object) -> Callable[[EnginePair], None]:
    """Change the first run."""
    return lambda pair: pair.world.people["ann"].runs[0].update(changes)


def add(name: str, **changes: object) -> Callable[[EnginePair], None]:
    """Another run."""

    def work(pair: EnginePair) -> None:
        pair.world.people["ann"].runs.append(make_run(name, pair.world.namespaces[0], **changes))

    return work


RECORD = {"record": {"volume": "records"}, "volumes": [{"volume": "records", "mountPath": "/mnt/records"}]}
SEQUENCES: dict[str, tuple[str, list[Step]]] = {
    "another launch replaces one of a fixed name": (
        "owner",
        [edit(naming="fixed"), "preview", "up", succeed, edit(args=["2"]), "up", "destroy"],
    ),
    "generated names, and a pod": (
        "tenant",
        [edit(naming="generated"), add("second", kind="Pod"), "up", succeed, edit(args=["2"]), "refresh", "up"],
    ),
    "a managed run whose ledger is deleted": (
        "tenant",
        [add("second", managed=True, **RECORD), "up", succeed, lose_ledgers, expire, "refresh"],
    ),
}
SLOW_SEQUENCES: dict[str, tuple[str, list[Step]]] = {
    "launches are left out": (
        "tenant",
        ["up", succeed, add("second", naming="generated"), ("exclude", JOBS), "up", "up"],
    ),
    "one kind is selected": (
        "owner",
        [("target", "ConfigMap"), "up", succeed, edit(args=["2"]), ("target", JOBS), "up", ("target", "NetworkPolicy")],
    ),
    "what ended is replaced": (
        "owner",
        ["up", ("replace", JOBS), ("replace", "NetworkPolicy"), succeed, ("replace", JOBS), "up", ("replace", "Map")],
    ),
    "a failed launch is launched again": (
        "owner",
        ["up", succeed, add("second"), "up", expire, "refresh", edit(attempt=2), "up", "up", "destroy"],
    ),
    "naming changes": (
        "tenant",
        ["up", succeed, edit(naming="generated"), "up", edit(naming="fixed", args=["3"]), "up", "destroy"],
    ),
    "a namespace changes": (
        "owner",
        ["up", succeed, lambda pair: edit(namespace=pair.world.namespaces[1])(pair), "preview", "up", "destroy"],
    ),
}


@pytest.fixture(scope="module")
def copy(servers: dict[str, ApiServer], tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of the project for the real engine."""
    return Project.copy(tmp_path_factory.mktemp("real"), servers[AWAY])


def assert_same_writes(
    sequence: tuple[str, list[Step]], servers: dict[str, ApiServer], copy: Project, folder: Path
) -> None:
    """Do the same with both, and compare what was written after each command, and what is there."""
    profile, steps = sequence
    world = make_world(servers, folder, profile, foreign=False)
    ann = world.people["ann"]
    ann.runs.append(make_run("first", world.namespaces[0]))
    ann.write()
    kubeconfig = folder / "away"
    write_kubeconfig(kubeconfig, {AWAY: servers[AWAY].access(user_of(ann, profile))}, AWAY)
    copy.write_stack(ann.stack, ann.config)
    pair = EnginePair(world, copy.environment(ann.stack, kubeconfig))
    for number, step in enumerate(steps):
        if isinstance(step, tuple):
            option, part = step
            done = pair.command("up", selection={option: part})
        elif isinstance(step, str):
            done = pair.command("up" if step == "refresh" else step, refresh=step == "refresh")
        else:
            step(pair)
            continue
        assert done[HOME] == done[AWAY], f"step {number}: {step}"
        assert pair.objects(HOME) == pair.objects(AWAY), f"step {number}: {step}"


@pytest.mark.parametrize("name", SEQUENCES)
def test_three_sequences_write_the_same(
    name: str, servers: dict[str, ApiServer], copy: Project, tmp_path: Path
) -> None:
    """These sequences are in the CI tier."""
    assert_same_writes(SEQUENCES[name], servers, copy, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW_SEQUENCES)
def test_more_sequences_write_the_same(name: str, servers: dict[str, ApiServer], copy: Project, tmp_path: Path) -> None:
    """These sequences are longer."""
    assert_same_writes(SLOW_SEQUENCES[name], servers, copy, tmp_path)
