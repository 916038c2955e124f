"""`trainstack teardown`: what it tells, and what it has the engine do."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.unit.make import make_settings
from trainstack.cli import teardown
from trainstack.cli.app import app
from trainstack.cli.session import Session
from trainstack.lifecycle.teardown.context import Body, LiveStack
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
    code: int = 0
    """Of the engine."""
    after: Sequence[Body] = (CLAIM,)
    """What bears the mark when the engine has ended."""
    ran: list[tuple[tuple[str, ...], Mode | None]] = field(default_factory=list)
    """What the engine did, and the way in which its program was permitted to end the stack."""


@pytest.fixture
def around(monkeypatch: pytest.MonkeyPatch) -> Around:
    """A cluster with a queue and a kept volume, and an engine that only takes note."""
    made, settings = Around(), make_settings()

    def read_live_stack(_: object, **given: Any) -> LiveStack:
        sets: dict[str, Any] = {name: frozenset(given[name]) for name in ("retained", "stop", "known")}
        ours = (QUEUE, CLUSTER_QUEUE, CLAIM) if made.state else ()
        return LiveStack(stack="test", own=ours, lists=made.lists, protected=tuple(given["protected"]), **sets)

    def engine(session: Session, *words: str, variables: dict[str, str], **given: bool) -> int:
        monkeypatch.setenv(PERMISSION_VARIABLE, variables[PERMISSION_VARIABLE])
        made.ran.append((words, teardown_mode(session.root, session.stack)))
        return made.code

    monkeypatch.setenv("PULUMI_BACKEND_URL", "s3://team")
    monkeypatch.setattr(Session, "loaded", Loaded(settings, {}))
    monkeypatch.setattr(teardown, "reach", lambda _: None)
    monkeypatch.setattr(teardown, "resources", lambda _: made.state)
    monkeypatch.setattr(teardown, "read_live_stack", read_live_stack)
    monkeypatch.setattr(teardown, "read_own", lambda _: tuple(made.after))
    monkeypatch.setattr(teardown, "pulumi", engine)
    monkeypatch.setattr(teardown, "_DEADLINE_SECONDS", 0)
    monkeypatch.setattr(teardown, "ensure_same_cluster", lambda _: None)
    monkeypatch.setattr(teardown, "ensure_own_objects", lambda _: None)
    return made


def call(*words: str, answer: str = "") -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command."""
    done = CliRunner().invoke(app, ["teardown", "-s", "test", *words], input=answer)
    return done.exit_code, done.stdout, done.stderr


def test_it_shows_asks_and_tells_what_stayed(around: Around) -> None:
    """The engine runs the program, which is told that this stack ends."""
    code, said, _ = call(answer="y\n")
    assert code == 0
    assert "delete: local queues: LocalQueue research/q" in said
    assert "kept: PersistentVolumeClaim research/data: its data is kept" in said
    assert around.ran == [(("destroy", "--yes", "--skip-preview", "--run-program"), "teardown")]
    around.ran.clear()
    assert call(answer="n\n")[0] == 1
    assert around.ran == []


def test_nothing_is_deleted_while_somebody_is_in_the_way(around: Around) -> None:
    """Not with --yes either."""
    around.lists = {"LocalQueue": (QUEUE, THEIRS)}
    code, _, said = call("--yes")
    assert code == 1
    assert "nothing was deleted:" in said
    assert "LocalQueue x/theirs, of another owner, points to ClusterQueue research" in said
    assert around.ran == []


def test_a_protected_volume_is_read_from_the_state(around: Around) -> None:
    """It was protected by the last `up`, whatever the files say since."""
    around.state = [*STATE[:-1], {**STATE[-1], "protect": True}]
    code, _, said = call("--yes")
    assert code == 1
    assert "PersistentVolumeClaim research/data is protected, so nothing is torn down" in said
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
    for around.code in (0, 255):
        code, _, said = call("--yes")
        assert code == 1
        assert "ClusterQueue research has been terminating for" in said
        assert "held by kueue.x-k8s.io/resource-in-use" in said
        assert ("`pulumi destroy` exited with code 255" in said) == bool(around.code)


def test_a_stack_that_never_came_up_is_only_forgotten(around: Around) -> None:
    """Its first `up` was refused: nothing is in the cluster."""
    around.state = []
    code, said, _ = call("--yes")
    assert code == 0
    assert "nothing to delete; to remove the stack's state too: pulumi stack rm test" in said
    assert around.ran == []
