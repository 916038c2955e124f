"""Silences: they take a finding out of what is counted, say why, and cannot hide what others refuse."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.checks.cluster_cases import IMAGES, KUEUE, make_live, operators
from tests.unit.checks.cluster_cases import check as check_cluster
from tests.unit.make import make_distributed, make_run, make_settings, make_storage, make_volume
from trainstack.declared.declared import Declared
from trainstack.preflight import against_cluster, preflight
from trainstack.preflight.finding import Finding
from trainstack.preflight.live_context import Live, LiveContext
from trainstack.preflight.registry import EVERY
from trainstack.settings.model import Settings
from trainstack.settings.sections.environment import Environment, Existing, Namespace
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.silences import Checks, Silence

EMPTY = Path("/nonexistent")
ONE_POD = make_storage(volumes=(make_volume(access_modes=("ReadWriteOncePod",)),))


def make_silenced(*entries: tuple[str, str]) -> Settings:
    """An environment with an error at `workloads.runs[train].volumes[0].volume`, and these rules and paths silenced."""
    listed = tuple(Silence(rule=rule, path=path, reason=f"reason {path}") for rule, path in entries)
    return make_settings(make_distributed(), storage=ONE_POD, checks=Checks(silenced=listed))


def check(*entries: tuple[str, str]) -> list[Finding]:
    """What is found."""
    return preflight.check(make_silenced(*entries), EMPTY)


def test_a_silenced_error_stops_nothing_and_keeps_its_reason() -> None:
    """By its own path, or one that encloses it."""
    for path in ("workloads.runs[train].volumes[0].volume", "workloads.runs[train]", "workloads"):
        (found,) = check(("volume-one-pod", path))
        assert (found.id, found.severity, found.silenced, found.stops) == (
            "volume-one-pod",
            "error",
            f"reason {path}",
            False,
        )


def test_a_silence_is_of_one_rule_and_one_place() -> None:
    """Another run's, another rule's, and a path that only begins alike silence nothing."""
    for rule, path in (("volume-one-pod", "workloads.runs[train"), ("volume-one-node", "workloads.runs[train]")):
        found = check((rule, path))
        assert [(each.id, each.stops) for each in found] == [("volume-one-pod", True), ("silence-unused", False)]


def test_what_is_silenced_comes_last() -> None:
    """After what still counts, warnings included."""
    found = check(("volume-one-pod", "workloads"), ("volume-one-node", "workloads"))
    assert [each.id for each in found] == ["silence-unused", "volume-one-pod"]


def test_rules_over_a_cluster_are_silenced_where_the_cluster_is_read() -> None:
    """The files alone say nothing of them."""
    entry = Silence(rule="storage-class-unknown", path="storage.volumes[training]", reason="comes tomorrow")
    settings = make_settings(
        storage=make_storage(classes=(), volumes=(make_volume(storage_class="shared"),)),
        checks=Checks(silenced=(entry,)),
    )
    assert "silence-unused" not in {each.id for each in preflight.check(settings, EMPTY)}
    (found,) = check_cluster(settings, make_live({"StorageClass": ()}), IMAGES)
    assert (found.id, found.silenced) == ("storage-class-unknown", "comes tomorrow")
    (unused,) = check_cluster(settings, make_live(), IMAGES)
    assert (unused.id, unused.path) == ("silence-unused", "checks.silenced[0]")


def on_cluster(settings: Settings, live: Live) -> list[Finding]:
    """What `check --cluster` finds there, after the files."""
    in_files = preflight.check(settings, EMPTY)
    return against_cluster.examine(LiveContext(Declared(settings), live, IMAGES), in_files=in_files).findings


def make_unclassed(rule: str) -> Settings:
    """A stack of runs whose volume's class the cluster may lack, with this rule silenced there."""
    entry = Silence(rule=rule, path="storage.volumes[training]", reason="comes tomorrow")
    given = Environment(
        namespaces=(Namespace(name="research"),), existing=Existing(storage_classes=("nfs",), namespaces=("gone",))
    )
    storage = make_storage(classes=(), volumes=(make_volume(storage_class="nfs"),))
    return make_settings(storage=storage, environment=given, checks=Checks(silenced=(entry,)))


@pytest.mark.parametrize("rule", ["storage-class-unknown", "class-missing"])
def test_a_former_id_still_silences(rule: str) -> None:
    """The files warn of it, and name the rule's id."""
    settings = make_unclassed(rule)
    (found,) = on_cluster(settings, make_live())
    assert (found.id, found.path, found.silenced, found.stops) == (
        "storage-class-unknown",
        "storage.volumes[training].storageClass",
        "comes tomorrow",
        False,
    )
    renamed = [(each.id, each.severity, each.remedy) for each in preflight.check(settings, EMPTY)]
    assert renamed == [("silence-renamed", "warning", "use storage-class-unknown")] * (rule == "class-missing")


def test_a_former_id_that_is_still_in_use_silences_what_it_did() -> None:
    """Where it matches a finding of the other rule, this rule is named."""
    entry = Silence(rule="operator-version", path="workloads.runs[train]", reason="upgraded tomorrow")
    settings = make_settings(make_run(), operators=Operators(), checks=Checks(silenced=(entry,)))
    assert preflight.check(settings, EMPTY) == []
    old = make_live(operators=operators(kueue=replace(KUEUE, image="registry.k8s.io/kueue/kueue:v0.14.4")))
    renamed, clash = on_cluster(settings, old)
    assert (clash.id, clash.silenced) == ("version-clash", "upgraded tomorrow")
    assert (renamed.id, renamed.path, renamed.remedy) == (
        "silence-renamed",
        "checks.silenced[0].rule",
        "use version-clash",
    )


def test_a_silence_of_files_and_cluster_is_unused_where_neither_has_the_finding() -> None:
    """The files alone cannot tell, and what the files have found is not forgotten on the cluster."""
    entry = Silence(rule="queue-unknown", path="workloads.runs[train]", reason="comes tomorrow")
    used, unused = (
        make_settings(make_run(queue=queue), checks=Checks(silenced=(entry,))) for queue in ("x", "research")
    )
    assert [(each.id, each.silenced) for each in preflight.check(used, EMPTY)] == [("queue-unknown", "comes tomorrow")]
    assert [each.id for each in on_cluster(used, make_live())] == ["queue-unknown"]
    assert preflight.check(unused, EMPTY) == []
    assert [each.id for each in on_cluster(unused, make_live())] == ["silence-unused"]


def test_what_the_files_show_to_be_unknown_is_not_missing_again() -> None:
    """One fact, one finding; a silenced one does not hide what the cluster lacks."""
    settings = make_settings(make_run(queue="reserch"))
    assert [each.id for each in preflight.check(settings, EMPTY)] == ["queue-unknown"]
    assert on_cluster(settings, make_live()) == []
    assert [each.id for each in check_cluster(settings, make_live(), IMAGES)] == ["queue-unknown"]


def test_a_namespace_that_the_cluster_lacks_cannot_be_silenced() -> None:
    """Its declaration can: the namespace may be somebody else's."""
    entry = Silence(rule="namespace-unknown", path="storage.volumes[training]", reason="made by hand")
    volumes = (make_volume(namespace="elsewhere"),)
    settings = make_settings(storage=make_storage(volumes=volumes), checks=Checks(silenced=(entry,)))
    assert [(each.id, each.silenced) for each in preflight.check(settings, EMPTY)] == [
        ("namespace-unknown", "made by hand")
    ]
    missing = make_live(namespaces={"research": True, "elsewhere": False})
    (found,) = on_cluster(settings, missing)
    assert (found.id, found.stops) == ("namespace-unknown", True)
    there = make_live(namespaces={"research": True, "elsewhere": True})
    assert on_cluster(settings, there) == []
    meant = make_settings(checks=Checks(silenced=(entry,)))
    assert [each.id for each in on_cluster(meant, make_live())] == ["silence-unused"]


REFUSED = {
    *("borrow-without-reclaim", "covered-resources", "feature-gate-unknown", "framework-unknown"),
    "group-overlap",
    *("lending-over-nominal", "limit-without-cohort", "multikueue-checks", "multikueue-parameters"),
    *("kind-missing", "label-invalid", "launch-refused", "mount-duplicate", "name-derived", "name-duplicate"),
    "patch-refused",
    *("resources-refused", "tenant-cluster-scoped", "webhook-silent"),
    *("data-missing", "dockerfile-missing", "env-reserved", "manifest-mismatch", "manifest-missing", "trainjob-misfit"),
}
"""By Kueue's webhooks or its controller; by the API server; by a build."""
OF_CHECKS = {"settings", "rule-failed", "cluster-unreachable"}
"""Without which there is nothing to silence."""


def test_what_others_refuse_cannot_be_silenced() -> None:
    """These rules over an environment, and no others."""
    assert {check.rule.id for check in preflight.RULES.values() if not check.rule.silenceable} < REFUSED
    on_cluster = {check.rule.id for check in against_cluster.RULES.values() if not check.rule.silenceable}
    assert on_cluster == {"kind-missing", "launch-refused", "namespace-unknown", "webhook-silent"}
    assert {rule.id for rule in EVERY if not rule.silenceable} - OF_CHECKS == REFUSED
