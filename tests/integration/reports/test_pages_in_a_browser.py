"""The pages in a real browser, as wide as a phone and as a desktop screen."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.reports.chromium import PROGRAM, Browser, Visit
from tests.unit.reports import test_pictures
from tests.unit.reports.make import make_run
from tests.unit.reports.test_sweep_page import make_sweep, page
from tests.unit.sweeps.search.make import fail, make_digits_space, make_mixed_space, make_results, make_trial
from trainstack.reports import comparison_charts
from trainstack.reports.comparison import compare
from trainstack.reports.sweep_page import html
from trainstack.sweeps.search.expand import expand

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="this machine has no Chromium")

PHONE, DESK = 390, 1440
# The words of every picture with their places: those that touch each other, and those beyond the window. A box is
# higher than its letters, so a little may overlap.
LAYOUT = """(() => {
  const touching = [], outside = [];
  for (const picture of document.querySelectorAll("svg")) {
    const boxes = [...picture.querySelectorAll("text")].map(text => [text.textContent, text.getBoundingClientRect()]);
    for (const [words, box] of boxes)
      if (box.left < -1 || box.right > window.innerWidth + 1) outside.push(words);
    for (const [index, [words, one]] of boxes.entries())
      for (const [others, two] of boxes.slice(index + 1)) {
        const across = Math.min(one.right, two.right) - Math.max(one.left, two.left);
        const down = Math.min(one.bottom, two.bottom) - Math.max(one.top, two.top);
        if (across > 1 && down > 4) touching.push(`${words} | ${others}`);
      }
  }
  const smallest = Math.min(...[...document.querySelectorAll("svg text")].map(text =>
    parseFloat(getComputedStyle(text).fontSize) * text.ownerSVGElement.getBoundingClientRect().width
      / text.ownerSVGElement.viewBox.baseVal.width));
  return {
    touching, outside, smallest,
    wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    pictures: document.querySelectorAll("svg").length,
  };
})()"""


def four() -> str:
    """Return four trials of one parameter, two of them equally good."""
    space = make_digits_space(parameters={"batch_size": {"values": [32, 64, 128, 512]}})
    values = {32: (0.8, 0.9, 0.95), 64: (0.7, 0.92, 0.96), 128: (0.6, 0.8, 0.96), 512: (0.5, 0.7, 0.8)}
    trials = [
        make_trial(number, values[size], parameters={"batch_size": size}) for number, size in enumerate(values, 1)
    ]
    return html(make_sweep(space, trials))


def twelve() -> str:
    """Return a grid of two parameters, with a failed trial."""
    return page()


def two_hundred() -> str:
    """Return a sweep with logarithms, categories, conditions; failed, running and queued trials."""
    space = make_mixed_space()
    results = [fail(result, "deadline") if result.number % 10 == 7 else result for result in make_results(space)]
    results[0] = results[0].model_copy(update={"state": "running", "finished": None})
    results[1] = results[1].model_copy(update={"state": "queued", "finished": None, "metrics": ()})
    return html(make_sweep(space, results))


def long_names() -> str:
    """Return a sweep whose metric and parameters have names longer than the space for them."""
    metric = "val/accuracy_of_the_whole_validation_set"
    space = make_digits_space(
        objective={"metric": metric, "direction": "maximize"},
        parameters={
            "learning_rate_multiplier_of_the_last_layer": {"values": [0.01, 0.05, 0.1]},
            "batch_size": {"values": [16, 32, 64, 128]},
            "optimizer_of_all_the_other_layers": {"categorical": ["sgd with momentum", "adam"]},
        },
    )
    trials = [
        make_trial(
            numbered_set.number,
            set_id=numbered_set.id,
            parameters=numbered_set.parameters,
            metrics=tuple(
                {"epoch": epoch, metric: 0.8 + numbered_set.number % 7 / 100 - 1 / epoch} for epoch in range(1, 9)
            ),
        )
        for numbered_set in expand(space)
    ]
    return html(make_sweep(space, trials))


def comparison() -> str:
    """Return the comparison of two runs."""
    return test_pictures.page()


def twelve_runs() -> str:
    """Return more runs than there are colours, with long names, that all end at the same values."""
    names = [f"finetune-of-a-large-model-{number}" for number in range(12)]
    return comparison_charts.html(compare([make_run(name, world=1 + place % 3) for place, name in enumerate(names)]))


@pytest.mark.parametrize(
    ("drawn", "pictures"),
    [
        pytest.param(four, 3, id="four trials", marks=pytest.mark.slow),
        pytest.param(twelve, 5, id="twelve trials"),
        pytest.param(two_hundred, 9, id="two hundred trials"),
        pytest.param(long_names, 6, id="long names"),
        pytest.param(comparison, 4, id="comparison"),
        pytest.param(twelve_runs, 4, id="twelve runs", marks=pytest.mark.slow),
    ],
)
def test_a_page_is_right_on_a_phone_and_on_a_desk(
    chromium: Browser, tmp_path: Path, drawn: Callable[[], str], pictures: int
) -> None:
    """It loads no other file, the console is empty, nothing is beyond the window, and all words are legible."""
    file = tmp_path / "page.html"
    file.write_text(drawn())
    for width in (PHONE, DESK):
        visit: Visit = chromium.visit(file, width, LAYOUT, phone=width == PHONE)
        assert visit.requests == [file.as_uri()]
        assert visit.complaints == []
        layout = dict(visit.found)
        assert layout.pop("smallest") > 9.5, width
        assert layout == {"touching": [], "outside": [], "wide": 0, "pictures": pictures}, width


def test_a_page_that_loads_something_is_seen_to_do_so(chromium: Browser, tmp_path: Path) -> None:
    """The checks above can fail."""
    file = tmp_path / "page.html"
    bad = '<svg viewBox="0 0 9 9" width="2000"><text y="5">a</text><text y="5">b</text></svg><script src="a.js">'
    file.write_text(f"<!doctype html>{bad}</script><script>console.log('hello'); nothing()</script>")
    visit = chromium.visit(file, PHONE, LAYOUT)
    assert visit.requests == [file.as_uri(), file.with_name("a.js").as_uri()]
    assert [
        complaint
        for complaint in visit.complaints
        if "hello" in complaint or "Uncaught" in complaint or "ERR_FILE_NOT_FOUND" in complaint
    ]
    assert visit.found["touching"] == ["a | b"]
    assert visit.found["wide"] > 1000
