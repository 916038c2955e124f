"""Each rule is declared once, and findings are of declared rules only."""

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import get_args

from tests.unit.preflight.cases import ROOT
from tests.unit.sources import syntax
from trainstack.kueue.verdict import Cause
from trainstack.preflight import cluster_checks, file_checks
from trainstack.preflight.all_rules import ALL_RULES, RULES_BY_ID
from trainstack.preflight.rule import SEVERITIES

PACKAGES = ("trainstack",)


@cache
def nodes() -> tuple[ast.AST, ...]:
    """Return the syntax nodes of all files that declare a rule or quote an id, and so might report findings."""
    files = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
    pattern = re.compile(rf"Rule\(|[\"'](?:{'|'.join(map(re.escape, RULES_BY_ID))})[\"']")
    matching = [file for file in files if pattern.search(file.read_text(encoding="utf-8"))]
    return tuple(node for file in matching for node in ast.walk(syntax(file)))


def declared_ids() -> Iterator[str]:
    """Yield the id of each `Rule(…)` in these files."""
    for node in nodes():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Rule":
            (id_,) = (keyword.value for keyword in node.keywords if keyword.arg == "id")
            assert isinstance(id_, ast.Constant)
            yield str(id_.value)


def test_every_declared_rule_is_registered_once() -> None:
    """The type of a finding requires a Rule, so every reported id is in the registry."""
    assert sorted(declared_ids()) == sorted(rule.id for rule in ALL_RULES)
    assert len(RULES_BY_ID) == len(ALL_RULES)


OTHER_USES = {*get_args(Cause), "cluster-unreachable", "settings"}
"""Causes of a verdict, a problem of `doctor` and a section of the settings that have the same names as rules."""


def test_an_id_is_written_once() -> None:
    """All other uses read it from the rule."""
    constants = [node.value for node in nodes() if isinstance(node, ast.Constant)]
    ids = {*RULES_BY_ID} - OTHER_USES
    assert sorted(value for value in constants if isinstance(value, str) and value in ids) == sorted(ids)


def test_a_rule_over_files_and_cluster_has_one_declaration() -> None:
    """The exception is a namespace that a cluster lacks: this finding cannot be silenced."""
    shared = {id_: check.rule for id_, check in cluster_checks.RULES.items() if id_ in file_checks.RULES}
    others = {id_: rule for id_, rule in shared.items() if rule is not file_checks.RULES[id_].rule}
    assert others == {"namespace-unknown": replace(RULES_BY_ID["namespace-unknown"], silenceable=False)}


def test_every_rule_is_explained() -> None:
    """It has a summary of one sentence, an example and a remedy."""
    for rule in ALL_RULES:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.id)
        assert rule.summary.endswith(".")
        assert rule.example or rule.change
        assert rule.remedy.endswith(".")
        assert not rule.details or rule.details.endswith(".")
        assert [*rule.severities] == sorted({*rule.severities}, key=rule.severities.index)
        assert {*rule.severities} <= {*SEVERITIES}
