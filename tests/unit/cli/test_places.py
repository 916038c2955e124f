"""Waiting for a place of a sweep whose trials are launched so many at once."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from tests.unit.make import make_settings, make_sweeps
from trainstack.cli import deploy
from trainstack.cli import sweep_slots as places
from trainstack.cli.session import Session
from trainstack.cli.sweep_slots import await_slot


def make_trial(phase: str, sweep: str = "search", **changes: Any) -> dict[str, Any]:
    """The live Job of one trial; with `parallelism` that of many."""
    marks = {"trainstack.dev/run": "r", "trainstack.dev/launch": "r-1", "trainstack.dev/sweep": sweep}
    if not changes:
        marks["trainstack.dev/set"] = "aaaaaaaaaa"
    done = [{"type": "Complete", "status": "True"}] if phase == "succeeded" else []
    meta = {"name": "r-1", "namespace": "n", "creationTimestamp": "2026-01-02T03:04:05Z", "labels": marks}
    spec = {"suspend": phase == "queued", "template": {"spec": {"containers": []}}, **changes}
    return {"kind": "Job", "metadata": meta, "spec": spec, "status": {"conditions": done}}


def looks(monkeypatch: pytest.MonkeyPatch, *found: list[dict[str, Any]]) -> list[int]:
    """Let one look after the other find these; the list counts them."""
    seen: list[int] = []

    def look(_session: Session, _run: str | None) -> list[dict[str, Any]]:
        seen.append(1)
        return found[min(len(seen), len(found)) - 1]

    monkeypatch.setattr(places, "launch_bodies", look)
    monkeypatch.setattr(places, "PAUSE_SECONDS", 0)
    return seen


def test_a_place_is_free_as_soon_as_a_trial_has_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Queued ones take one too; those of other sweeps and what has ended take none."""
    full = [make_trial("queued"), make_trial("running"), make_trial("running", "other"), make_trial("succeeded")]
    seen = looks(monkeypatch, full, full, [make_trial("running"), make_trial("succeeded")])
    await_slot(Session(Path("/nowhere"), "dev"), {"search": 2}, 60)
    assert len(seen) == 3
    said = [line.strip() for line in capsys.readouterr().err.splitlines()]
    assert said == ["search: 2 of 2 slots in use", "search: 1 of 2 slots in use"]


def test_a_job_of_many_takes_as_many_places_as_it_runs_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a change of the form both are there."""
    looks(monkeypatch, [make_trial("running", parallelism=2)])
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
def test_up_goes_on_as_places_get_free(
    monkeypatch: pytest.MonkeyPatch, waiting: list[dict[str, int]], ups: int
) -> None:
    """One `up` for each time that a place is free."""
    settings = make_settings(sweeps=make_sweeps(parallelism=2))
    session: Any = SimpleNamespace(settings=settings, stack="test")
    calls: list[Any] = []
    left = iter(waiting)
    monkeypatch.setattr(deploy, "outputs", lambda _: {"waitingTrials": next(left)})
    monkeypatch.setattr(deploy, "await_slot", lambda _session, caps, _seconds: calls.append(caps))
    monkeypatch.setattr(deploy, "deployment", lambda _: {})
    monkeypatch.setattr(deploy, "refresh_options", lambda *_: ())
    monkeypatch.setattr(deploy, "pulumi", lambda *words: calls.append(words[1]))
    deploy._launch_trials(session)
    assert calls == [{"search": 2}, "up"] * ups


def test_without_a_cap_no_engine_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can wait for a place."""
    monkeypatch.delattr(deploy, "outputs")
    session: Any = SimpleNamespace(settings=make_settings(sweeps=make_sweeps()), stack="test")
    deploy._launch_trials(session)
