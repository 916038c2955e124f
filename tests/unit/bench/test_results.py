"""Ratios, their comparison with the stored ones, and the page."""

import re
from pathlib import Path

from bench import baseline, report
from bench.cases import CASES
from bench.results import Results
from tests.unit.bench.make import make_arm, make_result

SLOW, FAST = make_arm("ours", 3.0, 9.0, 4.0), make_arm("kubectl", 2.0, 1.0, 8.0)


def test_a_ratio_is_one_of_medians() -> None:
    """One slow sample of either arm changes nothing."""
    assert make_result("a", SLOW, FAST).ratios == {"kubectl": 2.0}


def test_a_ratio_that_is_a_quarter_worse_is_a_regression() -> None:
    """A better ratio passes, as do one without a stored value and one of several: there the other arm changed."""
    others = (make_arm("kubectl", 1.0), make_arm("one", 2.0))
    stored = Results(cases=(make_result("a", make_arm("ours", 2.0), *others),))

    def measured(seconds: float, identifier: str = "a", one: float = 2.0) -> list[baseline.Regression]:
        arms = (make_arm("kubectl", 1.0), make_arm("one", one), make_arm("new", 0.1))
        return baseline.regressions(Results(cases=(make_result(identifier, make_arm("ours", seconds), *arms),)), stored)

    assert measured(2.5) == measured(0.5) == measured(9.0, "unknown") == measured(2.6, one=2.1) == []
    regression, _ = measured(2.6)
    assert str(regression).startswith("a: 2.60 times kubectl, 30% more than the stored 2.00; the limit is 25%.")
    assert "python -m bench a --short --write" in str(regression)


def test_results_are_stored_as_they_are(tmp_path: Path) -> None:
    """A missing file has no results."""
    results = Results(cases=(make_result("a", SLOW, FAST),))
    baseline.store(results, tmp_path / "file")
    assert baseline.load(tmp_path / "file") == results
    assert baseline.load(tmp_path / "other") == Results()


def test_newer_results_replace_those_of_the_same_case() -> None:
    """The order is that of the cases; results of removed cases are dropped."""
    old = Results(cases=(make_result("gone"), make_result("a", SLOW), make_result("b", SLOW)))
    merged = old.merged(Results(cases=(make_result("c", FAST), make_result("a", FAST))), ["c", "b", "a"])
    assert [(case.id, case.arms[0].name) for case in merged.cases] == [
        ("c", "kubectl"),
        ("b", "ours"),
        ("a", "kubectl"),
    ]


def test_a_table_has_medians_with_least_and_greatest_and_the_ratio() -> None:
    """Missing figures are empty cells."""
    text = report.markdown(Results(cases=(make_result("help", SLOW, FAST),)))
    assert "Medians of 3, with least and greatest; ratios of CPU seconds." in text
    assert "| ours | 8.00 (6.00 to 18.00) | 4.00 (3.00 to 9.00) | 2 |  |  |  |" in text
    assert "| kubectl | 4.00 (2.00 to 16.00) | 2.00 (1.00 to 8.00) | 2 |  |  | 2.00 |" in text


def test_cases_of_a_subject_are_one_section_with_a_picture() -> None:
    """The sections have the same order whatever the order of the results."""
    results = Results(cases=tuple(make_result(name, SLOW, FAST) for name in ("sweep-jobs", "check", "help")))
    headings = [line for line in report.markdown(results).splitlines() if line.startswith(("#", "!"))]
    assert headings == [
        "### Commands on files",
        "![Commands on files: the medians, as in the tables](benchmarks/files.svg)",
        "#### Title of `check`",
        "#### Title of `help`",
        "### Sweeps",
        "![Sweeps: the medians, as in the tables](benchmarks/sweeps.svg)",
        "#### Title of `sweep-jobs`",
    ]


def test_an_arm_has_the_same_color_in_all_cases() -> None:
    """It may be the second one in one case and the third one in another."""
    one, other = (
        make_result("help", SLOW, FAST),
        make_result("check", SLOW, make_arm("Pulumi SDK, 2 Jobs alone", 1.0), FAST),
    )
    text = report.pictures(Results(cases=(one, other)))[report.PICTURES / "files.svg"]
    assert text.count("var(--series-1)") == 2 * text.count("var(--series-2)") > 0


def test_the_page_and_the_pictures_show_the_stored_results() -> None:
    """Otherwise run `python -m bench --write`."""
    text = report.PAGE.read_text(encoding="utf-8")
    stored = baseline.load()
    assert report.page(text, stored) == text
    shown = {report.PAGE.parent / name for name in re.findall(r"\]\((benchmarks/\w+\.svg)\)", text)}
    assert shown == {*report.PICTURES.iterdir()}
    # Drawing all of them takes seconds.
    drawn = report.pictures(Results(cases=tuple(case for case in stored.cases if case.id.startswith("sweep-"))))
    assert [path.read_text(encoding="utf-8") for path in drawn] == [*drawn.values()]


def test_the_stored_ratios_are_those_of_cases_that_exist() -> None:
    """Each case of the short form has one, so that `make test` compares something."""
    stored = baseline.load().by_id()
    assert stored.keys() <= {case.id for case in CASES}
    short = {case.id for case in CASES if case.short_rounds}
    assert short <= {name for name, result in stored.items() if result.ratios}
