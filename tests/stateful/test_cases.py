"""Sequences that once violated an invariant."""

from itertools import cycle, product
from pathlib import Path

import pytest

from tests.apiserver import ApiServer
from tests.definitions import definition
from tests.stateful import cluster
from tests.stateful.checkout import make_run
from tests.stateful.session import Session
from tests.stateful.world import AWAY, HOME, World, make_world
from trainstack.live import paths
from trainstack.objects.labels import LAUNCH, LEDGER, RUN, STACK

NAMINGS = ("derived", "generated", "fixed")


@pytest.fixture(params=["owner", "tenant"])
def world(request: pytest.FixtureRequest, servers: dict[str, ApiServer], tmp_path: Path) -> World:
    """Two checkouts of one environment, with a run."""
    created = make_world(servers, tmp_path, request.param)
    for person in created.people.values():
        person.runs.append(make_run("first", created.namespaces[0]))
    return created


def assert_succeeded(session: Session) -> None:
    """Check that the command succeeded."""
    assert session.ended is not None
    assert session.ended.ok, session.ended.text


def test_nothing_happens_twice(world: World) -> None:
    """A second `up` and a preview change nothing, and an `up` makes what a preview showed."""
    assert_succeeded(world.command("ann", "preview"))
    assert not world.live_launches()
    assert_succeeded(world.up("ann"))
    assert len(world.live_launches()) == 1
    for mode in ("up", "preview"):
        session = world.command("ann", mode)
        assert_succeeded(session)
        assert {what for what, _ in session.moments} == {"configure"}


def test_an_active_run_does_not_end_because_its_namespace_is_edited(world: World) -> None:
    """The search for launches includes its old namespace."""
    assert_succeeded(world.up("ann"))
    world.people["ann"].runs[0]["namespace"] = world.namespaces[1]
    world.up("ann")
    assert [launch.active for launch in world.launches.values()] == [True]


@pytest.mark.parametrize(
    ("label", "naming"),
    [
        (STACK, "generated"),
        (RUN, "fixed"),
        (LAUNCH, "derived"),
        *(
            pytest.param(label, naming, marks=pytest.mark.slow)
            for label, naming in product((STACK, RUN, LAUNCH), NAMINGS)
        ),
    ],
)
def test_an_active_run_does_not_end_because_it_lost_a_label(world: World, naming: str, label: str) -> None:
    """A launch is known by more than its labels."""
    world.people["ann"].runs[0]["naming"] = naming
    assert_succeeded(world.up("ann"))
    world.remove_label(world.live_launches()[0], label)
    world.up("ann")
    world.up("ann", refresh=True)


def test_a_copy_of_an_active_launch_does_not_end_the_other(world: World) -> None:
    """Neither of two active launches of a run is deleted."""
    assert_succeeded(world.up("ann"))
    world.copy(world.live_launches()[0])
    world.up("ann")
    world.up("ann", refresh=True)


@pytest.mark.parametrize(
    "naming", ["generated", *(pytest.param(naming, marks=pytest.mark.slow) for naming in ("derived", "fixed"))]
)
def test_a_run_is_not_launched_again_because_its_ledger_was_refused(world: World, naming: str) -> None:
    """A quota on ConfigMaps, and a TTL that removes the finished launch, do not make it train again."""
    person = world.people["ann"]
    assert_succeeded(world.up("ann"))
    person.runs.append(make_run("second", world.namespaces[0], naming=naming))
    cluster.set_quota(world.servers[HOME], world.namespaces[0], "count/configmaps")
    for _ in range(3):
        world.up("ann", refresh=True)
        for launch in world.live_launches():
            world.set_status(launch, "succeeded")
            world.remove(launch)


@pytest.mark.parametrize("naming", NAMINGS)
def test_two_checkouts_launch_a_run_once(world: World, naming: str) -> None:
    """Also with states of their own, and at the same time."""
    for person in world.people.values():
        person.runs[0]["naming"] = naming
    world.up_concurrently(cycle([False, True]))


def test_a_destroy_of_what_was_never_up_is_no_crash(world: World) -> None:
    """The state does not remember a cluster."""
    world.command("ann", "destroy")
    world.command("ann", "destroy", plain=False)


def test_another_state_takes_nothing_over(world: World) -> None:
    """A second checkout with a state of its own writes to none of the first one's objects."""
    assert_succeeded(world.up("ann"))
    session = world.up("bob")
    assert session.ended is not None
    assert not session.ended.ok


@pytest.mark.parametrize("label", [LAUNCH, RUN])
def test_another_state_finds_a_launch_that_lost_a_label_and_its_ledger(world: World, label: str) -> None:
    """It still has the label of its stack and the annotation of its state."""
    assert_succeeded(world.up("ann"))
    world.remove_label(world.live_launches()[0], label)
    world.remove_config_map(LEDGER, 0)
    world.people["bob"].runs[0]["resources"]["requests"]["memory"] = "65Mi"
    session = world.up("bob")
    assert session.ended is not None
    assert not session.ended.ok
    assert "belong to another state of that stack" in session.ended.text
    assert [launch.active for launch in world.launches.values()] == [True]


def test_another_state_finds_a_launch_in_a_namespace_that_its_files_name(world: World) -> None:
    """Its own launch would be in another one."""
    assert_succeeded(world.up("ann"))
    bob = world.people["bob"]
    bob.runs[0]["namespace"] = world.namespaces[1]
    bob.runs.append(make_run("second", world.namespaces[0]))
    session = world.up("bob")
    assert session.ended is not None
    assert not session.ended.ok
    assert "belong to another state of that stack" in session.ended.text
    assert [launch.active for launch in world.launches.values()] == [True]


def test_a_context_that_changes_during_an_up_takes_nothing_elsewhere(world: World) -> None:
    """The engine writes to the cluster that the program has read."""
    assert_succeeded(world.up("ann"))
    world.people["ann"].runs.append(make_run("second", world.namespaces[0]))

    def switch(index: int, what: str, name: str) -> str:
        if index == 0:
            world.use_context("ann", AWAY)
        return "go"

    world.up("ann", switch)


def test_a_launch_of_a_further_kind_is_found_by_its_ledger(servers: dict[str, ApiServer], tmp_path: Path) -> None:
    """Launched once, and found while it is active, though the files no longer have it; its end is read too."""
    world, server = make_world(servers, tmp_path, "owner"), servers[HOME]
    server.create_definition(definition("MPIJob"))
    folder = paths.collection("kubeflow.org/v2beta1", "MPIJob", world.namespaces[0])
    roles = {"Launcher": {}, "Worker": {"replicas": 2}}
    run = make_run("first", world.namespaces[0], kind="MPIJob", sshAuthMountPath="/.ssh", roles=roles)
    world.people["ann"].runs.append(run)
    assert_succeeded(world.up("ann"))
    assert_succeeded(world.up("ann", refresh=True))
    (launch,) = server.send("GET", folder).checked()["items"]

    world.people["ann"].runs.clear()
    refused = world.up("ann")
    assert refused.ended is not None
    assert not refused.ended.ok
    assert f"MPIJob {world.namespaces[0]}/{launch['metadata']['name']}" in refused.ended.text

    ended = {"status": {"conditions": [{"type": "Succeeded", "status": "True"}]}}
    server.send("PATCH", f"{folder}/{launch['metadata']['name']}/status", ended, cluster.MERGE).checked()
    assert_succeeded(world.command("ann", "preview"))
