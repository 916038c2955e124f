"""The diagnosis of a state and a cluster after an interrupted engine, with the commands that repair them."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import pytest

from trainstack.guards.other_states import NO_STATE_IDENTITY
from trainstack.lifecycle.recovery.diagnosis import Diagnosis, diagnose, diagnose_files
from trainstack.lifecycle.recovery.lock_problems import StateFiles, StateLock
from trainstack.lifecycle.recovery.object_problems import LiveObject, LiveObjects
from trainstack.lifecycle.recovery.problem import ProblemId, RecoveryCommands
from trainstack.lifecycle.recovery.state import EngineState, read_state
from trainstack.objects.labels import LAUNCH, LEDGER, RUN, STACK, WORKLOAD
from trainstack.objects.ownership import Identity

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
RECOVERY = RecoveryCommands("lab")
OWN = "a" * 32
"""The identity of the state."""
QUEUE: Identity = ("LocalQueue", "lab", "open")
VERSIONS = {"Job": "batch/v1", "LocalQueue": "kueue.x-k8s.io/v1beta2"}


def make_resource(who: Identity, uid: str = "1", **changes: Any) -> dict[str, Any]:
    """Return an object as in the engine's state."""
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
    """Return the resource that has the state's identity."""
    urn, kind = "urn:pulumi:lab::trainstack::pulumi:index:Stash::state-identity", "pulumi:index:Stash"
    return {"urn": urn, "type": kind, "custom": True, "id": "1", "outputs": {"input": "x", "output": identity}}


def make_pending(who: Identity, operation: str = "creating") -> dict[str, Any]:
    """Return an interrupted operation; an object that was being created has no id and no outputs."""
    resource = make_resource(who)
    return {
        "type": operation,
        "resource": {**resource, "id": "", "outputs": None} if operation == "creating" else resource,
    }


def make_state(*resources: dict[str, Any], pending: tuple[dict[str, Any], ...] = ()) -> EngineState:
    """Return a state with these resources, the stack and a provider, which are not objects."""
    others = [
        {"urn": "urn:stack", "type": "pulumi:pulumi:Stack", "custom": False},
        {"urn": "urn:provider", "type": "pulumi:providers:kubernetes", "custom": True, "id": "1"},
    ]
    return read_state({"version": 3, "deployment": {"resources": [*others, *resources], "pending_operations": pending}})


def make_live(uid: str = "1", labels: Mapping[str, str] | None = None, **changes: Any) -> LiveObject:
    """Return an object of the stack `lab`."""
    return LiveObject(uid=uid, labels={STACK: "lab", **(labels or {})}, **changes)


def make_diagnosis(
    state: EngineState,
    live: Mapping[Identity, LiveObject],
    *,
    locks: tuple[StateLock, ...] = (),
    declared: tuple[Identity, ...] = (),
    retained: tuple[Identity, ...] = (),
    unreadable: frozenset[str] = frozenset(),
) -> Diagnosis:
    """Return the diagnosis of the stack `lab`, whose state is in a folder."""
    return diagnose(
        stack="lab",
        files=StateFiles(locks=locks),
        state=state,
        live_objects=LiveObjects(live, unreadable),
        retained=retained,
        read_declared_identities=lambda: declared,
        now=NOW,
    )


def ids(diagnosis: Diagnosis) -> list[str]:
    """Return the ids of the problems."""
    return [problem.id for problem in diagnosis.problems]


def test_a_state_that_matches_the_cluster_has_no_problem() -> None:
    """Objects that controllers created from the stack's objects, with the same labels, are no problem either."""
    live = {QUEUE: make_live(), ("Service", "lab", "child"): make_live("2", is_owned=True)}
    assert make_diagnosis(make_state(make_resource(QUEUE)), live) == Diagnosis((), ())


def test_the_recovery_from_a_killed_engine_has_three_commands() -> None:
    """The engine leaves its lock and a pending object, which is not also reported as unknown to the state."""
    lock = StateLock("/state/lock.json", 7, "ann", "here", NOW, is_alive=False)
    diagnosis = make_diagnosis(make_state(pending=(make_pending(QUEUE),)), {QUEUE: make_live()}, locks=(lock,))
    assert ids(diagnosis) == ["lock-stale", "operation-pending"]
    assert diagnosis.commands == (RECOVERY.cancel, RECOVERY.refresh, RECOVERY.up)
    assert diagnosis.problems[1].what == "LocalQueue lab/open"
    assert diagnosis.problems[1].message == ("the engine was interrupted while creating it; it is in the cluster")


def test_an_interrupted_deletion_is_reported_with_its_outcome() -> None:
    """The state still has the object; its absence is not a second problem."""
    diagnosis = make_diagnosis(make_state(make_resource(QUEUE), pending=(make_pending(QUEUE, "deleting"),)), {})
    assert ids(diagnosis) == ["operation-pending"]
    assert "deleting it; it is not in the cluster" in diagnosis.problems[0].message


@pytest.mark.parametrize(
    ("live", "problem", "command"),
    [
        (None, "object-missing", RECOVERY.refresh),
        (make_live("2"), "object-replaced", RECOVERY.refresh),
        (
            LiveObject("1", {STACK: "other"}),
            "object-unmarked",
            f"kubectl label --overwrite localqueue open -n lab {STACK}=lab",
        ),
        (make_live("1", is_drained=True), "queue-drained", RECOVERY.refresh),
    ],
    ids=["missing", "replaced", "unmarked", "drained"],
)
def test_an_object_that_differs_from_the_state(live: LiveObject | None, problem: str, command: str) -> None:
    """The object is missing, was replaced, has lost its label, or was stopped by a teardown that did not end."""
    diagnosis = make_diagnosis(make_state(make_resource(QUEUE)), {QUEUE: live} if live else {})
    assert (ids(diagnosis), diagnosis.commands) == ([problem], (command, RECOVERY.up))


def make_release() -> dict[str, Any]:
    """Return the resource of a release with two definitions."""
    recorded = {"version": "v1", "state": OWN, "definitions": {"a.example.org": "0" * 16, "b.example.org": "1" * 16}}
    return {
        "urn": "urn:pulumi:lab::trainstack::trainstack:platform:Definitions$pulumi:index:Stash::kueue-definitions",
        "type": "pulumi:index:Stash",
        "custom": True,
        "id": "1",
        "outputs": {"input": recorded, "output": {}},
    }


def test_an_interrupted_apply_of_definitions_names_their_resource() -> None:
    """The message does not name the first definition."""
    state = make_state(make_release(), pending=({"type": "updating", "resource": make_release()},))
    names: tuple[Identity, ...] = tuple(("CustomResourceDefinition", None, f"{name}.example.org") for name in "ab")
    (problem,) = make_diagnosis(state, dict.fromkeys(names, make_live())).problems
    assert (problem.id, problem.what) == ("operation-pending", make_release()["urn"])


def test_a_definition_of_a_release_that_is_missing() -> None:
    """One resource of the state has all definitions of a release."""
    diagnosis = make_diagnosis(
        make_state(make_release()), {("CustomResourceDefinition", None, "a.example.org"): make_live()}
    )
    assert [(problem.id, problem.what) for problem in diagnosis.problems] == [
        ("object-missing", "CustomResourceDefinition b.example.org")
    ]


def test_an_unreadable_object_does_not_count_as_missing() -> None:
    """A tenant cannot read cluster queues."""
    assert ids(make_diagnosis(make_state(make_resource(QUEUE)), {}, unreadable=frozenset({"LocalQueue"}))) == []


def test_a_deleted_launch_is_no_problem() -> None:
    """Its TTL has expired; its ledger still exists."""
    job = make_resource(("Job", "lab", "digits"))
    job["inputs"]["metadata"]["labels"][RUN] = "digits-0123456789"
    assert ids(make_diagnosis(make_state(job), {})) == []


def test_a_labelled_object_that_is_not_in_the_state() -> None:
    """`up` takes over a declared object. The command deletes an undeclared one, and the message warns about a run."""
    job: Identity = ("Job", "lab", "digits-1")
    live = {QUEUE: make_live(state=OWN), job: make_live(labels={RUN: "digits", WORKLOAD: "digits"}, state=OWN)}
    diagnosis = make_diagnosis(EngineState(identity=OWN), live, declared=(QUEUE,))
    assert ids(diagnosis) == ["object-orphaned", "object-unrecorded"]
    assert diagnosis.problems[0].message.endswith("It is a run: deleting it ends it")
    assert diagnosis.commands == ("kubectl delete job digits-1 -n lab", RECOVERY.up)


@pytest.mark.parametrize("own", [OWN, ""])
@pytest.mark.parametrize(("other", "entry"), [("b" * 32, "b" * 32), (NO_STATE_IDENTITY, "none")])
def test_an_object_of_another_state_is_never_deleted(own: str, other: str, entry: str) -> None:
    """No command is printed, only the setting that takes the object over, whether or not it is declared."""
    secret: Identity = ("Secret", "lab", "old")
    live = {QUEUE: make_live(state=other), secret: make_live(state=other)}
    diagnosis = make_diagnosis(EngineState(identity=own), live, declared=(QUEUE,))
    assert ids(diagnosis) == ["object-of-another-state", "object-of-another-state"]
    assert diagnosis.commands == ()
    assert f"`trainstack:cluster: {{takeOver: [{entry}]}}` into Pulumi.lab.yaml" in diagnosis.problems[0].message


def test_a_recorded_object_that_another_state_took_over() -> None:
    """The state still has it. An object without an identity is no problem."""
    state = make_state(make_resource(QUEUE), make_identity(OWN))
    assert state.identity == OWN
    assert ids(make_diagnosis(state, {QUEUE: make_live(state="b" * 32)})) == ["object-of-another-state"]
    assert ids(make_diagnosis(state, {QUEUE: make_live()})) == []
    assert ids(make_diagnosis(state, {QUEUE: make_live(state=OWN)})) == []


def test_objects_that_destroy_leaves_are_no_problem() -> None:
    """Definitions, retained volumes, terminating objects, and a command's data loader."""
    claim: Identity = ("PersistentVolumeClaim", "lab", "data")
    live = {
        ("CustomResourceDefinition", None, "queues"): make_live(),
        claim: make_live(),
        QUEUE: make_live(deletion_time=NOW - timedelta(seconds=20)),
        ("Job", "lab", "loader-1"): make_live(labels={LAUNCH: "loader-1"}),
    }
    assert ids(make_diagnosis(EngineState(), live, retained=(claim,))) == []


@pytest.mark.parametrize(
    ("who", "finalizers", "command"),
    [
        (("ClusterQueue", None, "lab"), ("kueue.x-k8s.io/resource-in-use",), "kubectl get workloads -A"),
        (("PersistentVolumeClaim", "lab", "data"), ("kubernetes.io/pvc-protection",), "kubectl get pods -n lab"),
        (("Namespace", None, "lab"), (), "kubectl describe namespace lab"),
    ],
)
def test_an_object_that_keeps_terminating(who: Identity, finalizers: tuple[str, ...], command: str) -> None:
    """It is a problem after five minutes. The command shows the cause, and removes no finalizer."""
    live = {who: make_live(deletion_time=NOW - timedelta(minutes=6), finalizers=finalizers)}
    diagnosis = make_diagnosis(make_state(make_resource(who)), live)
    assert (ids(diagnosis), diagnosis.commands) == (["object-stuck"], (command,))


def test_unfinished_work_of_the_engine() -> None:
    """An object did not become ready, and the predecessor of a replaced one was not deleted."""
    broken = make_resource(QUEUE, initErrors=["timed out\nmore"])
    old = make_resource(("Secret", "lab", "old"), delete=True)
    diagnosis = make_diagnosis(make_state(broken, old), {QUEUE: make_live(), ("Secret", "lab", "old"): make_live()})
    assert ids(diagnosis) == ["replacement-unfinished", "object-unready"]
    assert "(timed out)" in diagnosis.problems[1].message
    assert diagnosis.commands == (RECOVERY.up,)


def test_encrypted_properties_are_not_compared() -> None:
    """The engine exports the ciphertexts; the id has the object's name."""
    secret = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "v1:x"}
    resource = make_resource(("Secret", "lab", "key"), inputs=secret, outputs=secret)
    assert ids(make_diagnosis(make_state(resource), {("Secret", "lab", "key"): make_live("9")})) == []


def test_an_invalid_export_does_not_count_as_an_empty_state() -> None:
    """Otherwise all objects in the cluster would count as orphans."""
    with pytest.raises(ValueError, match="no `deployment`"):
        read_state({"resources": []})


def test_a_lock_whose_process_runs_is_the_only_problem() -> None:
    """`pulumi cancel` would remove this lock too, and the state of a running operation is outdated at once."""
    running = StateLock("/state/a.json", 7, "ann", "here", NOW, is_alive=True)
    stale = StateLock("/state/b.json", 8, "ann", "here", NOW, is_alive=False)
    diagnosis = diagnose_files(StateFiles(locks=(stale, running)), "lab")
    assert diagnosis is not None
    assert (ids(diagnosis), diagnosis.commands) == (["operation-running"], ("tail --pid=7 -f /dev/null",))


def test_the_command_for_a_lock_of_another_host_checks_its_process() -> None:
    """The message has the command that cancels the lock if the process has ended."""
    lock = StateLock("/state/a.json", 7, "ann", "far", NOW)
    assert diagnose_files(StateFiles(locks=(lock,)), "lab") is None
    diagnosis = make_diagnosis(EngineState(), {}, locks=(lock,))
    assert (ids(diagnosis), diagnosis.commands) == (["lock-elsewhere"], ("ssh ann@far ps -fp 7",))
    assert RECOVERY.cancel in diagnosis.problems[0].message


def test_an_incomplete_lock_is_stale() -> None:
    """Its writer was killed; the engine refuses to work until the lock is removed."""
    diagnosis = make_diagnosis(EngineState(), {}, locks=(StateLock("/state/fileblob1"),))
    assert (ids(diagnosis), diagnosis.commands) == (["lock-stale"], (RECOVERY.cancel,))


def test_unreadable_files_are_the_first_problems() -> None:
    """They hide all others. One command removes all sidecars; the state is restored from its backup."""
    diagnosis = diagnose_files(
        StateFiles(sidecars=("/state/a b.attrs", "/state/c.attrs"), checkpoint="/s.json", has_usable_backup=True), "lab"
    )
    assert diagnosis is not None
    assert ids(diagnosis) == ["sidecar-unreadable", "state-unreadable"]
    assert diagnosis.commands == (
        "rm -- '/state/a b.attrs' /state/c.attrs",
        "mv -- /s.json /s.json.unreadable",
        "cp -- /s.json.bak /s.json",
        RECOVERY.refresh,
        RECOVERY.up,
    )


def test_a_state_without_a_backup_is_created_again() -> None:
    """The stack's label identifies the objects."""
    diagnosis = diagnose_files(StateFiles(checkpoint="/s.json"), "lab")
    assert diagnosis is not None
    assert diagnosis.commands == ("mv -- /s.json /s.json.unreadable", "pulumi stack init lab", RECOVERY.up)


def test_every_problem_has_a_section() -> None:
    """The sections of docs/recovery.md are those of the problems."""
    page = (Path(__file__).parents[4] / "docs" / "recovery.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^### `(.+)`$", page, re.MULTILINE)) == sorted(get_args(ProblemId))


def test_which_objects_belong_to_declared_runs() -> None:
    """The workload label of launches and ledgers decides, not their names: the launch rules apply to them."""
    ledger = make_live(labels={LEDGER: "run", RUN: "digits-1", WORKLOAD: "digits"})
    assert ledger.is_of_run(["digits"])
    assert not ledger.is_of_run(["other"])
    assert not make_live().is_of_run(["digits"])
