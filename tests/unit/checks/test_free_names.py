"""A fixed name is waited for while its former owner goes, and never taken from a launch that stays."""

from collections.abc import Iterator
from typing import Any

import pytest

from trainstack.live import names
from trainstack.live.client import Answer, ClusterError
from trainstack.live.names import wait_until_free

MANIFEST: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "train", "namespace": "research", "labels": {"trainstack.dev/launch": "train-1-2"}},
}
GONE = Answer(404, {})


def make_live(launch: str, **metadata: Any) -> Answer:
    """The object that has the name now."""
    return Answer(200, {"metadata": {**MANIFEST["metadata"], "labels": {"trainstack.dev/launch": launch}, **metadata}})


def answering(monkeypatch: pytest.MonkeyPatch, *answers: Answer) -> Iterator[Answer]:
    """A cluster that gives these answers in turn; what is left of them can be taken afterwards."""
    left = iter(answers)
    monkeypatch.setattr(names, "read", lambda paths, _, **__: {paths[0]: next(left)})
    monkeypatch.setattr(names, "_PAUSE_SECONDS", 0)
    return left


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([GONE], id="free"),
        pytest.param([make_live("train-1-2")], id="left by an interrupted `up`"),
        pytest.param([make_live("train-0-0", deletionTimestamp="now"), GONE], id="another one, going"),
        pytest.param([make_live("train-1-2", deletionTimestamp="now"), GONE], id="the same, going"),
    ],
)
def test_a_name_is_free_once_nobody_else_has_it(monkeypatch: pytest.MonkeyPatch, answers: list[Answer]) -> None:
    """Asked until it is, and no longer."""
    left = answering(monkeypatch, *answers)
    wait_until_free(MANIFEST, None)
    assert list(left) == []


def test_a_launch_that_stays_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state does not know it, so the engine would edit it instead."""
    answering(monkeypatch, make_live("train-0-0"))
    with pytest.raises(ClusterError, match=r"Job research/train is another.*kubectl delete job -n research train"):
        wait_until_free(MANIFEST, None)


def test_a_launch_that_does_not_go_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what holds it."""
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["foregroundDeletion"]}
    answering(monkeypatch, make_live("train-0-0", **going))
    with pytest.raises(ClusterError, match=r"Job research/train has been terminating for .*held by foregroundDeletion"):
        wait_until_free(MANIFEST, None, deadline_seconds=0)


def test_what_may_not_be_read_is_not_taken_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An object of that name may be there."""
    answering(monkeypatch, Answer(403, {}))
    with pytest.raises(ClusterError, match="403"):
        wait_until_free(MANIFEST, None)
