"""Hundreds of trials are followed without asking the cluster about each."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.test_places import make_trial
from tests.unit.make import make_settings
from trainstack.cli import runs, status
from trainstack.cli.session import Session
from trainstack.runs.launches import live_launch
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


def make_ended(number: int) -> dict[str, Any]:
    """A run that ended in this minute of an hour."""
    body = make_trial("running", parallelism=1)
    since = f"2026-01-02T04:{number:02}:00Z"
    body["metadata"] = {**body["metadata"], "name": f"r-{number}"}
    body["status"]["conditions"] = [{"type": "Complete", "status": "True", "lastTransitionTime": since}]
    return body


def test_of_many_ended_runs_only_the_last_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """And drawn; the others are counted. All active ones are."""
    ended = [make_ended(number) for number in range(runs.MANY + 5)]
    active = [make_trial("running", parallelism=1) for _ in range(30)]
    views, asked = looked_at(monkeypatch, [*reversed(ended), *active])
    assert asked == [*reversed(ended[5:]), *active]
    assert len(views) == runs.MANY + 5 + 30
    assert [view.launch.name for view in runs.without_earlier(views)[1]] == [f"r-{number}" for number in range(5)]
    _, counted = status._rendered(views, "test", None)
    assert str(counted) == "Not shown: 5 runs that ended earlier (5 succeeded). `--json` has all."
    assert str(status._counted(runs.without_earlier(views)[1][:1])).startswith("Not shown: 1 run that ended earlier")


def test_launches_are_found_again_by_kind_namespace_and_name() -> None:
    """Of two launches of one run, only the chosen one."""
    bodies = [make_ended(1), make_ended(2)]
    assert runs.bodies_of([live_launch(bodies[1])], bodies) == [bodies[1]]


def test_a_trial_that_failed_says_why_without_being_asked_about() -> None:
    """Its own conditions do."""
    body = make_trial("running")
    body["status"]["conditions"] = [
        {"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "too long"}
    ]
    view = bare_view(body)
    assert (view.launch.phase, view.failure) == ("failed", "DeadlineExceeded: too long")
