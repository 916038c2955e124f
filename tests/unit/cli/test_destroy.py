"""`trainstack destroy`: what it tells, and what it has the engine do."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.unit.make import make_settings
from trainstack.cli import console, destroy
from trainstack.cli.app import app
from trainstack.cli.session import Session
from trainstack.errors import ExitCode
from trainstack.lifecycle.teardown.context import Body, LiveStack
from trainstack.runs.launches import LiveLaunch
from trainstack.settings.loading.load import Loaded
from trainstack.stacks.teardown_mode import PERMISSION_VARIABLE, Mode, teardown_mode

MARKED = {"trainstack.dev/stack": "test"}
QUEUE: Body = {
    "kind": "LocalQueue",
    "metadata": {"name": "q", "namespace": "research", "uid": "q", "labels": MARKED},
    "spec": {"clusterQueue": "research"},
}
CLUSTER_QUEUE: Body = {"kind": "ClusterQueue", "metadata": {"name": "research", "uid": "c", "labels": MARKED}}
CLAIM: Body = {
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data", "namespace": "research", "uid": "v", "labels": MARKED},
}
THEIRS: Body = {
    "kind": "LocalQueue",
    "metadata": {"name": "theirs", "namespace": "x", "uid": "t"},
    "spec": {"clusterQueue": "research"},
}


def make_resource(type_: str, name: str, **changes: Any) -> dict[str, Any]:
    """A resource of the stack's state."""
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
class Around:
    """What the command meets."""

    state: list[dict[str, Any]] = field(default_factory=lambda: STATE)
    lists: dict[str, tuple[Body, ...]] = field(default_factory=dict)
    code: ExitCode | None = None
    """Of an engine that fails."""
    after: Sequence[Body] = (CLAIM,)
    """What bears the mark when the engine has ended."""
    launches: tuple[LiveLaunch, ...] = ()
    interactive: bool = True
    ran: list[tuple[tuple[str, ...], Mode | None]] = field(default_factory=list)
    """What the engine did, and the way in which its program was permitted to end the stack."""


@pytest.fixture
def around(monkeypatch: pytest.MonkeyPatch) -> Around:
    """A cluster with a queue and a kept volume, and an engine that only takes note."""
    made, settings = Around(), make_settings()

    def read_live_stack(_: object, **given: Any) -> LiveStack:
        sets: dict[str, Any] = {name: frozenset(given[name]) for name in ("retained", "stop", "known")}
        ours = (QUEUE, CLUSTER_QUEUE, CLAIM) if made.state else ()
        launches = made.launches
        return LiveStack(
            stack="test", own=ours, launches=launches, lists=made.lists, protected=tuple(given["protected"]), **sets
        )

    def engine(session: Session, *words: str, variables: dict[str, str], **given: bool) -> ExitCode | None:
        monkeypatch.setenv(PERMISSION_VARIABLE, variables[PERMISSION_VARIABLE])
        made.ran.append((words, teardown_mode(session.root, session.stack)))
        return made.code

    monkeypatch.setenv("PULUMI_BACKEND_URL", "s3://team")
    monkeypatch.setattr(Session, "loaded", Loaded(settings, {}))
    monkeypatch.setattr(destroy, "reach", lambda _: None)
    monkeypatch.setattr(destroy, "deployment", lambda _: {"resources": made.state})
    monkeypatch.setattr(destroy, "read_live_stack", read_live_stack)
    monkeypatch.setattr(destroy, "read_own", lambda _: tuple(made.after))
    monkeypatch.setattr(destroy, "pulumi", engine)
    monkeypatch.setattr(destroy, "_DEADLINE_SECONDS", 0)
    monkeypatch.setattr(destroy, "ensure_same_cluster", lambda *_: None)
    monkeypatch.setattr(destroy, "ensure_own_objects", lambda *_: None)
    monkeypatch.setattr(destroy, "read_own_launches", lambda *_: made.launches)
    monkeypatch.setattr(console, "interactive", lambda: made.interactive)
    return made


def call(*words: str, answer: str = "") -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command."""
    done = CliRunner().invoke(app, ["destroy", "-s", "test", *words], input=answer)
    return done.exit_code, done.stdout, done.stderr


def test_it_shows_asks_and_tells_what_stayed(around: Around) -> None:
    """The engine runs the program, which is told that this stack ends."""
    code, said, _ = call(answer="y\n")
    assert code == 0
    assert "delete: local queues: LocalQueue research/q" in said
    assert "kept: PersistentVolumeClaim research/data: its data is kept" in said
    assert around.ran == [(("destroy", "--yes", "--skip-preview", "--run-program"), "everything")]
    around.ran.clear()
    assert call(answer="n\n")[0] == 1
    assert around.ran == []


def test_the_definitions_of_a_release_are_in_the_state() -> None:
    """By their names, in one resource."""
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


def test_nothing_is_deleted_while_somebody_is_in_the_way(around: Around) -> None:
    """Not with --yes either."""
    around.lists = {"LocalQueue": (QUEUE, THEIRS)}
    code, _, said = call("--yes")
    assert code == 3
    assert "nothing was deleted:" in said
    assert "LocalQueue x/theirs, of another owner, points to ClusterQueue research" in said
    assert around.ran == []


def test_a_protected_volume_is_read_from_the_state(around: Around) -> None:
    """It was protected by the last `up`, whatever the files say since."""
    around.state = [*STATE[:-1], {**STATE[-1], "protect": True}]
    code, _, said = call("--yes")
    assert code == 3
    assert "PersistentVolumeClaim research/data is protected, so nothing is deleted" in said
    assert around.ran == []


def test_json_only_tells_until_it_is_said_yes(around: Around) -> None:
    """The same shape before and after."""
    code, said, _ = call("--json")
    told = json.loads(said)
    assert (code, around.ran) == (0, [])
    assert told["goes"]["cluster queues"] == ["ClusterQueue research"]
    assert told["stays"] == {"PersistentVolumeClaim research/data": "its data is kept"}
    code, said, _ = call("--json", "--yes")
    assert (code, len(around.ran), json.loads(said)) == (0, 1, told)


def test_what_hangs_is_named(around: Around) -> None:
    """With its finalizers, whether the engine saw it or not."""
    going = {"deletionTimestamp": "2026-01-02T03:04:05Z", "finalizers": ["kueue.x-k8s.io/resource-in-use"]}
    around.after = (CLAIM, {**CLUSTER_QUEUE, "metadata": {**CLUSTER_QUEUE["metadata"], **going}})
    for around.code in (None, ExitCode.FAILED, ExitCode.UNREACHABLE):
        code, _, said = call("--yes")
        assert code == (around.code or ExitCode.FAILED)
        assert "ClusterQueue research has been terminating for" in said
        assert "held by kueue.x-k8s.io/resource-in-use" in said
        assert ("`pulumi destroy` failed; see its output above" in said) == bool(around.code)


def test_a_stack_that_never_came_up_is_only_forgotten(around: Around) -> None:
    """Its first `up` was refused: nothing is in the cluster."""
    around.state = []
    code, said, _ = call("--yes")
    assert code == 0
    assert "nothing to delete; to remove the stack's state too: pulumi stack rm test" in said
    assert around.ran == []
    told = json.loads(call("--json")[1])
    code, said, _ = call("--json", "--yes")
    assert (code, around.ran, json.loads(said)) == (0, [], told)


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
def test_an_active_run_is_refused_unless_it_is_named(around: Around, option: tuple[str, ...]) -> None:
    """Both ways, with the same command as the remedy; `--yes` does not stop runs."""
    around.launches = (ACTIVE,)
    code, _, said = call("--yes", *option)
    assert (code, around.ran) == (3, [])
    assert f"Job research/{ACTIVE.name} (run {ACTIVE.run_id}) has been running for 2 h" in said
    command = " ".join(("trainstack destroy -s test", *option))
    assert f"or stop it: {command} --stop {ACTIVE.run_id}" in said
    code, shown, _ = call("--yes", "--stop", ACTIVE.run_id, *option)
    assert (code, len(around.ran)) == (0, 1)
    assert f"stop: {ACTIVE.run_id}" in shown


def test_keeping_the_platform_reads_only_the_state_and_the_launches(around: Around) -> None:
    """So a deployer's rights suffice. What the engine retains is named before and after."""
    around.lists = {"LocalQueue": (QUEUE, THEIRS)}
    code, shown, told = call("--keep-platform", answer="y\n")
    assert (code, "Destroy test? [y/N]:" in told) == (0, True)
    assert "delete: cluster queues: ClusterQueue research" in shown
    for label in ("keep", "kept"):
        assert f"{label}: PersistentVolumeClaim research/data: its data is kept" in shown
    assert around.ran == [(("destroy", "--yes", "--skip-preview", "--run-program"), "keep-platform")]
    around.state = [*STATE[:-1], {**STATE[-1], "protect": True}]
    code, _, told = call("--keep-platform", "--yes")
    assert (code, len(around.ran)) == (3, 1)
    assert "PersistentVolumeClaim research/data is protected, so nothing is deleted" in told


def test_without_a_terminal_a_deletion_has_to_be_confirmed_by_an_option(around: Around) -> None:
    """With --json alone it only reads."""
    around.interactive = False
    code, shown, told = call()
    assert (code, shown, around.ran) == (2, "", [])
    assert told == "error: this command asks for confirmation, but there is no terminal; add --yes to confirm\n"
    assert call("--json")[0] == 0
    assert call("--yes")[0] == 0
    assert len(around.ran) == 1


def test_the_former_name_still_works_and_names_the_new_one(around: Around) -> None:
    """For one release; the help does not list it."""
    done = CliRunner().invoke(app, ["teardown", "-s", "test", "--yes"])
    assert (done.exit_code, len(around.ran)) == (0, 1)
    assert done.stderr.startswith("`trainstack teardown` is now `trainstack destroy`; the next release removes")
    assert "teardown" not in CliRunner().invoke(app, ["--help"]).stdout
