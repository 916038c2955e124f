"""Hundreds of trials are followed without asking the cluster about each."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.test_places import make_trial
from tests.unit.make import make_settings
from trainstack.cli import runs
from trainstack.cli.session import Session
from trainstack.runs.status.run_view import RunView, bare_view


def make_session() -> Session:
    """Of an environment that declares nothing."""
    session = Session(Path("/nowhere"), "test")
    session.__dict__["loaded"] = type("Loaded", (), {"settings": make_settings()})
    return session


def looked_at(monkeypatch: pytest.MonkeyPatch, bodies: list[dict[str, Any]]) -> tuple[list[RunView], list[Any]]:
    """The views of these launches, and those among them that the cluster was asked about."""
    asked: list[Any] = []

    def close(found: list[Any], *_: Any, **__: Any) -> list[RunView]:
        asked.extend(found)
        return [bare_view(body) for body in found]

    monkeypatch.setattr(runs, "view_runs", close)
    return runs._viewed(make_session(), bodies), asked


def test_a_few_trials_are_looked_at_closely(monkeypatch: pytest.MonkeyPatch) -> None:
    """As runs are."""
    bodies = [make_trial("running") for _ in range(runs.MANY)]
    views, asked = looked_at(monkeypatch, bodies)
    assert asked == bodies
    assert [line for _, line in runs._lines(views)][:1] == ["r: running"]


def test_of_many_their_own_objects_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """And they are counted; a run among them is looked at and told as ever."""
    phases = ["queued"] * 12 + ["running"] * 5 + ["succeeded"] * 30
    run = make_trial("running", "other", parallelism=3)
    bodies = [run, *(make_trial(phase) for phase in phases)]
    views, asked = looked_at(monkeypatch, bodies)
    assert asked == [run]
    assert len(views) == len(bodies)
    assert [line for _, line in runs._lines(views)] == [
        "r: running",
        "search: 12 queued, 5 running, 30 succeeded",
    ]


def test_a_trial_that_failed_says_why_without_being_asked_about() -> None:
    """Its own conditions do."""
    body = make_trial("running")
    body["status"]["conditions"] = [
        {"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "too long"}
    ]
    view = bare_view(body)
    assert (view.launch.phase, view.failure) == ("failed", "DeadlineExceeded: too long")
