"""Hundreds of trials are followed without one request for each."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.test_places import make_trial
from tests.unit.make import make_settings
from trainstack.cli import follow, run_selection, run_views
from trainstack.cli.commands import status
from trainstack.cli.session import Session
from trainstack.runs.launches import live_launch
from trainstack.runs.status.run_view import RunView, bare_view


def make_session() -> Session:
    """Return the session of an environment that declares nothing."""
    session = Session(Path("/nowhere"), "test")
    session.__dict__["loaded"] = type("Loaded", (), {"settings": make_settings()})
    return session


def read_views(monkeypatch: pytest.MonkeyPatch, bodies: list[dict[str, Any]]) -> tuple[list[RunView], list[Any]]:
    """Return the views of these launches, and the launches whose details were read."""
    queried: list[Any] = []

    def close(bodies: list[Any], *_: Any, **__: Any) -> list[RunView]:
        queried.extend(bodies)
        return [bare_view(body) for body in bodies]

    monkeypatch.setattr(run_views, "read_launch_views", close)
    return run_views._view_bodies(make_session(), bodies), queried


def test_the_details_of_a_few_trials_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their details are read as those of runs."""
    bodies = [make_trial("running") for _ in range(run_views.MANY)]
    views, queried = read_views(monkeypatch, bodies)
    assert queried == bodies
    assert [line for _, line in follow._summary_lines(views)][:1] == ["r: running"]


def test_of_many_trials_only_their_own_objects_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials are counted; details of a run among them are read and shown as usual."""
    phases = ["queued"] * 12 + ["running"] * 5 + ["succeeded"] * 30
    run = make_trial("running", "other", parallelism=3)
    bodies = [run, *(make_trial(phase) for phase in phases)]
    views, queried = read_views(monkeypatch, bodies)
    assert queried == [run]
    assert len(views) == len(bodies)
    assert [line for _, line in follow._summary_lines(views)] == [
        "r: running",
        "search: 12 queued, 5 running, 30 succeeded",
    ]


def make_ended(number: int) -> dict[str, Any]:
    """Return a run that ended in this minute of an hour."""
    body = make_trial("running", parallelism=1)
    since = f"2026-01-02T04:{number:02}:00Z"
    body["metadata"] = {**body["metadata"], "name": f"r-{number}"}
    body["status"]["conditions"] = [{"type": "Complete", "status": "True", "lastTransitionTime": since}]
    return body


def test_of_many_ended_runs_only_the_last_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last ones are shown, the others are counted. All active runs are shown."""
    ended = [make_ended(number) for number in range(run_views.MANY + 5)]
    active = [make_trial("running", parallelism=1) for _ in range(30)]
    views, queried = read_views(monkeypatch, [*reversed(ended), *active])
    assert queried == [*reversed(ended[5:]), *active]
    assert len(views) == run_views.MANY + 5 + 30
    assert [view.launch.name for view in run_views.split_off_earlier(views)[1]] == [
        f"r-{number}" for number in range(5)
    ]
    _, counted = status._render(views, "test", None)
    assert str(counted) == "Not shown: 5 runs that ended earlier (5 succeeded). `--json` has all."
    assert str(status._count_earlier(run_views.split_off_earlier(views)[1][:1])).startswith(
        "Not shown: 1 run that ended earlier"
    )


def test_launches_are_found_again_by_kind_namespace_and_name() -> None:
    """Only the chosen one of two launches of a run is found."""
    bodies = [make_ended(1), make_ended(2)]
    assert run_selection.bodies_of([live_launch(bodies[1])], bodies) == [bodies[1]]


def test_a_failed_trial_has_its_reason_without_another_request() -> None:
    """The conditions of the trial have the reason."""
    body = make_trial("running")
    body["status"]["conditions"] = [
        {"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "too long"}
    ]
    view = bare_view(body)
    assert (view.launch.phase, view.failure) == ("failed", "DeadlineExceeded: too long")
