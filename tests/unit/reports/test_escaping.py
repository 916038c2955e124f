"""Names are read from files, logs and clusters: every page shows them as text, never as markup or template."""

from collections.abc import Callable
from html.parser import HTMLParser

import pytest

from tests.unit.reports.make import make_run
from tests.unit.reports.test_gantt import HOUR, make_gantt, make_piece
from tests.unit.reports.test_sweep_page import make_sweep
from tests.unit.sweeps.search.make import fail, make_digits_space, make_results
from trainstack.reports import comparison_charts
from trainstack.reports.comparison import compare
from trainstack.reports.gantt import Lane, Level
from trainstack.reports.gantt_page import PageTable
from trainstack.reports.gantt_page import html as plan_html
from trainstack.reports.sweep_page import html as sweep_html
from trainstack.sweeps.search.expand import expand

HOSTILE = "<script>alert(1)</script> {{7*7}} {% raw %} \"' onload=alert(1) x=' </style><b> &lt; $x_1$"
"""One name with markup, a template's expression and statement, the end of an attribute or a style, and a formula."""


class Reader(HTMLParser):
    """A parser of a page: its tags, the names of its attributes, its texts and the attributes' values."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record the tag and its attributes."""
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.texts += [value or "" for _, value in attrs]

    def handle_data(self, data: str) -> None:
        """Record the text."""
        self.texts.append(data)


def comparison(name: str) -> str:
    """Return two runs with the name in their names, ids and notes."""
    return comparison_charts.html(compare([make_run("alone"), make_run(name, world=3, notes=(name,))]))


def sweep(name: str) -> str:
    """Return a sweep with the name as its own, a parameter's, a value's, a metric's and a reason's, and in a log."""
    space = make_digits_space(
        parameters={name: {"categorical": [name, "other"]}, "lr": {"values": [0.01, 0.1]}},
        objective={"metric": name, "direction": "maximize"},
    )
    trials = [
        trial.model_copy(update={"metrics": ({"epoch": 1, name: trial.number / 10},)})
        for trial in make_results(space, good=lambda values: float(values["lr"]))
    ]
    trials[0] = fail(trials[0], name, last_lines=(name,))
    assert len(trials) == len(expand(space)) == 4
    return sweep_html(make_sweep(space, trials, name=name, importance={name: 0.9, "lr": 0.1}))


def plan(name: str) -> str:
    """Return a plan with the name in every text."""
    lane = Lane(name=name, label=name, waits_from=0.0, segments=(make_piece(label=name),))
    level = Level(name=name, label=name, color=0, capacity=1.0, steps=((0.0, 1.0),))
    gantt = make_gantt(lane, title=name, until=2 * HOUR, levels=(level,))
    table = PageTable(title=name, head=(name, name), rows=[(name, name)])
    return plan_html(gantt, sentences=[name], tables=[table], notes=[name])


@pytest.mark.parametrize("page", [comparison, sweep, plan])
def test_a_name_is_text(page: Callable[[str], str]) -> None:
    """The tags and attributes of a page do not depend on the name, and a hostile name is shown unchanged."""
    harmless, hostile = Reader(page("harmless")), Reader(page(HOSTILE))
    assert (hostile.tags, hostile.attributes) == (harmless.tags, harmless.attributes)
    assert len([text for text in hostile.texts if HOSTILE in text]) >= 5
