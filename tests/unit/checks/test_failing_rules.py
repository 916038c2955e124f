"""A rule that fails stops the change: nothing that a bug keeps from being checked passes."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.checks.cases import ROOT
from tests.unit.checks.cluster_cases import IMAGES, make_live
from tests.unit.checks.cluster_cases import check as check_cluster
from tests.unit.make import make_kueue, make_run, make_settings
from trainstack.declared.declared import Declared
from trainstack.preflight import against_cluster, preflight
from trainstack.preflight.rule import Check, Violation
from trainstack.preflight.rules import images
from trainstack.settings.model import Settings
from trainstack.settings.sections.environment import Environment, Namespace
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.silences import Checks, Silence
from trainstack.settings.sections.workloads import Data

PINNED = Environment(namespaces=(Namespace(name="research"),), pinned=True)
EMPTY = Path("/nonexistent")


def fail(*_: object, **__: object) -> Iterator[Violation]:
    """A rule with a bug, after its first violation."""
    yield Violation("workloads", "is odd", "mend it", "warning")
    raise ValueError("7 is not a list")


def broken(rules: dict[str, Check[Any]], rule: str) -> Check[Any]:
    """The rule with a bug."""
    return replace(rules[rule], find=fail)


def make_pinned(**changes: object) -> Settings:
    """An environment that wants every image by digest, and has no other fault."""
    base = {"environment": PINNED, "operators": Operators(), "pins": {"busybox:1.35": f"sha256:{'1' * 64}"}}
    return make_settings(make_run(), **{**base, **changes})


@pytest.mark.parametrize("error", [ValueError, OSError, KeyError, RecursionError])
def test_a_bug_where_images_are_read_is_no_pass(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    """Of whichever class: an image without a digest may be there."""

    def broken(*_: object) -> None:
        raise error("a bug")

    monkeypatch.setattr(images, "used_images", broken)
    assert [each.id for each in preflight.check(make_pinned(), ROOT)] != []


@pytest.mark.parametrize("rule", ["queue-unknown", "image-unpinned", "discard-unknown"])
def test_a_failing_rule_stops_the_change(monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    """The finding names the rule, the error and where it is, and what the other rules find is found."""
    monkeypatch.setitem(preflight.RULES, rule, broken(preflight.RULES, rule))
    found = preflight.check(make_settings(make_run(volumes=())), EMPTY)
    failed = found[0]
    assert failed.stops
    assert str(failed).startswith(f"error [rule-failed] rule {rule} failed with ValueError: 7 is not a list (test_")
    assert str(failed).endswith("; report this bug in Trainstack, with the whole message")
    assert [each.id for each in found[1:]] == ["record-unmounted", rule]


def test_a_failing_rule_over_a_cluster_stops_the_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with what a cluster has."""
    monkeypatch.setitem(
        against_cluster.RULES, "storage-class-unknown", broken(against_cluster.RULES, "storage-class-unknown")
    )
    found = check_cluster(make_settings(make_run()), make_live(), IMAGES)
    assert [(each.id, each.stops) for each in found] == [("rule-failed", True), ("storage-class-unknown", False)]


def test_verdicts_that_fail_stop_the_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Findings of other rules are kept."""

    def broken(_: object) -> None:
        raise KeyError("cpu")

    monkeypatch.setattr("trainstack.preflight.rule_context.declared_verdicts", broken)
    checked = preflight.examine(Declared(make_settings(make_run(volumes=()))), EMPTY)
    messages = [each.message for each in checked.findings if each.id == "rule-failed"]
    assert any(message.startswith("the verdicts on the runs failed with KeyError: 'cpu'") for message in messages)
    assert checked.verdicts == []
    assert "record-unmounted" in {each.id for each in checked.findings}


def test_a_failed_rule_cannot_be_silenced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by its own id nor by that of the finding."""
    monkeypatch.setitem(preflight.RULES, "image-unpinned", broken(preflight.RULES, "image-unpinned"))
    silenced = tuple(Silence(rule=rule, path="workloads", reason="known") for rule in ("rule-failed", "image-unpinned"))
    found = preflight.check(make_settings(make_run(), checks=Checks(silenced=silenced)), EMPTY)
    assert {each.id for each in found if each.stops} == {"rule-failed", "silence-unknown"}


def test_images_of_a_release_that_is_not_there_are_unknown() -> None:
    """The images of runs are checked all the same."""
    settings = make_pinned(operators=Operators(kueue=make_kueue()))
    found = [each for each in preflight.check(settings, ROOT) if each.id == "image-unpinned"]
    assert [(each.severity, each.path) for each in found] == [
        ("error", "workloads.runs[train].image.name"),
        ("unknown", "operators"),
    ]
    assert "the release manifest was not downloaded" in found[1].message


def test_images_of_files_that_are_not_there_are_unknown() -> None:
    """Which files, other rules tell too; that images are not checked is told here."""
    data = Data(volume="training", path="digits", manifest="workloads/none/data.json")
    settings = make_settings(make_run(data=data), environment=PINNED, operators=Operators())
    (found,) = (each for each in preflight.check(settings, ROOT) if each.id == "image-unpinned")
    assert (found.severity, found.path) == ("unknown", "environment.pinned")
    assert "workloads/none/data.json" in found.message
