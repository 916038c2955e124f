"""docs/checks.md is generated from the texts of the rules."""

import re
from inspect import cleandoc

from tests.unit.preflight.cases import ROOT
from trainstack.preflight.all_rules import ALL_RULES, RULES_BY_ID
from trainstack.preflight.rules_page import PAGE, render_page, rule_properties


def test_the_written_page_is_current() -> None:
    """If this fails, run `trainstack dev rules-page`."""
    assert (ROOT / PAGE).read_text(encoding="utf-8") == render_page()


def test_a_section_has_the_meaning_an_example_and_the_remedy() -> None:
    """The heading is the rule's id."""
    sections = re.split(r"^## ", render_page(), flags=re.MULTILINE)[1:]
    assert [section.split("\n", 1)[0] for section in sections] == [f"`{rule.id}`" for rule in ALL_RULES]
    for rule, section in zip(ALL_RULES, sections, strict=True):
        content = " ".join(section.split())
        assert all(part in content for part in (rule.summary, rule.details, rule.example, f"Remedy: {rule.remedy}"))
        assert f"```yaml finding\n{cleandoc(rule.change)}\n```" in section or not rule.change


def test_facts_have_severities_scope_and_whether_a_rule_can_be_silenced() -> None:
    assert rule_properties(RULES_BY_ID["never-fits"]).startswith("Severity: error. Also with `--cluster`.")
    assert rule_properties(RULES_BY_ID["node-resources"]) == "Severity: error, unknown. Only with `--cluster`."
    assert rule_properties(RULES_BY_ID["name-derived"]) == "Severity: error. Cannot be silenced."
    assert rule_properties(RULES_BY_ID["rule-failed"]) == "Severity: error. Cannot be silenced."
