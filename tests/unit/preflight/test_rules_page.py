"""docs/checks.md is generated from the texts of the rules."""

import re
from inspect import cleandoc

from tests.unit.preflight.cases import ROOT
from trainstack.preflight import cluster_checks, file_checks
from trainstack.preflight.all_rules import ALL_RULES, RULES_BY_ID, RULES_BY_TOPIC
from trainstack.preflight.rule import SEVERITIES
from trainstack.preflight.rules_page import PAGE, render_page, rule_properties


def test_the_written_page_is_current() -> None:
    """If this fails, run `trainstack dev rules-page`."""
    assert (ROOT / PAGE).read_text(encoding="utf-8") == render_page()


def test_a_section_has_the_meaning_an_example_and_the_remedy() -> None:
    """The heading is the rule's id."""
    sections = [section.partition("\n## ")[0] for section in re.split(r"^### ", render_page(), flags=re.MULTILINE)[1:]]
    assert [section.split("\n", 1)[0] for section in sections] == [f"`{rule.id}`" for rule in ALL_RULES]
    for rule, section in zip(ALL_RULES, sections, strict=True):
        content = " ".join(section.split())
        assert all(part in content for part in (rule.summary, rule.details, rule.example, f"Remedy: {rule.remedy}"))
        assert f"```yaml finding\n{cleandoc(rule.change)}\n```" in section or not rule.change


def test_topics_have_tables_whose_links_lead_to_sections() -> None:
    """Errors are first; the table of topics counts them."""
    topics = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", render_page(), re.MULTILINE | re.DOTALL))
    assert [*topics] == [*RULES_BY_TOPIC]
    for topic, content in topics.items():
        rows = re.findall(r"^\| \[`(.+?)`\]\(#(.+?)\) \| (\w+) \| (.+) \|$", content, re.MULTILINE)
        assert [(name, link, severity) for name, link, severity, _ in rows] == [
            (rule.id, rule.id, rule.severity) for rule in RULES_BY_TOPIC[topic]
        ]
        severities = [SEVERITIES.index(rule.severity) for rule in RULES_BY_TOPIC[topic]]
        assert severities == sorted(severities)
    errors = sum(rule.severity == "error" for rule in RULES_BY_TOPIC["Queues and quota"])
    assert f"| [Queues and quota](#queues-and-quota) | {errors} | " in render_page()


def test_each_rule_has_one_topic() -> None:
    """So has a rule over files and over clusters."""
    ids = [rule.id for rules in RULES_BY_TOPIC.values() for rule in rules]
    assert len(ids) == len({*ids})
    assert {*file_checks.RULES, *cluster_checks.RULES} < {*ids}


def test_facts_have_severities_scope_and_whether_a_rule_can_be_silenced() -> None:
    assert rule_properties(RULES_BY_ID["never-fits"]).startswith("Severity: error. Also with `--cluster`.")
    assert rule_properties(RULES_BY_ID["node-resources"]) == "Severity: error, unknown. Only with `--cluster`."
    assert rule_properties(RULES_BY_ID["name-derived"]) == "Severity: error. Cannot be silenced."
    assert rule_properties(RULES_BY_ID["rule-failed"]) == "Severity: error. Cannot be silenced."
