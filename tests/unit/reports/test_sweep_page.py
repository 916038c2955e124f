"""The report of a sweep: what is on its page and in its pictures."""

import math
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure

from tests.unit.reports.test_pictures import Page, words
from tests.unit.trials.make import fail, make_digits_space, make_mixed_space, make_results, make_trial
from trainstack.reports import charts
from trainstack.reports.panels import Bars
from trainstack.reports.parallel import Parallel, Track
from trainstack.reports.scales import Scale, readable
from trainstack.reports.sweep_figures import NAMED, pictures
from trainstack.reports.sweep_page import Sweep, html, pngs
from trainstack.reports.sweep_panels import Curves, Points
from trainstack.settings.search_space.space import Space
from trainstack.sweeps.search.importance import importance
from trainstack.sweeps.search.ranking import rank
from trainstack.sweeps.search.results import TrialResult


def make_sweep(space: Space | None = None, results: Sequence[TrialResult] | None = None, **changes: Any) -> Sweep:
    """The sweep of 4 by 3 sets, of which trial 5 has failed."""
    space = space or make_digits_space()
    if results is None:
        results = [fail(each) if each.number == 5 else each for each in make_results(space)]
    ranking = rank(results, space.objective)
    given = {"name": "digits", "space": space, "results": results, "ranking": ranking}
    return Sweep(**{**given, "importance": importance(space, ranking), **changes})


@cache
def page() -> str:
    """The page of this sweep, which takes half a second to draw."""
    return html(make_sweep())


def test_the_page_is_one_file_that_loads_nothing() -> None:
    """No script, style sheet, font or picture from elsewhere; ids are unique over all its pictures."""
    text = page()
    read = Page(text)
    assert (read.loads, read.tags & {"script", "link", "iframe", "object", "img"}) == ([], set())
    assert re.findall(r"@import|url\((?!#)", text) == []
    assert len(read.ids) == len({*read.ids})


def test_the_page_follows_the_readers_colours() -> None:
    """Every colour of its pictures is a variable, which both schemes set."""
    text = html(make_sweep(make_mixed_space(30)))
    drawn = "".join(re.findall(r"<svg.*?</svg>", text, re.DOTALL))
    assert re.findall(r"#[0-9a-fA-F]{6}\b", drawn) == []
    used = {*re.findall(r"var\((--[a-z0-9-]+)\)", text)}
    light, dark = ({*re.findall(r"(--[a-z0-9-]+):", scheme)} for scheme in re.findall(r":root \{([^}]*)\}", text))
    assert used <= light == dark


def test_the_page_says_which_is_the_best_and_looks_at_its_test_data_alone() -> None:
    """Of 12 trials that all know their test accuracy, one is told."""
    sweep = make_sweep()
    best = sweep.ranking.best
    assert best is not None
    text = page()
    assert "12 trials: 11 succeeded, 1 failed." in text
    assert f"The best is trial {best.result.number} ({best.result.run_id}): val_accuracy {best.value:.6g}" in text
    assert re.findall(r"test_accuracy ([\d.]+)", text) == [f"{0.5 + best.result.number / 1000:.6g}."]


def test_failed_trials_are_on_the_page_with_what_they_printed_last() -> None:
    """As text, whatever it is; with many, the further ones are folded."""
    space = make_digits_space()
    lines = ("<script>alert(1)</script>", "ValueError: no")
    failed = [fail(each, last_lines=lines) for each in make_results(space)]
    text = html(make_sweep(space, failed))
    assert "<script>" not in text
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;\nValueError: no") == 12
    assert "Trial 12 (digits-000000000c): crashed (exit 1)" in text
    assert "<summary>2 more</summary>" in text
    assert "No trial has succeeded and reported that metric yet, so there is no best trial." in text
    assert [*pictures(space, rank(failed, space.objective), {})] == ["learning-curves"]


def test_the_pictures_are_named_files() -> None:
    """One for each kind, all panels of the parameters in one."""
    found = pngs(make_sweep())
    assert [*found] == ["learning-curves.png", "parallel-coordinates.png", "importance.png", "parameters.png"]
    assert all(content.startswith(b"\x89PNG") for content in found.values())


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("values", [(0.5,), (0.5, 0.5), (0.4, 0.5, 0.6, 0.7, 1e9)])
def test_there_is_room_for_all_pictures_of_few_trials(values: tuple[float, ...]) -> None:
    """One trial, equal values, a value that runs away: matplotlib warns where no room is left for a plot."""
    trials = [
        make_trial(number, (value,), parameters={"batch_size": 16, "lr": (0.01, 0.05, 0.1)[number % 3]})
        for number, value in enumerate(values, 1)
    ]
    names = {"learning-curves.png", "parallel-coordinates.png", "parameters.png"}
    assert {*pngs(make_sweep(results=trials))} == (names if len(values) > 1 else {"learning-curves.png"})


def test_a_sweep_of_which_nothing_is_known_has_a_page_without_pictures() -> None:
    """Nothing has begun."""
    space = make_digits_space()
    waiting = [make_trial(number, metrics=(), state="waiting") for number in range(1, 13)]
    sweep = make_sweep(space, waiting)
    assert pngs(sweep) == {}
    assert "12 trials: 12 waiting." in html(sweep)
    assert "Importance is not shown" in html(sweep)


def test_each_parameter_has_the_scale_that_the_space_gives_it() -> None:
    """Listed values in their order, logarithms where they are drawn so; a set that lacks one has no point."""
    space = make_mixed_space()
    sweep = make_sweep(space, make_results(space))
    (parallel,) = pictures(space, sweep.ranking, {})["parallel-coordinates"]
    assert isinstance(parallel, Parallel)
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
    with_momentum = sum(each.parameters["optimizer"] == "sgd" for each in sweep.results)
    momentum = pictures(space, sweep.ranking, {})["parameters"][3]
    assert isinstance(momentum, Points)
    assert len(momentum.points) == with_momentum < 200
    assert sum(track.values[3] is None for track in parallel.tracks) == 200 - with_momentum


def test_the_best_stands_out_in_every_picture() -> None:
    """The first curve with a name, the strongest line, the marked point."""
    sweep = make_sweep()
    best = sweep.ranking.best
    assert best is not None
    drawn = pictures(sweep.space, sweep.ranking, sweep.importance)
    (curves,), (parallel,) = drawn["learning-curves"], drawn["parallel-coordinates"]
    assert isinstance(curves, Curves)
    assert isinstance(parallel, Parallel)
    assert curves.curves[0].name == f"trial {best.result.number}"
    assert curves.curves[0].compared == (best.epoch, best.value)
    assert sum(bool(curve.name) for curve in curves.curves) == NAMED
    assert [track.values[-1] for track in parallel.tracks if track.best] == [best.value]
    assert max(track.strength for track in parallel.tracks) == 1
    for panel in drawn["parameters"]:
        assert isinstance(panel, Points)
        assert panel.best is not None
        assert panel.best.y == best.value


def test_importance_is_shown_in_percent() -> None:
    """The greatest first, as it is given."""
    (panel,) = pictures(make_digits_space(), make_sweep().ranking, {"lr": 0.956, "batch_size": 0.044})["importance"]
    assert isinstance(panel, Bars)
    assert [(group.name, group.bars[0].text) for group in panel.groups] == [("lr", "96 %"), ("batch_size", "4 %")]


def test_a_parameter_that_is_always_the_same_is_left_out() -> None:
    """There is nothing to be seen of it."""
    space = make_digits_space(parameters={"lr": {"values": [0.01, 0.1]}, "batch_size": {"values": [32]}})
    drawn = pictures(space, rank(make_results(space), space.objective), {})
    assert [panel.title for panel in drawn["parameters"]] == ["val_accuracy against lr"]


def test_an_epoch_that_is_told_twice_has_the_dot_of_the_line_that_counts() -> None:
    """A program may write several lines in an epoch, and the last of them is not always its best."""
    lines = [{"epoch": epoch, "val_accuracy": value} for epoch, value in ((1, 0.5), (2, 0.9), (2, 0.8))]
    ranking = rank([make_trial(metrics=tuple(lines))], make_digits_space().objective)
    (curves,) = pictures(make_digits_space(), ranking, {})["learning-curves"]
    assert isinstance(curves, Curves)
    assert curves.curves[0].compared == (2, 0.9)


def test_a_curve_of_numbers_that_run_away_does_not_squeeze_the_others() -> None:
    """They are cut off, and that is said; what is not finite is a gap."""
    space = make_digits_space(objective={"metric": "val_loss", "direction": "minimize"})

    def losses(number: int) -> list[float]:
        return [10.0**epoch if number == 3 else 1 / epoch + number / 50 for epoch in range(1, 7)]

    results = [
        make_trial(
            each.number,
            parameters=each.parameters,
            metrics=tuple(
                {"epoch": epoch, "val_loss": loss} for epoch, loss in enumerate([*losses(each.number), math.nan], 1)
            ),
        )
        for each in make_results(space)
    ]
    drawn = pictures(space, rank(results, space.objective), {})
    found = words(charts.svg(drawn["learning-curves"][0], "curves"))
    assert "val_loss; dot: compared value; some curves are cut" in found
    numbers = [float(text) for text in found if re.fullmatch(r"[\d.]+", text)]
    assert max(numbers) < 10
    points = words(charts.svg(drawn["parameters"][0], "points"))
    assert "val_loss; \u25b2 \u25bc out of range" in points


@pytest.mark.parametrize(
    ("values", "shown", "ends"),
    [
        ([1, 2, 3, 4], [], (1, 4)),
        ([*range(100), 1e9], [], (0, 99)),
        ([*range(100), 1e9], [200], (0, 200)),
        ([-1e9, *range(100)], [], (0, 99)),
        ([5, 5, 5, 5, 1e9], [], (5, 1e9)),
        ([7], [], (7, 7)),
    ],
)
def test_what_runs_away_is_beyond_the_scale(values: list[float], shown: list[float], ends: tuple[float, float]) -> None:
    """As far as it is far beyond the range of the others; what must be shown is."""
    assert readable(values, shown) == ends


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
    """As they are written in a file, also on logarithmic scales."""
    with mpl.rc_context(charts.STYLE):
        axes = Figure().add_subplot()
        Scale(name="lr", kind=kind, whole=whole).mark(axes, low, high)
        shown = [(label.get_position()[0], label.get_text()) for label in axes.get_xticklabels()]
    assert [text for place, text in shown if low <= place <= high * 1.001] == marked


def test_names_of_parameters_are_text() -> None:
    """No formula and no markup, and a name as long as one likes."""
    name = "$x_1$<b>" + "n" * 60
    parameters = {name: {"categorical": ["a" * 40, "$b$", "<i>"]}, "lr": {"uniform": {"low": 0, "high": 1}}}
    space = make_digits_space(method="random", trials=5, parameters=parameters)
    text = html(make_sweep(space, make_results(space, good=lambda given: float(given["lr"]))))
    assert "<b>" not in text.replace("<body>", "")
    assert "<i>" not in text


def test_a_track_lies_within_its_picture() -> None:
    """Also with a value that is far off, and with a scale of one value."""
    scales = (Scale(name="a", kind="listed", labels=("x",)), Scale(name="loss", kind="linear", cut=True))
    tracks = tuple(Track(values=("x", value), strength=0.5) for value in (*range(50), 1e12))
    drawn = charts.svg(Parallel(title="t", subtitle="w", scales=scales, tracks=tracks), "picture")
    xs = [float(x) for path in re.findall(r' d="([^"]+)"', drawn) for x in re.findall(r"[ML] ([-\d.]+) ", path)]
    assert min(xs) >= -1
    assert max(xs) <= 401


def test_the_same_results_give_the_same_page() -> None:
    """No time and no chance is in it."""
    assert html(make_sweep()) == page()
