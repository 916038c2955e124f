"""Sequences that once violated an invariant."""

from functools import partial
from itertools import cycle, product
from pathlib import Path

import pytest

from tests.apiserver import ApiServer
from tests.definitions import definition
from tests.stateful import cluster
from tests.stateful.checkout import make_run
from tests.stateful.json_values import Body
from tests.stateful.machine import DENIAL
from tests.stateful.network import ANSWER_LOST, REQUEST_LOST
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
    folder = paths.collection_path("kubeflow.org/v2beta1", "MPIJob", world.namespaces[0])
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


@pytest.fixture
def lost(servers: dict[str, ApiServer], tmp_path: Path) -> World:
    """An environment without runs."""
    return make_world(servers, tmp_path, "owner")


def _at_the_launch(reply: str, _: int, what: str, name: str) -> str:
    return reply if what == "create" and "/first" in name else "go"


def _arrives_during_the_wait(world: World, _: int, what: str, name: str) -> str:
    if what == "hook" and name.startswith("runs-claim"):
        world.arrive()
    return "go"


def lose_the_launch(world: World, reply: str = REQUEST_LOST, **changes: object) -> None:
    """An `up` whose request for the launch gets no answer, or that is killed at that moment."""
    world.people["ann"].runs.append(make_run("first", world.namespaces[0], **changes))
    session = world.up("ann", partial(_at_the_launch, reply))
    assert session.ended is None or not session.ended.ok
    assert len(world.claims()) == 1
    assert not world.live_launches()


@pytest.mark.parametrize("naming", NAMINGS)
def test_a_launch_without_an_answer_is_found_if_it_appears(lost: World, naming: str) -> None:
    """Before the next `up`, which completes its claim, or while that `up` waits for it."""
    lose_the_launch(lost, naming=naming)
    if naming == "derived":
        lost.arrive()
        assert_succeeded(lost.up("ann"))
    else:
        session = lost.up("ann", partial(_arrives_during_the_wait, lost))
        assert session.ended is not None
        assert "has appeared; it is not launched a second time" in session.ended.text
        assert_succeeded(lost.up("ann"))
    assert len(lost.launches) == 1
    assert not lost.claims()


@pytest.mark.parametrize(
    ("naming", "reply"),
    [
        ("derived", REQUEST_LOST),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in product(NAMINGS, (REQUEST_LOST, "kill"))),
    ],
)
def test_a_launch_without_an_answer_is_made_if_it_does_not_appear(lost: World, naming: str, reply: str) -> None:
    """The next `up` waits until it can no longer appear."""
    lose_the_launch(lost, reply, naming=naming)
    assert_succeeded(lost.up("ann"))
    assert len(lost.launches) == 1
    assert not lost.claims()


@pytest.mark.parametrize("clock_hours", [-1, 1])
def test_a_launch_without_an_answer_may_have_ended(lost: World, clock_hours: int) -> None:
    """Its TTL has passed by the API server's clock, and not by those of people, or the reverse."""
    ann = lost.people["ann"]
    ann.clock_seconds = clock_hours * 3600.0
    lose_the_launch(lost, ttlSecondsAfterFinished=1800)
    ann.clock_seconds = 0
    (server, claim), *_ = lost.claims()
    cluster.age(server, claim, 1700)
    assert_succeeded(lost.command("ann", "preview"))
    cluster.age(server, lost.claims()[0][1], 120)
    for launch in lost.live_launches():
        lost.set_status(launch, "succeeded")
        lost.remove(launch)
    session = lost.up("ann")
    assert session.ended is not None
    assert "may have been launched, ended and removed" in " ".join(session.ended.text.split())
    assert not lost.live_launches()


def test_an_edit_does_not_launch_a_run_whose_launch_may_appear(lost: World) -> None:
    """Another launch part is another launch, in another namespace too: its claim is another object."""
    lose_the_launch(lost)
    run = lost.people["ann"].runs[0]
    run["resources"]["requests"]["memory"] = "65Mi"
    run["namespace"] = lost.namespaces[1]
    session = lost.up("ann", partial(_arrives_during_the_wait, lost))
    assert session.ended is not None
    assert "has appeared; it is not launched a second time" in session.ended.text
    assert len(lost.launches) == 1


@pytest.mark.parametrize(
    ("moment", "fault"),
    [("program writes", REQUEST_LOST), ("program writes", ANSWER_LOST), ("create", ANSWER_LOST)],
)
def test_every_answer_of_a_launch_may_be_lost(lost: World, moment: str, fault: str) -> None:
    """That to the claim too. The next `up` completes what there is."""
    lost.people["ann"].runs.append(make_run("first", lost.namespaces[0]))
    session = lost.up(
        "ann", lambda _, what, name: fault if what == moment and ("/first" in name or "configmaps" in name) else "go"
    )
    assert session.ended is not None
    assert not session.ended.ok
    assert_succeeded(lost.up("ann"))
    assert len(lost.launches) == 1


def test_a_claim_in_place_of_an_earlier_ledger(lost: World) -> None:
    """A refusal restores the ledger of the failed launch; without an answer the claim stays."""
    lost.people["ann"].runs.append(make_run("first", lost.namespaces[0]))
    assert_succeeded(lost.up("ann"))
    lost.set_status(lost.live_launches()[0], "failed")
    before = only_ledger(lost)
    lost.people["ann"].runs[0]["resources"]["requests"]["memory"] = "65Mi"
    for reply in (DENIAL, REQUEST_LOST):
        session = lost.up("ann", partial(_at_the_launch, reply))
        assert session.ended is not None
        assert not session.ended.ok
        assert len(lost.claims()) == (reply == REQUEST_LOST)
        assert (only_ledger(lost)["data"] == before["data"]) == (reply != REQUEST_LOST)
    assert_succeeded(lost.up("ann"))
    assert not lost.claims()
    assert [launch.active for launch in lost.live_launches()] == [True]


def only_ledger(world: World) -> Body:
    """Return the only ledger."""
    (found,) = cluster.config_maps(world.servers[HOME], world.namespaces, world.people["ann"].stack, LEDGER)
    return found
