"""The Gantt chart: its axis, its page, its picture."""

import re
from functools import cache

import pytest

from tests.unit.reports.test_pictures import Page
from trainstack.reports import gantt as gantt_data
from trainstack.reports import gantt_page, gantt_picture
from trainstack.reports.gantt import Gantt, Lane, LegendEntry, Level, RunSegment, stairs, ticks
from trainstack.reports.gantt_page import PageTable

HOUR = 3600.0


def make_piece(start: float = 0.0, end: float | None = HOUR, **changes: object) -> RunSegment:
    """Return a run on one flavor."""
    base = {"start": start, "end": end, "colors": (0,), "label": "runs"}
    return RunSegment(**{**base, **changes})  # type: ignore[arg-type]


def make_gantt(*lanes: Lane, **changes: object) -> Gantt:
    """Return four hours of a run that waits, one without an end, and one that never starts."""
    own = (
        Lane(name="first", label="2h", waits_from=-HOUR, segments=(make_piece(-HOUR, HOUR, colors=(0, 1)),)),
        Lane(name="<second>", label="&", waits_from=0.0, segments=(make_piece(HOUR, None), make_piece(2 * HOUR, None))),
        Lane(name="third", label="never", waits_from=0.0, segments=(), has_end=False),
    )
    level = Level(name="a100", label="GPUs", color=1, capacity=8.0, steps=((0.0, 4.0), (HOUR, 9.0), (9 * HOUR, 0.0)))
    base = {"title": "Plan of <lab>", "until": 4 * HOUR, "lanes": lanes or own, "levels": (level,)}
    return Gantt(**{**base, **changes})  # type: ignore[arg-type]


@cache
def picture() -> bytes:
    """Draw the picture of `make_gantt`."""
    return gantt_picture.png(make_gantt())


@pytest.mark.parametrize(
    ("until", "expected"),
    [
        (4.0, ["0s", "1s", "2s", "3s", "4s"]),
        (100.0, ["0s", "30s", "60s", "90s"]),
        (600.0, ["0m", "2m", "4m", "6m", "8m", "10m"]),
        (4 * HOUR, ["0h", "1h", "2h", "3h", "4h"]),
        (100 * HOUR, ["0d", "1d", "2d", "3d", "4d"]),
        (3000 * HOUR, ["0d", "25d", "50d", "75d", "100d", "125d"]),
    ],
)
def test_the_axis_has_round_times(until: float, expected: list[str]) -> None:
    """Their number is about the requested one."""
    assert [name for _, name in ticks(until, 5)] == expected


def test_levels_are_stairs_from_the_beginning_to_the_end() -> None:
    """Later steps are left out; nothing precedes the first step."""
    assert stairs(((0.0, 4.0), (5.0, 2.0), (20.0, 9.0)), 10.0) == ([4.0, 2.0], [0.0, 5.0, 10.0])
    assert stairs(((5.0, 2.0),), 10.0) == ([0.0, 2.0], [0.0, 5.0, 10.0])
    assert stairs((), 10.0) == ([0.0], [0.0, 10.0])


def test_the_page_is_one_file_in_the_readers_colours() -> None:
    """It loads and runs nothing; names are text; each colour is a variable."""
    table = PageTable(title="<Runs>", head=("run", "end"), rows=[("first", "+1h")])
    text = gantt_page.html(make_gantt(), sentences=["Two runs."], tables=[table], notes=["<note>"])
    page = Page(text)
    assert (page.loads, page.tags & {"script", "link", "iframe", "object", "img"}) == ([], set())
    assert re.findall(r"@import|url\((?!#)", text) == []
    assert all(
        fragment in text
        for fragment in ("&lt;second&gt;", "Plan of &lt;lab&gt;", "&lt;note&gt;", "&lt;Runs&gt;", "Two runs.", "+1h")
    )
    assert "<second>" not in text
    drawn = text[text.index("<main>") :]
    assert re.findall(r"#[0-9a-fA-F]{6}\b", drawn) == []
    used = {*re.findall(r"var\((--(?:series|ink|muted|grid|paper|alarm)[a-z0-9-]*)\)", text)}
    light, dark = ({*re.findall(r"(--[a-z0-9-]+):", scheme)} for scheme in re.findall(r":root \{([^}]*)\}", text))
    assert used <= light == dark


def test_a_bar_is_where_its_time_is() -> None:
    """It starts at the beginning; two flavors share it; an unknown end fades; waiting is a dashed line."""
    text = gantt_page.html(make_gantt(), sentences=[], tables=[], notes=[])
    lanes = re.findall(r'<div class="lane"><div class="who">.*?</div><div class="track">(.*?)</div></div>', text)
    assert len(lanes) == 3
    assert lanes[0] == (
        '<i class="run" style="left: 0.000%; width: 25.000%; --upper: var(--series-0); --lower: var(--series-1)" '
        'title="runs"></i>'
    )
    assert lanes[1].count('class="run endless"') == 2
    assert '<i class="wait" style="left: 0.000%; width: 25.000%"></i>' in lanes[1]
    assert lanes[2] == '<i class="wait" style="left: 0.000%; width: 100.000%"></i>'


def make_compared() -> Gantt:
    """Return a chart of a run with a range, a changed one and one that never fits."""
    lanes = (
        Lane(name="varies", label="", waits_from=0.0, segments=(make_piece(end_range=(0.5 * HOUR, 2 * HOUR)),)),
        Lane(
            name="changed",
            label="",
            waits_from=0.0,
            segments=(make_piece(HOUR, 2 * HOUR, uncertain=True),),
            unchanged_times=((2 * HOUR, 3 * HOUR), (3 * HOUR, None)),
        ),
        Lane(
            name="large",
            label="never fits: " + "too little quota; " * 20,
            waits_from=0.0,
            segments=(),
            has_end=False,
            never_fits=True,
        ),
    )
    return make_gantt(*lanes, color_names={0: "a100"})


def test_the_legend_has_the_marks_of_the_chart_and_no_others() -> None:
    """Each color has its name."""
    assert [entry.text for entry in make_gantt(levels=()).legend] == ["no known end", "waits"]
    assert make_compared().legend == [
        LegendEntry(mark="run", text="a100"),
        LegendEntry(mark="uncertain", text="latest end"),
        LegendEntry(mark="range", text="range of the end, if durations and order differ a little"),
        LegendEntry(mark="wait", text="waits"),
        LegendEntry(mark="never", text="never fits"),
        LegendEntry(mark="unchanged", text="without the changes"),
        LegendEntry(mark="capacity", text="quota"),
    ]
    text = gantt_page.html(make_compared(), sentences=[], tables=[], notes=[])
    assert re.findall(r'<li><i class="(\w+)"', text) == [entry.mark for entry in make_compared().legend]


def test_ranges_former_times_and_runs_that_never_fit_are_drawn() -> None:
    """A range is a line over the bar; a former time is below it; a run that never fits is red."""
    text = gantt_page.html(make_compared(), sentences=[], tables=[], notes=[])
    assert '<i class="range" style="left: 12.500%; width: 37.500%"></i>' in text
    assert re.findall(r'<i class="unchanged" style="([^"]*)"></i>', text) == [
        "left: 50.000%; width: 25.000%",
        "left: 75.000%; width: 25.000%",
    ]
    assert re.findall(r'<div class="lane alarm"><div class="who"><b>(\w+)</b>', text) == ["large"]
    assert '<i class="never" style="left: 0.000%; width: 100.000%"></i>' in text
    # Its long label has further lines.
    assert height(gantt_picture.png(make_compared())) > height(picture())


def test_rows_that_need_a_change_are_marked() -> None:
    """The others are not."""
    table = PageTable(title="Runs", head=("run",), rows=[("a",), ("b",)], alarms={1})
    text = gantt_page.html(make_gantt(), sentences=[], tables=[table], notes=[])
    assert re.findall(r'<tr(?: class="(\w+)")?><th scope="row">', text) == ["", "alarm"]


def test_of_very_many_lanes_the_first_are_drawn_and_the_others_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page and the picture agree."""
    monkeypatch.setattr(gantt_data, "MAX_LANES", 6)
    lanes = tuple(
        Lane(name=f"run-{number}", label="", waits_from=0.0, segments=(make_piece(),)) for number in range(13)
    )
    gantt = make_gantt(*lanes)
    text = gantt_page.html(gantt, sentences=[], tables=[], notes=[])
    assert (text.count('class="lane"'), gantt.omission_note) == (6, "and 7 more, which start later or never")
    assert gantt.omission_note in text
    assert height(gantt_picture.png(gantt)) > height(picture())


def height(png: bytes) -> int:
    """Return the height of a picture in pixels."""
    assert png.startswith(b"\x89PNG")
    return int.from_bytes(png[20:24], "big")


def test_the_picture_is_the_same_for_the_same_plan() -> None:
    """It depends on neither time nor chance."""
    assert gantt_picture.png(make_gantt()) == picture()


def test_the_picture_is_drawn_without_levels_and_with_what_is_uncertain() -> None:
    """It is lower without its second panel."""
    uncertain = Lane(name="late", label="", waits_from=None, segments=(make_piece(uncertain=True),))
    assert height(gantt_picture.png(make_gantt(uncertain, levels=()))) < height(picture())
