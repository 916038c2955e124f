"""`trainstack explain`: the texts of the rules in a terminal."""

import json

import pytest
from typer.testing import CliRunner, Result

from trainstack.cli.app import app
from trainstack.preflight.all_rules import ALL_RULES, RULES_BY_ID


def explain(*words: str) -> Result:
    """Return the output of the command."""
    return CliRunner().invoke(app, ["explain", *words])


def test_a_rule_is_explained_with_example_and_remedy() -> None:
    """Sentences fit the terminal, and the YAML is printed unchanged."""
    result = explain("queue-unknown")
    assert result.exit_code == 0
    name, meaning, facts, *_, yaml, remedy = result.stdout.split("\n\n")
    assert name == "queue-unknown"
    assert " ".join(meaning.split()).startswith(RULES_BY_ID["queue-unknown"].summary)
    assert facts.startswith("Severity: error")
    assert yaml == "  trainstack:workloads:\n    runs:\n      - {name: hello, queue: trainng}"
    assert " ".join(remedy.split()) == f"Remedy: {RULES_BY_ID['queue-unknown'].remedy}"
    assert all(len(line) <= 80 for line in result.stdout.splitlines())


def test_links_become_files() -> None:
    """A terminal follows no links."""
    assert "0009 (docs/decisions/0009-admission-verdict.md)" in " ".join(explain("never-fits").stdout.split())
    assert not any("](" in explain(rule.id).stdout for rule in ALL_RULES)


def test_without_a_rule_all_are_listed() -> None:
    """The list has one line for each rule, in the order of the page."""
    lines = explain().stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["RULE", *RULES_BY_ID]
    assert lines[1].rstrip().split(maxsplit=2) == ["queue-unknown", "error", RULES_BY_ID["queue-unknown"].summary]


def test_programs_get_json() -> None:
    """The JSON has the same fields for one rule and for all."""
    one, rules = (json.loads(explain(*words, "--json").stdout) for words in (("never-fits",), ()))
    assert [rule["id"] for rule in rules] == [*RULES_BY_ID]
    assert one == next(rule for rule in rules if rule["id"] == "never-fits")
    assert one["remedy"] == RULES_BY_ID["never-fits"].remedy
    assert one["silenceable"]
    assert one["change"].startswith("trainstack:workloads:\n  runs:\n")


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("never-fit", "unknown rule never-fit; did you mean never-fits?"),
        ("x", "unknown rule x; `trainstack explain` lists all rules"),
    ],
)
def test_an_unknown_rule_is_an_error_with_the_nearest(word: str, message: str) -> None:
    """The exit code is 1, as for other unknown names."""
    result = explain(word)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.strip() == f"error: {message}"
