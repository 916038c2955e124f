"""The report of a sweep: the content of its page and its pictures."""

import math
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure

from tests.unit.reports.test_pictures import Page, words
from tests.unit.sweeps.search.make import fail, make_digits_space, make_mixed_space, make_results, make_trial
from trainstack.reports import charts
from trainstack.reports.panels import BarPanel
from trainstack.reports.parallel_panel import ParallelPanel, TrialLine
from trainstack.reports.scales import Scale, readable_range
from trainstack.reports.sweep_figures import NAMED_CURVES, sweep_pictures
from trainstack.reports.sweep_page import SweepResults, html, pngs
from trainstack.reports.sweep_panels import CurvePanel, PointPanel
from trainstack.settings.search_space.space import Space
from trainstack.sweeps.search.importance import importance
from trainstack.sweeps.search.ranking import rank
from trainstack.sweeps.search.results import TrialResult


def make_sweep(
    space: Space | None = None, results: Sequence[TrialResult] | None = None, **changes: Any
) -> SweepResults:
    """Return the sweep of 4 by 3 sets, of which trial 5 has failed."""
    space = space or make_digits_space()
    if results is None:
        results = [fail(result) if result.number == 5 else result for result in make_results(space)]
    ranking = rank(results, space.objective)
    options = {"name": "digits", "space": space, "results": results, "ranking": ranking}
    return SweepResults(**{**options, "importance": importance(space, ranking), **changes})


@cache
def page() -> str:
    """Draw the page of this sweep, which takes half a second."""
    return html(make_sweep())


def test_the_page_is_one_file_that_loads_nothing() -> None:
    """No script, style sheet, font or picture is external; ids are unique over all its pictures."""
    text = page()
    read = Page(text)
    assert (read.loads, read.tags & {"script", "link", "iframe", "object", "img"}) == ([], set())
    assert re.findall(r"@import|url\((?!#)", text) == []
    assert len(read.ids) == len({*read.ids})


def test_the_page_follows_the_readers_colours() -> None:
    """Every colour of its pictures is a variable, which both schemes set."""
    text = page()
    mixed = make_mixed_space(30)
    (parallel,) = sweep_pictures(mixed, rank(make_results(mixed), mixed.objective), {})["parallel-coordinates"]
    drawn = "".join([*re.findall(r"<svg.*?</svg>", text, re.DOTALL), charts.svg(parallel, "incomplete")])
    assert re.findall(r"#[0-9a-fA-F]{6}\b", drawn) == []
    used = {*re.findall(r"var\((--[a-z0-9-]+)\)", text + drawn)}
    light, dark = ({*re.findall(r"(--[a-z0-9-]+):", scheme)} for scheme in re.findall(r":root \{([^}]*)\}", text))
    assert used <= light == dark


def test_the_page_names_the_best_and_reads_its_test_data_alone() -> None:
    """Of 12 trials with test accuracies, only the best trial's is shown."""
    sweep = make_sweep()
    best = sweep.ranking.best
    assert best is not None
    text = page()
    assert "12 trials: 11 succeeded, 1 failed." in text
    assert f"The best is trial {best.result.number} ({best.result.run_id}): val_accuracy {best.value:.6g}" in text
    assert re.findall(r"test_accuracy ([\d.]+)", text) == [f"{0.5 + best.result.number / 1000:.6g}."]


def test_failed_trials_are_on_the_page_with_what_they_printed_last() -> None:
    """The lines are text; of many trials, the later ones are folded."""
    space = make_digits_space()
    lines = ("<script>alert(1)</script>", "ValueError: no")
    failed = [fail(result, last_lines=lines) for result in make_results(space)]
    text = html(make_sweep(space, failed))
    assert "<script>" not in text
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;\nValueError: no") == 12
    assert "Trial 12 (digits-000000000c): crashed (exit 1)" in text
    assert "<summary>2 more</summary>" in text
    assert "No trial has succeeded and reported that metric yet, so there is no best trial." in text
    assert [*sweep_pictures(space, rank(failed, space.objective), {})] == ["learning-curves"]


def test_the_pictures_are_named_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kind has one file, with all parameters in the same."""
    monkeypatch.setattr(charts, "png", lambda panels: bytes(len(panels)))
    assert {name: len(drawn) for name, drawn in pngs(make_sweep()).items()} == {
        "learning-curves.png": 1,
        "parallel-coordinates.png": 1,
        "importance.png": 1,
        "parameters.png": 2,
    }


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize(
    "values", [(0.5,), pytest.param((0.5, 0.5), marks=pytest.mark.slow), (0.4, 0.5, 0.6, 0.7, 1e9)]
)
def test_there_is_room_for_all_pictures_of_few_trials(values: tuple[float, ...]) -> None:
    """The cases are one trial, equal values, and a value far off: matplotlib warns if no room is left for a plot."""
    trials = [
        make_trial(number, (value,), parameters={"batch_size": 16, "lr": (0.01, 0.05, 0.1)[number % 3]})
        for number, value in enumerate(values, 1)
    ]
    names = {"learning-curves.png", "parallel-coordinates.png", "parameters.png"}
    found = pngs(make_sweep(results=trials))
    assert {*found} == (names if len(values) > 1 else {"learning-curves.png"})
    assert all(content.startswith(b"\x89PNG") for content in found.values())


def test_a_sweep_of_which_nothing_is_known_has_a_page_without_pictures() -> None:
    """No trial has started."""
    space = make_digits_space()
    waiting = [make_trial(number, metrics=(), state="waiting") for number in range(1, 13)]
    sweep = make_sweep(space, waiting)
    assert pngs(sweep) == {}
    assert "12 trials: 12 waiting." in html(sweep)
    assert "Importance is not shown" in html(sweep)


def test_each_parameter_has_the_scale_that_the_space_gives_it() -> None:
    """Listed values keep their order, logarithmic draws have a logarithmic scale; a set may lack a point."""
    space = make_mixed_space()
    sweep = make_sweep(space, make_results(space))
    (parallel,) = sweep_pictures(space, sweep.ranking, {})["parallel-coordinates"]
    assert isinstance(parallel, ParallelPanel)
    assert [(scale.name, scale.kind) for scale in parallel.scales] == [
        ("lr", "log"),
        ("batch_size", "listed"),
        ("optimizer", "listed"),
        ("momentum", "linear"),
        ("layers", "linear"),
        ("nesterov", "listed"),
        ("val_accuracy", "linear"),
    ]
    assert parallel.scales[1].labels == ("16", "32", "64", "128", "512")
    assert parallel.scales[5].labels == ("true", "false")
    with_momentum = sum(result.parameters["optimizer"] == "sgd" for result in sweep.results)
    momentum = sweep_pictures(space, sweep.ranking, {})["parameters"][3]
    assert isinstance(momentum, PointPanel)
    assert len(momentum.points) == with_momentum < 200
    assert sum(track.values[3] is None for track in parallel.trial_lines) == 200 - with_momentum


def test_the_best_stands_out_in_every_picture() -> None:
    """It has the first named curve, the strongest line and the marked point."""
    sweep = make_sweep()
    best = sweep.ranking.best
    assert best is not None
    drawn = sweep_pictures(sweep.space, sweep.ranking, sweep.importance)
    (curves,), (parallel,) = drawn["learning-curves"], drawn["parallel-coordinates"]
    assert isinstance(curves, CurvePanel)
    assert isinstance(parallel, ParallelPanel)
    assert curves.curves[0].name == f"trial {best.result.number}"
    assert curves.curves[0].compared_point == (best.epoch, best.value)
    assert sum(bool(curve.name) for curve in curves.curves) == NAMED_CURVES
    assert [track.values[-1] for track in parallel.trial_lines if track.is_best] == [best.value]
    assert max(track.strength for track in parallel.trial_lines) == 1
    for panel in drawn["parameters"]:
        assert isinstance(panel, PointPanel)
        assert panel.best is not None
        assert panel.best.y == best.value


def test_importance_is_shown_in_percent() -> None:
    """The greatest is first; the order is that of the input."""
    (panel,) = sweep_pictures(make_digits_space(), make_sweep().ranking, {"lr": 0.956, "batch_size": 0.044})[
        "importance"
    ]
    assert isinstance(panel, BarPanel)
    assert [(group.name, group.bars[0].text) for group in panel.groups] == [("lr", "96 %"), ("batch_size", "4 %")]


def test_a_parameter_that_is_always_the_same_is_left_out() -> None:
    """It shows no information."""
    space = make_digits_space(parameters={"lr": {"values": [0.01, 0.1]}, "batch_size": {"values": [32]}})
    drawn = sweep_pictures(space, rank(make_results(space), space.objective), {})
    assert [panel.title for panel in drawn["parameters"]] == ["val_accuracy against lr"]


def test_an_epoch_with_two_lines_has_the_dot_of_the_line_that_counts() -> None:
    """A program may write several lines in an epoch, and the last of them is not always its best."""
    lines = [{"epoch": epoch, "val_accuracy": value} for epoch, value in ((1, 0.5), (2, 0.9), (2, 0.8))]
    ranking = rank([make_trial(metrics=tuple(lines))], make_digits_space().objective)
    (curves,) = sweep_pictures(make_digits_space(), ranking, {})["learning-curves"]
    assert isinstance(curves, CurvePanel)
    assert curves.curves[0].compared_point == (2, 0.9)


def test_a_curve_of_numbers_that_run_away_does_not_squeeze_the_others() -> None:
    """Extreme values are cut off with a note; infinite ones are gaps."""
    space = make_digits_space(objective={"metric": "val_loss", "direction": "minimize"})

    def losses(number: int) -> list[float]:
        return [10.0**epoch if number == 3 else 1 / epoch + number / 50 for epoch in range(1, 7)]

    results = [
        make_trial(
            result.number,
            parameters=result.parameters,
            metrics=tuple(
                {"epoch": epoch, "val_loss": loss} for epoch, loss in enumerate([*losses(result.number), math.nan], 1)
            ),
        )
        for result in make_results(space)
    ]
    drawn = sweep_pictures(space, rank(results, space.objective), {})
    found = words(charts.svg(drawn["learning-curves"][0], "curves"))
    assert "val_loss; dot: compared value; some curves are cut" in found
    numbers = [float(text) for text in found if re.fullmatch(r"[\d.]+", text)]
    assert max(numbers) < 10
    points = words(charts.svg(drawn["parameters"][0], "points"))
    assert "val_loss; \u25b2 \u25bc out of range" in points


@pytest.mark.parametrize(
    ("values", "required", "ends"),
    [
        ([1, 2, 3, 4], [], (1, 4)),
        ([*range(100), 1e9], [], (0, 99)),
        ([*range(100), 1e9], [200], (0, 200)),
        ([-1e9, *range(100)], [], (0, 99)),
        ([5, 5, 5, 5, 1e9], [], (5, 1e9)),
        ([7], [], (7, 7)),
    ],
)
def test_what_runs_away_is_beyond_the_scale(
    values: list[float], required: list[float], ends: tuple[float, float]
) -> None:
    """Values far outside the range of the others are; required values are not."""
    assert readable_range(values, required) == ends


@pytest.mark.parametrize(
    ("kind", "whole", "low", "high", "marked"),
    [
        ("log", False, 1e-4, 1.0, ["0.0001", "0.001", "0.01", "0.1", "1"]),
        ("log", False, 0.02, 0.9, ["0.02", "0.05", "0.1", "0.2", "0.5"]),
        ("log", False, 0.02, 0.1, ["0.02", "0.04", "0.06", "0.08", "0.1"]),
        ("log", False, 1e-12, 1.0, ["1e-11", "1e-09", "1e-07", "1e-05", "0.001", "0.1"]),
        ("linear", True, 1, 4, ["1", "2", "3", "4"]),
        ("linear", False, 0.5, 0.5, ["0.5"]),
    ],
)
def test_a_scale_marks_a_few_round_numbers(
    kind: Literal["linear", "log"], low: float, high: float, marked: list[str], *, whole: bool
) -> None:
    """Marks are written as in a file, also on logarithmic scales."""
    with mpl.rc_context(charts.STYLE):
        axes = Figure().add_subplot()
        Scale(name="lr", kind=kind, is_integer=whole).set_ticks(axes, low, high)
        marks = [(label.get_position()[0], label.get_text()) for label in axes.get_xticklabels()]
    assert [text for place, text in marks if low <= place <= high * 1.001] == marked


def test_a_track_is_within_its_picture() -> None:
    """The same holds for a value far off, and for a scale of one value."""
    scales = (Scale(name="a", kind="listed", labels=("x",)), Scale(name="loss", kind="linear", excludes_outliers=True))
    tracks = tuple(TrialLine(values=("x", value), strength=0.5) for value in (*range(50), 1e12))
    drawn = charts.svg(ParallelPanel(title="t", subtitle="w", scales=scales, trial_lines=tracks), "picture")
    xs = [float(x) for path in re.findall(r' d="([^"]+)"', drawn) for x in re.findall(r"[ML] ([-\d.]+) ", path)]
    assert min(xs) >= -1
    assert max(xs) <= 401


def test_the_same_results_give_the_same_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """It depends on neither time nor chance; test_pictures.py shows that equal panels have equal pictures."""
    monkeypatch.setattr(charts, "svg", lambda panel, identifier: f"{identifier}: {panel}")
    assert html(make_sweep()) == html(make_sweep())
