"""`up` waits for a fixed name while its former owner terminates, and refuses to take it from an existing launch."""

from collections.abc import Iterator
from typing import Any

import pytest

from trainstack.live import deletion_waits
from trainstack.live.client import Answer, ClusterError
from trainstack.live.deletion_waits import wait_until_name_is_free

MANIFEST: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "train", "namespace": "research", "labels": {"trainstack.dev/launch": "train-1-2"}},
}
ABSENT = Answer(404, {})


def make_live(launch: str, **metadata: Any) -> Answer:
    """Return the object that has the name."""
    return Answer(200, {"metadata": {**MANIFEST["metadata"], "labels": {"trainstack.dev/launch": launch}, **metadata}})


def answering(monkeypatch: pytest.MonkeyPatch, *answers: Answer) -> Iterator[Answer]:
    """Patch the reads with these answers in turn; return the iterator of the remaining ones."""
    remaining = iter(answers)
    monkeypatch.setattr(deletion_waits, "read", lambda paths, _, **__: {paths[0]: next(remaining)})
    monkeypatch.setattr(deletion_waits, "_PAUSE_SECONDS", 0)
    return remaining


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([ABSENT], id="free"),
        pytest.param([make_live("train-1-2")], id="left by an interrupted `up`"),
        pytest.param([make_live("train-0-0", deletionTimestamp="now"), ABSENT], id="another one, terminating"),
        pytest.param([make_live("train-1-2", deletionTimestamp="now"), ABSENT], id="the same, terminating"),
    ],
)
def test_a_name_is_free_once_no_other_object_has_it(monkeypatch: pytest.MonkeyPatch, answers: list[Answer]) -> None:
    """The object is read until the name is free, and not again."""
    remaining = answering(monkeypatch, *answers)
    wait_until_name_is_free(MANIFEST, None)
    assert list(remaining) == []


def test_an_existing_launch_is_reported_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The launch is not in the state, so the engine would edit it."""
    answering(monkeypatch, make_live("train-0-0"))
    with pytest.raises(ClusterError, match=r"Job research/train is another.*kubectl delete job -n research train"):
        wait_until_name_is_free(MANIFEST, None)


def test_a_launch_that_keeps_terminating_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names its finalizers."""
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["foregroundDeletion"]}
    answering(monkeypatch, make_live("train-0-0", **metadata))
    with pytest.raises(ClusterError, match=r"Job research/train has been terminating for .*held by foregroundDeletion"):
        wait_until_name_is_free(MANIFEST, None, deadline_seconds=0)


def test_an_unreadable_object_does_not_count_as_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """An object of that name may exist."""
    answering(monkeypatch, Answer(403, {}))
    with pytest.raises(ClusterError, match="403"):
        wait_until_name_is_free(MANIFEST, None)
