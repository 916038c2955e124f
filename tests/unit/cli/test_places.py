"""The wait for a free slot of a sweep that limits the number of concurrent trials."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from tests.unit.make import make_settings, make_sweeps
from trainstack.cli import sweep_slots
from trainstack.cli.commands import up
from trainstack.cli.session import Session
from trainstack.cli.sweep_slots import await_slot


def make_trial(phase: str, sweep: str = "search", **changes: Any) -> dict[str, Any]:
    """Return the live Job of one trial; with `parallelism`, the Indexed Job of many."""
    marks = {"trainstack.dev/run": "r", "trainstack.dev/launch": "r-1", "trainstack.dev/sweep": sweep}
    if not changes:
        marks["trainstack.dev/set"] = "aaaaaaaaaa"
    done = [{"type": "Complete", "status": "True"}] if phase == "succeeded" else []
    meta = {"name": "r-1", "namespace": "n", "creationTimestamp": "2026-01-02T03:04:05Z", "labels": marks}
    spec = {"suspend": phase == "queued", "template": {"spec": {"containers": []}}, **changes}
    return {"kind": "Job", "metadata": meta, "spec": spec, "status": {"conditions": done}}


def serve_lists(monkeypatch: pytest.MonkeyPatch, *lists: list[dict[str, Any]]) -> list[int]:
    """Let successive reads find these; return the list of the reads."""
    reads: list[int] = []

    def list_launches(_session: Session, _run: str | None) -> list[dict[str, Any]]:
        reads.append(1)
        return lists[min(len(reads), len(lists)) - 1]

    monkeypatch.setattr(sweep_slots, "launch_bodies", list_launches)
    monkeypatch.setattr(sweep_slots, "PAUSE_SECONDS", 0)
    return reads


def test_a_slot_is_free_as_soon_as_a_trial_has_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Queued trials occupy a slot too; other sweeps and ended trials occupy none."""
    full = [make_trial("queued"), make_trial("running"), make_trial("running", "other"), make_trial("succeeded")]
    reads = serve_lists(monkeypatch, full, full, [make_trial("running"), make_trial("succeeded")])
    await_slot(Session(Path("/nowhere"), "dev"), {"search": 2}, 60)
    assert len(reads) == 3
    stderr = [line.strip() for line in capsys.readouterr().err.splitlines()]
    assert stderr == ["search: 2 of 2 slots in use", "search: 1 of 2 slots in use"]


def test_a_job_of_many_takes_as_many_slots_as_it_runs_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a change of the form both kinds of Jobs exist."""
    serve_lists(monkeypatch, [make_trial("running", parallelism=2)])
    with pytest.raises(typer.Exit):
        await_slot(Session(Path("/nowhere"), "dev"), {"search": 2}, 0)
    await_slot(Session(Path("/nowhere"), "dev"), {"search": 3}, 60)


@pytest.mark.parametrize(
    ("waiting", "ups"),
    [
        pytest.param([{}], 0, id="nothing waits"),
        pytest.param([{"search": 3}, {"search": 1}, {}], 2, id="as long as something waits"),
        pytest.param([{"search": 3}, {"search": 3}], 1, id="until nothing more can be launched"),
    ],
)
def test_up_continues_as_slots_become_free(
    monkeypatch: pytest.MonkeyPatch, waiting: list[dict[str, int]], ups: int
) -> None:
    """`up` runs once for each freed slot."""
    settings = make_settings(sweeps=make_sweeps(parallelism=2))
    session: Any = SimpleNamespace(settings=settings, stack="test")
    calls: list[Any] = []
    left = iter(waiting)
    monkeypatch.setattr(up, "outputs", lambda _: {"waitingTrials": next(left)})
    monkeypatch.setattr(up, "await_slot", lambda _session, caps, _seconds: calls.append(caps))
    monkeypatch.setattr(up, "deployment", lambda _: {})
    monkeypatch.setattr(up, "refresh_options", lambda *_: ())
    monkeypatch.setattr(up, "pulumi", lambda *words: calls.append(words[1]))
    up._launch_trials(session)
    assert calls == [{"search": 2}, "up"] * ups


def test_without_a_limit_no_engine_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """No trial can wait for a slot."""
    monkeypatch.delattr(up, "outputs")
    session: Any = SimpleNamespace(settings=make_settings(sweeps=make_sweeps()), stack="test")
    up._launch_trials(session)
