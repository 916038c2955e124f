"""Rules are declared once each, and findings are of declared rules alone."""

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import get_args

from tests.unit.checks.cases import ROOT
from trainstack.kueue.verdict import Cause
from trainstack.preflight import against_cluster, preflight
from trainstack.preflight.registry import BY_ID, EVERY, FORMER
from trainstack.preflight.rule import SEVERITIES

PACKAGES = ("trainstack",)


@cache
def nodes() -> tuple[ast.AST, ...]:
    """The syntax of all files that declare a rule or have the text of an id, which might report findings."""
    files = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
    texts = [file.read_text(encoding="utf-8") for file in files]
    wanted = re.compile("|".join(["Rule\\b", *map(re.escape, BY_ID)]))
    return tuple(node for text in texts if wanted.search(text) for node in ast.walk(ast.parse(text)))


def declared_ids() -> Iterator[str]:
    """The id of each `Rule(…)` in these files."""
    for node in nodes():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Rule":
            (id_,) = (keyword.value for keyword in node.keywords if keyword.arg == "id")
            assert isinstance(id_, ast.Constant)
            yield str(id_.value)


def test_every_declared_rule_is_registered_once() -> None:
    """A finding is of a Rule, by its type; so no id is reported that the registry does not have."""
    assert sorted(declared_ids()) == sorted(rule.id for rule in EVERY)
    assert len(BY_ID) == len(EVERY)


NAMESAKES = {*get_args(Cause), "cluster-unreachable", "settings"}
"""Causes of a verdict, a trouble that `doctor` reports and a section of the settings, which have names of rules."""


def test_an_id_is_written_once() -> None:
    """Wherever else it is needed, it is taken from its rule."""
    former = [node for node in nodes() if isinstance(node, ast.keyword) and node.arg == "formerly"]
    passed_over = {id(node) for keyword in former for node in ast.walk(keyword)}
    constants = [node.value for node in nodes() if isinstance(node, ast.Constant) and id(node) not in passed_over]
    ids = {*BY_ID} - NAMESAKES
    assert sorted(value for value in constants if isinstance(value, str) and value in ids) == sorted(ids)


def test_the_table_of_former_ids() -> None:
    """A silence may have one of these, whatever else is renamed."""
    assert FORMER == {
        "queue-absent": ("queue-unknown",),
        "class-missing": ("storage-class-unknown",),
        "priority-missing": ("priority-unknown",),
        "namespace-missing": ("namespace-unknown",),
        "never-admitted": ("queue-closed", "resource-uncovered", "never-fits"),
        "framework-unmanaged": ("framework-unlisted",),
        "operator-version": ("version-clash",),
        "class-access-mode": ("volume-access-mode",),
    }


def test_a_rule_over_files_and_cluster_has_one_declaration() -> None:
    """But for the namespaces that a cluster lacks: this finding cannot be silenced."""
    shared = {id_: check.rule for id_, check in against_cluster.RULES.items() if id_ in preflight.RULES}
    assert {*shared} == {id_ for ids in FORMER.values() for id_ in ids} | {"pods-forbidden"}
    others = {id_: rule for id_, rule in shared.items() if rule is not preflight.RULES[id_].rule}
    assert others == {"namespace-unknown": replace(BY_ID["namespace-unknown"], silenceable=False)}


def test_every_rule_is_explained() -> None:
    """With a summary of one sentence, an example and a remedy, each a sentence or several."""
    for rule in EVERY:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.id)
        assert rule.summary.endswith(".")
        assert rule.example or rule.change
        assert rule.remedy.endswith(".")
        assert not rule.details or rule.details.endswith(".")
        assert [*rule.severities] == sorted({*rule.severities}, key=rule.severities.index)
        assert {*rule.severities} <= {*SEVERITIES}


def test_the_rules_of_files_and_of_clusters_have_their_order() -> None:
    """The order of the page: first the files, then the cluster."""
    ids = [*BY_ID]
    assert [id_ for id_ in ids if id_ in preflight.RULES] == [*preflight.RULES]
    over_cluster_alone = [id_ for id_ in against_cluster.RULES if id_ not in preflight.RULES]
    assert [id_ for id_ in ids if id_ in over_cluster_alone] == over_cluster_alone
