"""The tables of `trainstack check`."""

from typing import Any

import pytest
from rich.console import Console

from tests.unit.kueue.test_format import make_verdict
from trainstack.cli.output.check_format import check_tables
from trainstack.kueue.verdict import Reason, Remedy, Verdict
from trainstack.preflight.finding import Finding
from trainstack.preflight.rule import Violation
from trainstack.preflight.rules.admission import never_fits
from trainstack.preflight.rules.likely_mistakes import queue_left_out
from trainstack.preflight.rules.references import queue_unknown
from trainstack.settings.errors import Place

PLACE = Place("Pulumi.lab.yaml", 25)
SHORTAGE = "1 pod needs 12 nvidia.com/gpu; cluster queue vision has at most 8 of flavor a100 (4 missing)"
REMEDIES = ("raise nominalQuota from 8 to 12", "lower the requests from 12 to 8")


def make_unfit(name: str = "big", **changes: Any) -> Verdict:
    """Return the verdict on a run that requests too many GPUs."""
    remedies = tuple(Remedy(text, (), "fits") for text in REMEDIES)
    base = {"outcome": "never fits", "assigned": (), "usage": {}, "reasons": (Reason("quota", SHORTAGE, ""),)}
    return make_verdict(name, **{**base, "remedies": remedies, **changes})


def make_finding(path: str, message: str, remedy: str, rule: Any = never_fits, place: Place = PLACE) -> Finding:
    return Finding.from_violation(rule.rule, Violation(path, message, remedy), place)


def lines(findings: list[Finding], verdicts: list[Verdict], width: int = 200) -> list[str]:
    """Return the lines of all tables, with single spaces between the words."""
    console = Console(width=width, highlight=False, markup=False, emoji=False)
    with console.capture() as capture:
        for table in check_tables(findings, verdicts):
            console.print(table)
    printed = capture.get().splitlines()
    assert max(map(len, printed), default=0) <= width
    return [" ".join(line.split()) for line in printed]


def test_a_finding_that_explains_a_verdict_is_part_of_its_row() -> None:
    """Each fact is printed once: run, verdict, why, the remedies as alternatives, and the place of the error."""
    finding = make_finding("workloads.runs[big]", SHORTAGE, "; or ".join(REMEDIES))
    assert lines([finding], [make_verdict("small"), make_unfit()]) == [
        "RUN VERDICT",
        "small fits on a100",
        f"big never fits why {SHORTAGE}",
        f"remedy {REMEDIES[0]}",
        f"or {REMEDIES[1]}",
        "error [never-fits] Pulumi.lab.yaml:25",
    ]


def test_a_rule_may_describe_a_wrong_setting_in_its_own_words() -> None:
    """Its message and remedy replace those of the verdict."""
    path = "workloads.runs[big].queue"
    verdict = make_unfit(reasons=(Reason("queue-missing", "namespace lab has no queue visio", path),))
    finding = make_finding(path, "local queue 'visio' is not declared", "did you mean vision?", queue_unknown)
    assert lines([finding], [verdict])[1:] == [
        "big never fits why local queue 'visio' is not declared",
        "remedy did you mean vision?",
        "error [queue-unknown] Pulumi.lab.yaml:25",
    ]


def test_another_finding_on_the_same_run_has_a_table_of_its_own() -> None:
    """The verdict keeps its reason."""
    finding = make_finding("workloads.runs[big]", "it has no queue", "set one", queue_left_out)
    printed = lines([finding], [make_unfit()])
    assert printed[:4] == [
        f"{queue_left_out.rule.severity} [{finding.id}] Pulumi.lab.yaml:25: workloads.runs[big]",
        "why it has no queue",
        "remedy set one",
        "RUN VERDICT",
    ]
    assert f"big never fits why {SHORTAGE}" in printed


def test_runs_with_the_same_verdict_share_a_row() -> None:
    """The first four are named; the places of their findings follow the shared facts."""
    names = [f"r{number}" for number in range(6)]
    findings = [
        make_finding(f"workloads.runs[{name}]", SHORTAGE, "; or ".join(REMEDIES), place=Place("Pulumi.lab.yaml", line))
        for line, name in enumerate(names, 1)
    ]
    printed = lines(findings, [make_unfit(name) for name in names])
    assert [line.split()[0] for line in printed[1:5]] == names[:4]
    assert printed[4].endswith(
        "error [never-fits] Pulumi.lab.yaml:1, Pulumi.lab.yaml:2, Pulumi.lab.yaml:3, Pulumi.lab.yaml:4 and 2 more"
    )
    assert printed[5] == "and 2 more"


def test_a_verdict_of_kueues_own_code_is_marked() -> None:
    """So is one without any fact, and one by rules that were not compared with the release."""
    assert lines([], [make_verdict(judged_by="Kueue v0.15.2")])[1:] == [
        "train fits on a100",
        "by the code of Kueue v0.15.2",
    ]
    marked = make_verdict(release="v0.20.7", rules="v0.19", not_compared="v0.20")
    assert lines([], [marked])[1:] == ["train fits on a100", "by the rules of v0.19; v0.20 is not compared"]
    assert lines([], [make_verdict(release="v0.19.2", rules="v0.19")])[1:] == ["train fits on a100"]
    assert lines([], [make_verdict(outcome="unknown", assigned=(), usage={})]) == ["RUN VERDICT", "train unknown"]


@pytest.mark.parametrize("width", [40, 80])
def test_a_narrow_terminal_gets_every_word(width: int) -> None:
    """Texts are wrapped, and none is cut."""
    finding = make_finding("workloads.runs[big]", SHORTAGE, "; or ".join(REMEDIES))
    words = " ".join(lines([finding], [make_unfit()], width)).split()
    assert {*SHORTAGE.split(), *" ".join(REMEDIES).split()} <= {*words} if width == 80 else "\u2026" not in words
