"""The page of a plan in a real browser, as wide as a phone and as a desktop screen."""

from pathlib import Path

import pytest

from tests.integration.reports.chromium import PROGRAM, Browser
from tests.unit.reports.test_gantt import HOUR, make_gantt, make_piece
from trainstack.reports.gantt import Lane
from trainstack.reports.gantt_page import PageTable, html

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="this machine has no Chromium")

PHONE, DESK = 390, 1440
# Words beyond the window, except in scrollable parts; bars outside their track; lanes that overlap; names with letters
# in a column; the size of the words; whether the page is wider than the window.
LAYOUT = """(() => {
  const box = element => element.getBoundingClientRect(), all = what => [...document.querySelectorAll(what)];
  const lanes = all(".lane").map(box), size = each => parseFloat(getComputedStyle(each).fontSize);
  const across = document.documentElement.clientWidth;
  return {
    outside: all(".who, .axis span, .legend li, p, section li")
      .filter(each => box(each).left < -1 || box(each).right > across + 1)
      .map(each => each.textContent),
    leaving: all(".track i").filter(each => box(each).left < box(each.parentElement).left - 1
      || box(each).right > box(each.parentElement).right + 3).length,
    overlapping: lanes.filter((one, place) => place && one.top < lanes[place - 1].bottom - 1).length,
    hidden: all(".who").filter(each => box(each).bottom > box(each.parentElement).bottom + 1).length,
    narrow: all(".many tbody th").filter(each => box(each).width < 120).length,
    wide: document.documentElement.scrollWidth - across,
    small: all(".who, .who span, .axis span, td, th, li").some(each => size(each) < 11),
    drawn: all(".track i").filter(each => box(each).width > 0).length,
  };
})()"""
HEAD = ("run", "queue", "start", "end", "wait", "takes", "gpus", "gpu-h", "cost", "flavors")
CELLS = ("a-queue", "+10h30m", "unbounded", "1h30m", "unbounded", "0.571", "123.4", "1,234.00", "a100-mig, h100")


def page() -> str:
    """Return a plan with a short and a very long name; runs wait, are uncertain, have no end or never start."""
    long = "finetune-of-a-large-model-on-all-of-the-data-that-there-is"
    lanes = (
        Lane(name="short", label="8 GPU", waits_from=-HOUR, segments=(make_piece(-HOUR, HOUR, colors=(0, 1)),)),
        Lane(
            name=long,
            label=f"0.571 GPU \u00b7 {CELLS[-1]} \u00b7 unbounded",
            waits_from=0.0,
            segments=(make_piece(HOUR, None),),
        ),
        Lane(
            name="late", label="\u2264 2h", waits_from=0.0, segments=(make_piece(2 * HOUR, 4 * HOUR, uncertain=True),)
        ),
        Lane(
            name="never",
            label="never fits: " + "a pod needs more than there is " * 4,
            waits_from=0.0,
            segments=(),
            has_end=False,
            never_fits=True,
        ),
        Lane(
            name="changed",
            label="",
            waits_from=None,
            segments=(make_piece(HOUR, 2 * HOUR, end_range=(HOUR, 4 * HOUR)),),
            unchanged_times=((0.0, HOUR),),
        ),
    )
    rows = [(lane.name, *CELLS) for lane in lanes]
    changes = PageTable(title="Changed runs", head=HEAD[:3], rows=[row[:3] for row in rows], kind="few")
    gantt = make_gantt(*lanes, color_names={0: "a100", 1: "a-flavor-with-a-long-name-of-the-cluster"})
    return html(
        gantt,
        sentences=["4 runs in 4h."],
        tables=[changes, PageTable(title="Runs", head=HEAD, rows=rows, alarms={3})],
        notes=[f"{long}: no end is known", "a note"],
    )


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_the_page_of_a_plan_is_right_on_a_phone_and_on_a_desk(
    chromium: Browser, tmp_path: Path, width: int, *, dark: bool
) -> None:
    """It loads no other file, nothing is beyond the window or overlaps, and all words are legible."""
    file = tmp_path / "plan.html"
    file.write_text(page())
    visit = chromium.visit(file, width, LAYOUT, phone=width == PHONE, dark=dark)
    assert (visit.requests, visit.complaints) == ([file.as_uri()], [])
    assert visit.found == {
        "outside": [],
        "leaving": 0,
        "overlapping": 0,
        "hidden": 0,
        "narrow": 0,
        "wide": 0,
        "small": False,
        "drawn": 9,
    }


def test_a_page_that_is_wrong_is_seen_to_be(chromium: Browser, tmp_path: Path) -> None:
    """The checks above can fail."""
    bad = ".who { width: 900px; font-size: 8px } .track i { margin-left: 300px } .lane { margin-top: -3rem }"
    bad += " .many th:first-child { min-width: 0; width: 10px; display: block; overflow: hidden }"
    file = tmp_path / "bad.html"
    file.write_text(page().replace("</style>", f"{bad}</style>"))
    layout = chromium.visit(file, PHONE, LAYOUT, phone=True).found
    assert {name for name, violations in layout.items() if violations} >= {
        "outside",
        "leaving",
        "overlapping",
        "narrow",
        "wide",
        "small",
    }
