"""Silences: they take a finding out of what is counted, say why, and cannot hide what others refuse."""

from pathlib import Path

from checks import against_cluster, preflight
from checks.finding import Finding
from settings.checks import Checks, Silence
from settings.model import Settings
from tests.unit.checks.cluster_cases import IMAGES, make_live
from tests.unit.make import make_distributed, make_settings, make_storage, make_volume

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
    entry = Silence(rule="class-missing", path="storage.volumes[training]", reason="comes tomorrow")
    settings = make_settings(
        storage=make_storage(classes=(), volumes=(make_volume(storage_class="shared"),)),
        checks=Checks(silenced=(entry,)),
    )
    assert "silence-unused" not in {each.id for each in preflight.check(settings, EMPTY)}
    (found,) = against_cluster.check(settings, make_live({"StorageClass": ()}), IMAGES)
    assert (found.id, found.silenced) == ("class-missing", "comes tomorrow")
    (unused,) = against_cluster.check(settings, make_live(), IMAGES)
    assert (unused.id, unused.path) == ("silence-unused", "checks.silenced[0]")


REFUSED = {
    *("borrow-without-reclaim", "covered-resources", "framework-unknown", "group-overlap"),
    *("lending-over-nominal", "limit-without-cohort"),
    *("kind-missing", "label-invalid", "launch-refused", "mount-duplicate", "name-derived", "name-duplicate"),
    *("namespace-missing", "resources-refused", "tenant-cluster-scoped", "webhook-silent"),
    *("data-missing", "dockerfile-missing", "env-reserved", "manifest-mismatch", "manifest-missing", "trainjob-misfit"),
}
"""By Kueue's webhooks or its controller; by the API server; by a build."""


def test_what_others_refuse_cannot_be_silenced() -> None:
    """These rules over an environment, and no others."""
    rules = [check.rule for check in preflight.RULES.values()]
    rules += [check.rule for check in against_cluster.RULES.values()]
    assert {rule.id for rule in rules if not rule.silenceable} == REFUSED
