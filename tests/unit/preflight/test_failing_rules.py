"""A rule that fails stops the change: a bug in a check never lets a fault pass."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.make import make_kueue, make_run, make_settings
from tests.unit.preflight.cases import ROOT
from tests.unit.preflight.cluster_cases import IMAGES, make_live
from tests.unit.preflight.cluster_cases import check as check_cluster
from trainstack.preflight import cluster_checks, file_checks
from trainstack.preflight.rule import Check, Violation
from trainstack.preflight.rules import images
from trainstack.settings.model import Settings
from trainstack.settings.sections.checks import Checks, Silence
from trainstack.settings.sections.environment import Environment, Namespace
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.workloads import Data
from trainstack.stack_objects.stack_objects import StackObjects

PINNED = Environment(namespaces=(Namespace(name="research"),), pinned=True)
EMPTY = Path("/nonexistent")


def fail(*_: object, **__: object) -> Iterator[Violation]:
    """Yield one violation, then fail like a rule with a bug."""
    yield Violation("workloads", "is odd", "mend it", "warning")
    raise ValueError("7 is not a list")


def broken(rules: dict[str, Check[Any]], rule: str) -> Check[Any]:
    """Return the rule with a bug."""
    return replace(rules[rule], find=fail)


def make_pinned(**changes: object) -> Settings:
    """Return an environment that requires digests of all images, and has no other fault."""
    base = {"environment": PINNED, "operators": Operators(), "pins": {"busybox:1.35": f"sha256:{'1' * 64}"}}
    return make_settings(make_run(), **{**base, **changes})


@pytest.mark.parametrize("error", [ValueError, OSError, KeyError, RecursionError])
def test_a_bug_where_images_are_read_is_no_pass(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    """The class of the exception does not matter: an image without a digest may be missed."""

    def broken(*_: object) -> None:
        raise error("a bug")

    monkeypatch.setattr(images, "used_images", broken)
    assert [finding.id for finding in file_checks.check(make_pinned(), ROOT)] != []


@pytest.mark.parametrize("rule", ["queue-unknown", "image-unpinned", "discard-unknown"])
def test_a_failing_rule_stops_the_change(monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    """The finding names the rule, the error and its place. The findings of other rules are kept."""
    monkeypatch.setitem(file_checks.RULES, rule, broken(file_checks.RULES, rule))
    findings = file_checks.check(make_settings(make_run(volumes=())), EMPTY)
    failed = findings[0]
    assert failed.is_blocking
    assert str(failed).startswith(f"error [rule-failed] rule {rule} failed with ValueError: 7 is not a list (test_")
    assert str(failed).endswith("; report this bug in Trainstack, with the whole message")
    assert [finding.id for finding in findings[1:]] == ["record-unmounted", rule]


def test_a_failing_rule_over_a_cluster_stops_the_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        cluster_checks.RULES, "storage-class-unknown", broken(cluster_checks.RULES, "storage-class-unknown")
    )
    findings = check_cluster(make_settings(make_run()), make_live(), IMAGES)
    assert [(finding.id, finding.is_blocking) for finding in findings] == [
        ("rule-failed", True),
        ("storage-class-unknown", False),
    ]


def test_verdicts_that_fail_stop_the_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Findings of other rules are kept."""

    def broken(*_: object) -> None:
        raise KeyError("cpu")

    monkeypatch.setattr("trainstack.preflight.rule_context.idle_verdicts", broken)
    checked = file_checks.examine(StackObjects(make_settings(make_run(volumes=()))), EMPTY)
    messages = [finding.message for finding in checked.findings if finding.id == "rule-failed"]
    assert any(message.startswith("the verdicts on the runs failed with KeyError: 'cpu'") for message in messages)
    assert checked.verdicts == []
    assert "record-unmounted" in {finding.id for finding in checked.findings}


def test_a_failed_rule_cannot_be_silenced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its own id nor that of the finding silences it."""
    monkeypatch.setitem(file_checks.RULES, "image-unpinned", broken(file_checks.RULES, "image-unpinned"))
    silenced = tuple(Silence(rule=rule, path="workloads", reason="known") for rule in ("rule-failed", "image-unpinned"))
    findings = file_checks.check(make_settings(make_run(), checks=Checks(silenced=silenced)), EMPTY)
    assert {finding.id for finding in findings if finding.is_blocking} == {"rule-failed", "silence-unknown"}


def test_images_of_a_release_without_its_manifest_are_unknown() -> None:
    """The images of runs are still checked."""
    settings = make_pinned(operators=Operators(kueue=make_kueue()))
    findings = [finding for finding in file_checks.check(settings, ROOT) if finding.id == "image-unpinned"]
    assert [(finding.severity, finding.path) for finding in findings] == [
        ("error", "workloads.runs[train].image.name"),
        ("unknown", "operators"),
    ]
    assert "the release manifest was not downloaded" in findings[1].message


def test_images_of_missing_files_are_unknown() -> None:
    """Other rules name the files too; only this rule reports that images are not checked."""
    data = Data(volume="training", path="digits", manifest="workloads/none/data.json")
    settings = make_settings(make_run(data=data), environment=PINNED, operators=Operators())
    (unknown,) = (finding for finding in file_checks.check(settings, ROOT) if finding.id == "image-unpinned")
    assert (unknown.severity, unknown.path) == ("unknown", "environment.pinned")
    assert "workloads/none/data.json" in unknown.message
