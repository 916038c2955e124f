"""The front end, the runner and the descriptions."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import bench.__main__
from bench.__main__ import chosen, main, measure
from bench.case import Arm, Case, Scene
from bench.cases import CASES
from bench.results import Results
from bench.runner import rotated, run
from tests.unit.bench.make import make_command


def make_scene(scratch: Path, *, short: bool = False) -> Scene:
    """Return a folder without a cluster."""
    return Scene(folder=scratch, environment={}, scratch=scratch, short=short)


def test_arms_are_measured_in_turn(tmp_path: Path) -> None:
    """Each has one warm-up; each round starts with another arm; what they created is removed."""
    turns: list[str] = []

    @contextmanager
    def arms(_: Scene) -> Iterator[list[Arm]]:
        names = ("a", "b")
        yield [Arm(name=n, command=make_command("pass"), prepare=partial(turns.append, n)) for n in names]
        turns.append("end")

    case = Case(id="x", title="X", subject="files", place="files", arms=arms, rounds=2, short_rounds=1)
    lines: list[str] = []
    result = run(case, make_scene(tmp_path), lines.append)
    assert turns == ["a", "b", "b", "a", "a", "b", "end"]
    assert [len(arm.samples) for arm in result.arms] == [2, 2]
    assert lines[1:4] == ["x: warm-up: a", "x: warm-up: b", "x: round 1 of 2: b"]
    result = run(case, make_scene(tmp_path, short=True), lines.append)
    assert [len(arm.samples) for arm in result.arms] == [1, 1]


def test_the_order_of_arms_rotates() -> None:
    assert [rotated("abc", number) for number in range(4)] == [list("abc"), list("bca"), list("cab"), list("abc")]


def test_ids_are_unique_and_at_one_place_after_another() -> None:
    """Each place is set up once. Ratios of the short form are of at least three pairs."""
    assert len({case.id for case in CASES}) == len(CASES)
    places = [case.place for case in CASES]
    assert places == sorted(places, key=("files", "cluster", "bare", "simulated").index)
    assert all(case.short_rounds == 0 or case.short_rounds >= 3 for case in CASES)


def test_cases_are_chosen_by_their_ids() -> None:
    """The default is all cases, for the short form its own; an unknown id is an error."""
    assert chosen([], short=False) == [*CASES]
    assert [case.id for case in chosen(["check", "help"], short=False)] == ["help", "check"]
    assert all(case.short_rounds for case in chosen([], short=True))
    with pytest.raises(typer.BadParameter, match="unknown: nonsense; the cases are "):
        chosen(["nonsense"], short=False)


def test_the_command_lists_the_cases() -> None:
    """Its options are valid, and it measures nothing."""
    app = typer.Typer()
    app.command()(main)
    result = CliRunner().invoke(app, ["--list"])
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == [case.id for case in CASES]
    assert "Usage: " in CliRunner().invoke(app, ["--help"]).stdout


def test_a_case_that_fails_does_not_stop_the_others() -> None:
    """The command fails at the end; measured results are kept."""

    def make_case(identifier: str, program: str) -> Case:
        @contextmanager
        def arms(_: Scene) -> Iterator[list[Arm]]:
            yield [Arm(name="a", command=make_command(program))]

        return Case(id=identifier, title="X", subject="files", place="files", arms=arms, rounds=1, warm_up=False)

    cases = [make_case("wrong", "raise SystemExit(3)"), make_case("right", "pass")]
    kept: list[Results] = []
    failures: list[str] = []
    results = measure(cases, short=False, keep=kept.append, failed=failures.append)
    assert [case.id for case in results.cases] == [case.id for stored in kept for case in stored.cases] == ["right"]
    (failure,) = failures
    assert failure.startswith("wrong: ")
    assert "exited with 3" in failure


def test_sigterm_removes_what_a_case_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt does the same; otherwise the cluster would keep running."""
    removed: list[str] = []

    @contextmanager
    def arms(_: Scene) -> Iterator[list[Arm]]:
        try:
            yield [Arm(name="a", command=make_command("pass"), prepare=partial(os.kill, os.getpid(), signal.SIGTERM))]
        finally:
            removed.append("a")

    monkeypatch.setattr(bench.__main__, "CASES", [Case(id="x", title="X", subject="files", place="files", arms=arms)])
    app = typer.Typer()
    app.command()(main)
    before = signal.getsignal(signal.SIGTERM)
    try:
        result = CliRunner().invoke(app, [])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert result.exit_code != 0
    assert removed == ["a"]
