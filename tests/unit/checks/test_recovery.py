"""What an interrupted engine leaves behind, and which commands mend it: from a state and a cluster as they are read."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import pytest

from trainstack.guards.states import NO_ID
from trainstack.lifecycle.recovery.diagnosis import Diagnosis, diagnose, diagnose_files
from trainstack.lifecycle.recovery.files import Lock, StateFiles
from trainstack.lifecycle.recovery.objects import LiveObject, Seen
from trainstack.lifecycle.recovery.problem import Id, RecoveryCommands
from trainstack.lifecycle.recovery.state import State, read_state
from trainstack.objects.labels import LAUNCH, LEDGER, RUN, STACK, WORKLOAD
from trainstack.objects.ownership import Identity

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
RECOVERY = RecoveryCommands("lab")
OWN = "a" * 32
"""The identity of the state."""
QUEUE: Identity = ("LocalQueue", "lab", "open")
VERSIONS = {"Job": "batch/v1", "LocalQueue": "kueue.x-k8s.io/v1beta2"}


def make_resource(who: Identity, uid: str = "1", **changes: Any) -> dict[str, Any]:
    """An object as the engine writes it into its state."""
    kind, namespace, name = who
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), "labels": {STACK: "lab"}}
    return {
        "urn": f"urn:pulumi:lab::trainstack::{kind}::{name}",
        "type": f"kubernetes:{VERSIONS.get(kind, 'core/v1')}:{kind}",
        "custom": True,
        "id": f"{namespace}/{name}" if namespace else name,
        "inputs": {"metadata": metadata},
        "outputs": {"metadata": {**metadata, "uid": uid}},
        **changes,
    }


def make_identity(identity: str) -> dict[str, Any]:
    """The resource by which a state knows its identity."""
    urn, kind = "urn:pulumi:lab::trainstack::pulumi:index:Stash::state-identity", "pulumi:index:Stash"
    return {"urn": urn, "type": kind, "custom": True, "id": "1", "outputs": {"input": "x", "output": identity}}


def make_pending(who: Identity, doing: str = "creating") -> dict[str, Any]:
    """An operation without an end: what is being created has no id and no outputs."""
    resource = make_resource(who)
    return {"type": doing, "resource": {**resource, "id": "", "outputs": None} if doing == "creating" else resource}


def make_state(*resources: dict[str, Any], pending: tuple[dict[str, Any], ...] = ()) -> State:
    """A state with a component and a provider, which are no objects, and these resources."""
    others = [
        {"urn": "urn:stack", "type": "pulumi:pulumi:Stack", "custom": False},
        {"urn": "urn:provider", "type": "pulumi:providers:kubernetes", "custom": True, "id": "1"},
    ]
    return read_state({"version": 3, "deployment": {"resources": [*others, *resources], "pending_operations": pending}})


def make_live(uid: str = "1", labels: Mapping[str, str] | None = None, **changes: Any) -> LiveObject:
    """An object of the stack `lab`."""
    return LiveObject(uid=uid, labels={STACK: "lab", **(labels or {})}, **changes)


def make_diagnosis(
    state: State,
    live: Mapping[Identity, LiveObject],
    *,
    locks: tuple[Lock, ...] = (),
    declared: tuple[Identity, ...] = (),
    retained: tuple[Identity, ...] = (),
    unreadable: frozenset[str] = frozenset(),
) -> Diagnosis:
    """What is found in the stack `lab`, whose state is in a folder."""
    return diagnose(
        stack="lab",
        files=StateFiles(locks=locks),
        state=state,
        seen=Seen(live, unreadable),
        retained=retained,
        declared=lambda: declared,
        now=NOW,
    )


def ids(found: Diagnosis) -> list[str]:
    """What kinds of trouble there are."""
    return [each.id for each in found.troubles]


def test_a_state_that_is_the_clusters_has_no_trouble() -> None:
    """Nor has what controllers made of our objects, with our labels."""
    live = {QUEUE: make_live(), ("Service", "lab", "child"): make_live("2", owned=True)}
    assert make_diagnosis(make_state(make_resource(QUEUE)), live) == Diagnosis((), ())


def test_what_a_killed_engine_leaves_takes_three_commands() -> None:
    """Its lock, and an object that it was creating: which is not told of once more as unknown to the state."""
    lock = Lock("/state/lock.json", 7, "ann", "here", NOW, alive=False)
    found = make_diagnosis(make_state(pending=(make_pending(QUEUE),)), {QUEUE: make_live()}, locks=(lock,))
    assert ids(found) == ["lock-stale", "operation-pending"]
    assert found.commands == (RECOVERY.cancel, RECOVERY.refresh, RECOVERY.up)
    assert str(found.troubles[1]) == (
        "[operation-pending] LocalQueue lab/open: the engine was interrupted while creating it; it is in the cluster"
    )


def test_a_deletion_without_an_end_is_told_with_what_became_of_it() -> None:
    """The state still has the object; that it is gone is no second trouble."""
    found = make_diagnosis(make_state(make_resource(QUEUE), pending=(make_pending(QUEUE, "deleting"),)), {})
    assert ids(found) == ["operation-pending"]
    assert "deleting it; it is not in the cluster" in found.troubles[0].message


@pytest.mark.parametrize(
    ("live", "trouble", "command"),
    [
        (None, "object-missing", RECOVERY.refresh),
        (make_live("2"), "object-replaced", RECOVERY.refresh),
        (
            LiveObject("1", {STACK: "other"}),
            "object-unmarked",
            f"kubectl label --overwrite localqueue open -n lab {STACK}=lab",
        ),
    ],
    ids=["missing", "replaced", "unmarked"],
)
def test_an_object_that_is_otherwise_than_the_state_knows(live: LiveObject | None, trouble: str, command: str) -> None:
    """Gone, another of its name, or no more marked as ours."""
    found = make_diagnosis(make_state(make_resource(QUEUE)), {QUEUE: live} if live else {})
    assert (ids(found), found.commands) == ([trouble], (command, RECOVERY.up))


def make_release() -> dict[str, Any]:
    """The resource of a release with two definitions."""
    recorded = {"version": "v1", "state": OWN, "definitions": {"a.example.org": "0" * 16, "b.example.org": "1" * 16}}
    return {
        "urn": "urn:pulumi:lab::trainstack::trainstack:platform:Definitions$pulumi:index:Stash::kueue-definitions",
        "type": "pulumi:index:Stash",
        "custom": True,
        "id": "1",
        "outputs": {"input": recorded, "output": {}},
    }


def test_an_apply_of_definitions_without_an_end_names_their_resource() -> None:
    """Not the first of the definitions."""
    state = make_state(make_release(), pending=({"type": "updating", "resource": make_release()},))
    names: tuple[Identity, ...] = tuple(("CustomResourceDefinition", None, f"{name}.example.org") for name in "ab")
    (trouble,) = make_diagnosis(state, dict.fromkeys(names, make_live())).troubles
    assert (trouble.id, trouble.what) == ("operation-pending", make_release()["urn"])


def test_a_definition_of_a_release_that_is_missing() -> None:
    """One resource of the state has all definitions of a release."""
    found = make_diagnosis(
        make_state(make_release()), {("CustomResourceDefinition", None, "a.example.org"): make_live()}
    )
    assert [(each.id, each.what) for each in found.troubles] == [
        ("object-missing", "CustomResourceDefinition b.example.org")
    ]


def test_what_may_not_be_read_is_not_missing() -> None:
    """A tenant reads no cluster queue."""
    assert ids(make_diagnosis(make_state(make_resource(QUEUE)), {}, unreadable=frozenset({"LocalQueue"}))) == []


def test_a_launch_that_is_gone_is_no_trouble() -> None:
    """Its time to live has ended: its ledger remembers it."""
    job = make_resource(("Job", "lab", "digits"))
    job["inputs"]["metadata"]["labels"][RUN] = "digits-0123456789"
    assert ids(make_diagnosis(make_state(job), {})) == []


def test_a_marked_object_that_the_state_lacks() -> None:
    """`up` takes over what is declared; what nobody declares is deleted by hand, and a run is called one."""
    job: Identity = ("Job", "lab", "digits-1")
    live = {QUEUE: make_live(state=OWN), job: make_live(labels={RUN: "digits", WORKLOAD: "digits"}, state=OWN)}
    found = make_diagnosis(State(identity=OWN), live, declared=(QUEUE,))
    assert ids(found) == ["object-orphaned", "object-unrecorded"]
    assert found.troubles[0].message.endswith("It is a run: deleting it ends it")
    assert found.commands == ("kubectl delete job digits-1 -n lab", RECOVERY.up)


@pytest.mark.parametrize("own", [OWN, ""])
@pytest.mark.parametrize(("other", "entry"), [("b" * 32, "b" * 32), (NO_ID, "none")])
def test_an_object_of_another_state_is_never_deleted(own: str, other: str, entry: str) -> None:
    """Declared or not: no command is printed, only the setting that takes it over."""
    secret: Identity = ("Secret", "lab", "old")
    live = {QUEUE: make_live(state=other), secret: make_live(state=other)}
    found = make_diagnosis(State(identity=own), live, declared=(QUEUE,))
    assert ids(found) == ["object-of-another-state", "object-of-another-state"]
    assert found.commands == ()
    assert f"`trainstack:cluster: {{takeOver: [{entry}]}}` into Pulumi.lab.yaml" in found.troubles[0].message


def test_a_recorded_object_that_another_state_took_over() -> None:
    """The state still holds it; one without an identity is from before this release, and is no trouble."""
    state = make_state(make_resource(QUEUE), make_identity(OWN))
    assert state.identity == OWN
    assert ids(make_diagnosis(state, {QUEUE: make_live(state="b" * 32)})) == ["object-of-another-state"]
    assert ids(make_diagnosis(state, {QUEUE: make_live()})) == []
    assert ids(make_diagnosis(state, {QUEUE: make_live(state=OWN)})) == []


def test_what_destroy_leaves_is_no_trouble() -> None:
    """Definitions of kinds, retained volumes, what is on its way out, and a command's data loader."""
    claim: Identity = ("PersistentVolumeClaim", "lab", "data")
    live = {
        ("CustomResourceDefinition", None, "queues"): make_live(),
        claim: make_live(),
        QUEUE: make_live(deleted=NOW - timedelta(seconds=20)),
        ("Job", "lab", "loader-1"): make_live(labels={LAUNCH: "loader-1"}),
    }
    assert ids(make_diagnosis(State(), live, retained=(claim,))) == []


@pytest.mark.parametrize(
    ("who", "finalizers", "command"),
    [
        (("ClusterQueue", None, "lab"), ("kueue.x-k8s.io/resource-in-use",), "kubectl get workloads -A"),
        (("PersistentVolumeClaim", "lab", "data"), ("kubernetes.io/pvc-protection",), "kubectl get pods -n lab"),
        (("Namespace", None, "lab"), (), "kubectl describe namespace lab"),
    ],
)
def test_an_object_that_does_not_go(who: Identity, finalizers: tuple[str, ...], command: str) -> None:
    """After five minutes; the command shows what holds it, and strips no finalizer."""
    live = {who: make_live(deleted=NOW - timedelta(minutes=6), finalizers=finalizers)}
    found = make_diagnosis(make_state(make_resource(who)), live)
    assert (ids(found), found.commands) == (["object-stuck"], (command,))


def test_what_the_engine_left_for_a_next_time() -> None:
    """An object that did not become ready, and the predecessor of a replaced one."""
    broken = make_resource(QUEUE, initErrors=["timed out\nmore"])
    old = make_resource(("Secret", "lab", "old"), delete=True)
    found = make_diagnosis(make_state(broken, old), {QUEUE: make_live(), ("Secret", "lab", "old"): make_live()})
    assert ids(found) == ["replacement-unfinished", "object-unready"]
    assert "(timed out)" in found.troubles[1].message
    assert found.commands == (RECOVERY.up,)


def test_encrypted_properties_are_not_looked_into() -> None:
    """The engine exports them as they are stored; the id tells the object's name."""
    secret = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "v1:x"}
    resource = make_resource(("Secret", "lab", "key"), inputs=secret, outputs=secret)
    assert ids(make_diagnosis(make_state(resource), {("Secret", "lab", "key"): make_live("9")})) == []


def test_no_export_is_no_empty_state() -> None:
    """Else everything in the cluster would be called an orphan."""
    with pytest.raises(ValueError, match="no `deployment`"):
        read_state({"resources": []})


def test_a_lock_whose_process_runs_comes_alone() -> None:
    """`pulumi cancel` removes all locks, also that one; and what a stack at work holds is old at once."""
    running = Lock("/state/a.json", 7, "ann", "here", NOW, alive=True)
    stale = Lock("/state/b.json", 8, "ann", "here", NOW, alive=False)
    found = diagnose_files(StateFiles(locks=(stale, running)), "lab")
    assert found is not None
    assert (ids(found), found.commands) == (["operation-running"], ("tail --pid=7 -f /dev/null",))


def test_a_lock_of_another_host_is_not_cancelled_from_here() -> None:
    """Whether its process runs is told there; then the command is named."""
    far = Lock("/state/a.json", 7, "ann", "far", NOW)
    assert diagnose_files(StateFiles(locks=(far,)), "lab") is None
    found = make_diagnosis(State(), {}, locks=(far,))
    assert (ids(found), found.commands) == (["lock-elsewhere"], ("ssh ann@far ps -fp 7",))
    assert RECOVERY.cancel in found.troubles[0].message


def test_a_lock_that_is_not_whole_is_stale() -> None:
    """Its writer was killed; the engine refuses to work until it is gone."""
    found = make_diagnosis(State(), {}, locks=(Lock("/state/fileblob1"),))
    assert (ids(found), found.commands) == (["lock-stale"], (RECOVERY.cancel,))


def test_unreadable_files_come_first() -> None:
    """Nothing else is known until they are mended: all sidecars by one command, the state from its backup."""
    found = diagnose_files(
        StateFiles(sidecars=("/state/a b.attrs", "/state/c.attrs"), checkpoint="/s.json", backup=True), "lab"
    )
    assert found is not None
    assert ids(found) == ["sidecar-unreadable", "state-unreadable"]
    assert found.commands == (
        "rm -- '/state/a b.attrs' /state/c.attrs",
        "mv -- /s.json /s.json.unreadable",
        "cp -- /s.json.bak /s.json",
        RECOVERY.refresh,
        RECOVERY.up,
    )


def test_a_state_without_a_backup_is_made_anew() -> None:
    """Our mark finds the objects again."""
    found = diagnose_files(StateFiles(checkpoint="/s.json"), "lab")
    assert found is not None
    assert found.commands == ("mv -- /s.json /s.json.unreadable", "pulumi stack init lab", RECOVERY.up)


def test_every_trouble_has_a_section() -> None:
    """In docs/recovery.md, and no other has."""
    page = (Path(__file__).parents[3] / "docs" / "recovery.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^### `(.+)`$", page, re.MULTILINE)) == sorted(get_args(Id))


def test_what_belongs_to_declared_runs() -> None:
    """Launches and ledgers by their workload, whatever their names: the launch rules decide on them."""
    ledger = make_live(labels={LEDGER: "run", RUN: "digits-1", WORKLOAD: "digits"})
    assert ledger.of_run(["digits"])
    assert not ledger.of_run(["other"])
    assert not make_live().of_run(["digits"])
