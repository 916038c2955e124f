"""Pictures and the page: their content, and that they are self-contained."""

import re
import xml.etree.ElementTree as ET
from functools import cache
from html.parser import HTMLParser

import pytest
from matplotlib.figure import Figure

from tests.unit.reports.make import make_run
from trainstack.reports import charts, comparison_charts
from trainstack.reports.comparison import compare
from trainstack.reports.errors import ReportError
from trainstack.reports.panels import Bar, BarGroup, BarPanel, Line, LinePanel
from trainstack.runs.logs.training_log import Epoch, TrainingLog

RUNS = [make_run("alone", steps=24, seconds=0.6), make_run("together", world=3, steps=8, seconds=0.25)]
LINES = LinePanel(
    title="Loss",
    y_axis="mean",
    lines=(
        Line(name="one", color=0, points={1: 2.0, 2: float("nan"), 3: 0.50001}),
        Line(name="$two$ <&>", color=9, points={1: 2.0, 2: 1.0, 3: 0.5}),
    ),
)


@cache
def page() -> str:
    """Draw the page of these runs, which takes half a second."""
    return comparison_charts.html(compare(RUNS))


def words(svg: str) -> dict[str, tuple[float, float]]:
    """Return the texts of a picture with their places."""
    places = {}
    for text in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        numbers = re.search(r"translate\(([\d.]+) ([\d.]+)\)", text.get("transform", "")) or re.match("()()", "")
        x, y = text.get("x") or (numbers and numbers[1]), text.get("y") or (numbers and numbers[2])
        places["".join(text.itertext())] = (float(x or 0), float(y or 0))
    return places


class Page(HTMLParser):
    """A parser of a page: the files that a browser would load for it, and its ids."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.ids: list[str] = []
        self.tags: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record the tag and its attributes."""
        self.tags.add(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "srcset", "data") and not (value or "").startswith("#"):
                self.loads.append(value or "")
            if name == "id":
                self.ids.append(value or "")


def test_the_page_is_one_file_that_loads_nothing() -> None:
    """No script, style sheet, font or picture is external; ids are unique over all its pictures."""
    text = page()
    read = Page(text)
    assert (read.loads, read.tags & {"script", "link", "iframe", "object", "img"}) == ([], set())
    assert re.findall(r"@import|url\((?!#)", text) == []
    assert len(read.ids) == len({*read.ids})
    targets = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text)
    assert {first or second for first, second in targets} <= {*read.ids}


def test_the_page_follows_the_readers_colours() -> None:
    """Every colour of its pictures is a variable, which both schemes set."""
    text = page()
    drawn = "".join(re.findall(r"<svg.*?</svg>", text, re.DOTALL))
    assert re.findall(r"#[0-9a-fA-F]{6}\b", drawn) == []
    used = {*re.findall(r"var\((--[a-z0-9-]+)\)", text)}
    light, dark = ({*re.findall(r"(--[a-z0-9-]+):", scheme)} for scheme in re.findall(r":root \{([^}]*)\}", text))
    assert used <= light == dark


def test_a_picture_file_follows_the_readers_colours() -> None:
    """Its panels are below each other, and it has all colors of both schemes itself."""
    bars = BarPanel(title="Bars", axis="s", groups=(BarGroup(name="n", color=0, bars=(Bar(value=1, text="1 s"),)),))
    text = charts.svg_file([LINES, bars])
    places = words(text)
    assert places["Bars"][1] > places["Loss"][1] + LINES.height - 60
    style, drawn = re.fullmatch(r".*?<style>(.*?)</style>(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    assert re.findall(r"#[0-9a-fA-F]{6}\b", drawn) == []
    schemes = [
        dict(re.findall(r"(--[a-z0-9-]+):([^;]+);", scheme)) for scheme in re.findall(r":root\{([^}]*)\}", style)
    ]
    assert schemes == [
        charts.css_variables(),
        charts.css_variables(dark=True),
    ]
    assert (Page(text).loads, charts.svg_file([LINES, bars])) == ([], text)


def test_each_figure_of_the_comparison_is_on_the_page() -> None:
    """The figures are text, which can be searched and read aloud."""
    text = page()
    assert all(
        figure in text for figure in ("alone-0123456789", "48", "16", "2.40", "0.9900", "0.6 s", "0.25 s (2.40\u00d7)")
    )
    assert [panel.title for panel in comparison_charts.comparison_panels(compare(RUNS))] == [
        "Steps taken by each replica",
        "Time per epoch",
        "Accuracy after each epoch",
        "Loss after each epoch",
    ]


def test_a_panel_without_data_is_left_out() -> None:
    """A run whose logs are in an unknown format has a page nevertheless."""
    empty = make_run("foreign", epochs={}, logs={0: TrainingLog(epochs={})}, test_loss=None, test_accuracy=None)
    assert comparison_charts.comparison_panels(compare([empty, empty])) == []
    assert "Unknown" in comparison_charts.html(compare([empty, empty]))
    with pytest.raises(ReportError, match="none of the runs"):
        comparison_charts.png(compare([empty, empty]))


def test_many_replicas_share_a_bar_where_their_steps_are_equal() -> None:
    """Up to eight replicas have a bar each."""
    logs = {rank: TrainingLog(epochs={1: Epoch(steps=8 if rank < 60 else 7)}) for rank in range(64)}
    many, few = make_run("many", world=64, logs=logs), make_run("few", world=8)
    (steps, *_) = comparison_charts.comparison_panels(compare([many, few]))
    assert isinstance(steps, BarPanel)
    assert [bar.label for bar in steps.groups[0].bars] == ["0 to 59", "60 to 63"]
    assert [bar.label for bar in steps.groups[1].bars] == [f"rank {rank}" for rank in range(8)]


def test_the_replicas_of_many_runs_share_bars_too() -> None:
    """All bars together would be higher than a screen. The title has the number of runs."""
    runs = [make_run(f"run-{number}", world=3) for number in range(6)]
    (steps, *_) = comparison_charts.comparison_panels(compare(runs))
    assert isinstance(steps, BarPanel)
    assert [[bar.label for bar in group.bars] for group in steps.groups] == [["0 to 2"]] * 6
    assert "<h1>Comparison of 6 runs</h1>" in comparison_charts.html(compare(runs))


def test_no_two_of_many_lines_look_the_same() -> None:
    """Lines of the same color have other dashes and markers; the legend is below the plot, in two columns."""
    lines = tuple(Line(name=f"line {color}", color=color, points={1: 2.0, 2: float(color)}) for color in range(12))
    axes = Figure().add_subplot()
    LinePanel(title="Loss", y_axis="", lines=lines).draw(axes)
    styles = [(line.get_color(), repr(line._dash_pattern), line.get_marker()) for line in axes.lines]  # type: ignore[attr-defined]
    assert (len({*styles}), len({style[:2] for style in styles}), len({style[2] for style in styles})) == (12, 12, 12)
    places = words(charts.svg(LinePanel(title="Loss", y_axis="", lines=lines), "picture"))
    assert places["line 11"][1] > places["epoch"][1]
    assert len({places[line.name][0] for line in lines}) == 2


def test_the_labels_at_the_ends_of_lines_do_not_touch() -> None:
    """The lines end at the same place; a value that is not a number is a gap, and a name is not a formula."""
    found = words(charts.svg(LINES, "picture"))
    names = [found["one"], found["$two$ <&>"]]
    assert abs(names[0][1] - names[1][1]) >= 24
    assert {"Loss", "epoch", "mean"} <= found.keys()


@pytest.mark.parametrize("value", [0.0003, 7.0, 12_345_678.0])
def test_a_bar_has_its_value(value: float) -> None:
    """The value is next to the bar, for any size."""
    panel = BarPanel(
        title="t", axis="a", groups=(BarGroup(name="n" * 60, color=0, bars=(Bar(value=value, text=f"{value} s"),)),)
    )
    found = words(charts.svg(panel, "picture"))
    assert f"{value} s" in found
    assert max(x for x, _ in found.values()) < 400


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("count", [3, *(pytest.param(count, marks=pytest.mark.slow) for count in (2, 12))])
def test_there_is_room_for_all_panels_of_a_picture(count: int) -> None:
    """matplotlib warns if text leaves no room for a plot."""
    runs = [make_run(f"finetune-of-a-large-model-{number}", world=1 + number) for number in range(count)]
    assert comparison_charts.png(compare(runs)).startswith(b"\x89PNG")


def test_the_same_figures_give_the_same_page() -> None:
    """It depends on neither time nor chance, so a stored page changes with its figures only."""
    assert comparison_charts.html(compare(RUNS)) == page()
