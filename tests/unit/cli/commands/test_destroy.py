"""`trainstack destroy`: its output, and the calls of the engine."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.unit.make import make_settings
from trainstack.cli.app import app
from trainstack.cli.commands import destroy
from trainstack.cli.output import console
from trainstack.cli.session import Session
from trainstack.errors import ExitCode
from trainstack.lifecycle.teardown.live_stack import Body, LiveStack
from trainstack.live import teardown as reads
from trainstack.runs.launches import LiveLaunch
from trainstack.settings.loading.load import LoadedEnvironment
from trainstack.stacks.teardown_permission import PERMISSION_VARIABLE, Permission, teardown_permission

LABELS = {"trainstack.dev/stack": "test"}
QUEUE: Body = {
    "kind": "LocalQueue",
    "metadata": {"name": "q", "namespace": "research", "uid": "q", "labels": LABELS},
    "spec": {"clusterQueue": "research"},
}
CLUSTER_QUEUE: Body = {"kind": "ClusterQueue", "metadata": {"name": "research", "uid": "c", "labels": LABELS}}
CLAIM: Body = {
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data", "namespace": "research", "uid": "v", "labels": LABELS},
}
OTHERS_QUEUE: Body = {
    "kind": "LocalQueue",
    "metadata": {"name": "theirs", "namespace": "x", "uid": "t"},
    "spec": {"clusterQueue": "research"},
}


def make_resource(type_: str, name: str, **changes: Any) -> dict[str, Any]:
    """Return a resource of the stack's state."""
    urn = f"urn:pulumi:test::trainstack::{type_}::{name}"
    return {"type": type_, "urn": urn, "id": name, "custom": True, **changes}


STATE: list[dict[str, Any]] = [
    make_resource("pulumi:pulumi:Stack", "trainstack-test", custom=False),
    make_resource("pulumi:providers:kubernetes", "cluster"),
    make_resource("kubernetes:kueue.x-k8s.io/v1beta2:LocalQueue", "research/q"),
    make_resource("kubernetes:kueue.x-k8s.io/v1beta2:ClusterQueue", "research"),
    make_resource("kubernetes:core/v1:PersistentVolumeClaim", "research/data", retainOnDelete=True),
]


@dataclass
class Environment:
    """The surroundings of the command: the state, the cluster and the engine."""

    state: list[dict[str, Any]] = field(default_factory=lambda: STATE)
    lists: dict[str, tuple[Body, ...]] = field(default_factory=dict)
    code: ExitCode | None = None
    """The exit code of an engine that fails."""
    after: Sequence[Body] = (CLAIM,)
    """The objects with the stack's label after the run of the engine."""
    launches: tuple[LiveLaunch, ...] = ()
    interactive: bool = True
    ran: list[tuple[tuple[str, ...], str]] = field(default_factory=list)
    """The calls of the engine, and the mode in which its program was permitted to end the stack."""
    permission: Permission | None = None
    """Of the last call."""


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Environment:
    """Provide a cluster with a queue and a retained volume, and an engine that only records its calls."""
    environment, settings = Environment(), make_settings()

    def read_live_stack(_: object, **options: Any) -> LiveStack:
        sets: dict[str, Any] = {name: frozenset(options[name]) for name in ("retained", "stop")}
        own = (QUEUE, CLUSTER_QUEUE, CLAIM) if environment.state else ()
        launches = environment.launches
        return LiveStack(
            stack="test",
            labeled_objects=own,
            launches=launches,
            lists=environment.lists,
            protected=tuple(options["protected"]),
            state_identities=frozenset(options["state_objects"]),
            **sets,
        )

    def read_users(*_: object) -> LiveStack:
        return LiveStack(stack="test", labeled_objects=(), launches=environment.launches, lists=environment.lists)

    def engine(session: Session, *words: str, variables: dict[str, str], **options: bool) -> ExitCode | None:
        monkeypatch.setenv(PERMISSION_VARIABLE, variables[PERMISSION_VARIABLE])
        environment.permission = teardown_permission(session.root, session.stack)
        assert environment.permission is not None
        environment.ran.append((words, environment.permission.mode))
        return environment.code

    monkeypatch.setenv("PULUMI_BACKEND_URL", "s3://team")
    monkeypatch.setattr(Session, "loaded", LoadedEnvironment(settings, {}))
    monkeypatch.setattr(destroy, "reach", lambda _: None)
    monkeypatch.setattr(destroy, "deployment", lambda _: {"resources": environment.state})
    monkeypatch.setattr(reads, "read_live_stack", read_live_stack)
    monkeypatch.setattr(reads, "read_users", read_users)
    monkeypatch.setattr(destroy, "read_stack_objects", lambda _: tuple(environment.after))
    monkeypatch.setattr(destroy, "pulumi", engine)
    monkeypatch.setattr(destroy, "_DEADLINE_SECONDS", 0)
    monkeypatch.setattr(destroy, "ensure_same_cluster", lambda *_: None)
    monkeypatch.setattr(destroy, "ensure_own_objects", lambda *_: None)
    monkeypatch.setattr(console, "is_interactive", lambda: environment.interactive)
    return environment


def call(*words: str, answer: str = "") -> tuple[int, str, str]:
    """Run the command; return its exit code, stdout and stderr."""
    result = CliRunner().invoke(app, ["destroy", "-s", "test", *words], input=answer)
    return result.exit_code, result.stdout, result.stderr


def test_it_shows_the_changes_asks_and_lists_what_is_kept(environment: Environment) -> None:
    """The engine runs the program in the mode that ends the stack."""
    code, stdout, _ = call(answer="y\n")
    assert code == 0
    assert "delete: local queues: LocalQueue research/q" in stdout
    assert "kept: PersistentVolumeClaim research/data: its data is kept" in stdout
    assert environment.ran == [(("destroy", "--yes", "--skip-preview", "--run-program"), "everything")]
    environment.ran.clear()
    assert call(answer="n\n")[0] == 1
    assert environment.ran == []


def test_the_definitions_of_a_release_are_in_the_state() -> None:
    """One resource records the names of the definitions."""
    recorded = {
        "version": "v0.15.2",
        "state": "",
        "definitions": {"a.example.org": "0" * 16, "b.example.org": "1" * 16},
    }
    type_ = "trainstack:platform:Definitions$pulumi:index:Stash"
    stash = make_resource(type_, "kueue-definitions", outputs={"input": recorded, "output": recorded})
    assert destroy._identities([stash]) == {
        ("CustomResourceDefinition", None, "a.example.org"),
        ("CustomResourceDefinition", None, "b.example.org"),
    }


def test_nothing_is_deleted_while_another_owner_uses_a_queue(environment: Environment) -> None:
    """`--yes` does not override this."""
    environment.lists = {"LocalQueue": (QUEUE, OTHERS_QUEUE)}
    code, _, stderr = call("--yes")
    assert code == 3
    assert "nothing was deleted:" in stderr
    assert "LocalQueue x/theirs, of another owner, points to ClusterQueue research" in stderr
    assert environment.ran == []


def test_a_protected_volume_is_read_from_the_state(environment: Environment) -> None:
    """The last `up` protected it; later edits of the files do not count."""
    environment.state = [*STATE[:-1], {**STATE[-1], "protect": True}]
    code, _, stderr = call("--yes")
    assert code == 3
    assert "PersistentVolumeClaim research/data is protected, so nothing is deleted" in stderr
    assert environment.ran == []


def test_json_changes_nothing_without_yes(environment: Environment) -> None:
    """The JSON is the same before and after."""
    code, stdout, _ = call("--json")
    expected = json.loads(stdout)
    assert (code, environment.ran) == (0, [])
    assert expected["goes"]["cluster queues"] == ["ClusterQueue research"]
    assert expected["stays"] == {"PersistentVolumeClaim research/data": "its data is kept"}
    code, stdout, _ = call("--json", "--yes")
    assert (code, len(environment.ran), json.loads(stdout)) == (0, 1, expected)


def test_what_hangs_is_named(environment: Environment) -> None:
    """The message lists the finalizers, also if the engine did not report the object."""
    deletion = {"deletionTimestamp": "2026-01-02T03:04:05Z", "finalizers": ["kueue.x-k8s.io/resource-in-use"]}
    environment.after = (CLAIM, {**CLUSTER_QUEUE, "metadata": {**CLUSTER_QUEUE["metadata"], **deletion}})
    for environment.code in (None, ExitCode.FAILED, ExitCode.UNREACHABLE):
        code, _, stderr = call("--yes")
        assert code == (environment.code or ExitCode.FAILED)
        assert "ClusterQueue research has been terminating for" in stderr
        assert "held by kueue.x-k8s.io/resource-in-use" in stderr
        assert ("`pulumi destroy` failed; see its output above" in stderr) == bool(environment.code)


def test_of_a_stack_that_was_never_deployed_only_the_state_is_removed(environment: Environment) -> None:
    """The first `up` was refused, so the cluster holds nothing."""
    environment.state = []
    code, stdout, _ = call("--yes")
    assert code == 0
    assert "nothing to delete; to remove the stack's state too: pulumi stack rm test" in stdout
    assert environment.ran == []
    expected = json.loads(call("--json")[1])
    code, stdout, _ = call("--json", "--yes")
    assert (code, environment.ran, json.loads(stdout)) == (0, [], expected)


ACTIVE = LiveLaunch(
    run_id="digits-0123456789",
    name="digits-0123456789-aaaaaa",
    kind="Job",
    namespace="research",
    phase="running",
    created=datetime.now(UTC) - timedelta(hours=2),
    launch="digits-0123456789-aaaaaa",
    stack="test",
)


@pytest.mark.parametrize("option", [(), ("--keep-platform",)], ids=["all", "keep-platform"])
def test_an_active_run_is_refused_unless_it_is_named(environment: Environment, option: tuple[str, ...]) -> None:
    """Both modes refuse, and the remedy is the same command; `--yes` does not stop runs."""
    environment.launches = (ACTIVE,)
    code, _, stderr = call("--yes", *option)
    assert (code, environment.ran) == (3, [])
    assert f"Job research/{ACTIVE.name} (run {ACTIVE.run_id}) has been running for 2 h" in stderr
    command = " ".join(("trainstack destroy -s test", *option))
    assert f"or stop it: {command} --stop {ACTIVE.run_id}" in stderr
    code, stdout, _ = call("--yes", "--stop", ACTIVE.run_id, *option)
    assert (code, len(environment.ran)) == (0, 1)
    assert f"stop: {ACTIVE.run_id}" in stdout


def test_keeping_the_platform_deletes_the_objects_of_the_state(environment: Environment) -> None:
    """The output names what the engine retains, before and after. Users that can be read are looked for, too."""
    code, stdout, stderr = call("--keep-platform", answer="y\n")
    assert (code, "Destroy test? [y/N]:" in stderr) == (0, True)
    assert "delete: cluster queues: ClusterQueue research" in stdout
    for label in ("keep", "kept"):
        assert f"{label}: PersistentVolumeClaim research/data: its data is kept" in stdout
    assert environment.ran == [(("destroy", "--yes", "--skip-preview", "--run-program"), "keep-platform")]
    environment.state = [*STATE[:-1], {**STATE[-1], "protect": True}]
    code, _, stderr = call("--keep-platform", "--yes")
    assert (code, len(environment.ran)) == (3, 1)
    assert "PersistentVolumeClaim research/data is protected, so nothing is deleted" in stderr
    environment.state, environment.lists = STATE, {"LocalQueue": (QUEUE, OTHERS_QUEUE)}
    code, _, stderr = call("--keep-platform", "--yes")
    assert (code, len(environment.ran)) == (3, 1)
    assert "LocalQueue x/theirs, of another owner, points to ClusterQueue research" in stderr


def test_the_engine_may_delete_what_the_user_confirmed(environment: Environment) -> None:
    """The program compares it with the stack under the engine's lock."""
    assert call("--yes", "--stop", "digits-0123456789")[0] == 0
    permission = environment.permission
    assert permission is not None
    assert {*permission.deleted} == {("LocalQueue", "research", "q"), ("ClusterQueue", None, "research")}
    assert permission.retained == (("PersistentVolumeClaim", "research", "data"),)
    assert permission.stop == ("digits-0123456789",)


def test_without_a_terminal_a_deletion_has_to_be_confirmed_by_an_option(environment: Environment) -> None:
    """With --json alone the command only reads."""
    environment.interactive = False
    code, stdout, stderr = call()
    assert (code, stdout, environment.ran) == (2, "", [])
    assert stderr == "error: this command asks for confirmation, but there is no terminal; add --yes to confirm\n"
    assert call("--json")[0] == 0
    assert call("--yes")[0] == 0
    assert len(environment.ran) == 1
