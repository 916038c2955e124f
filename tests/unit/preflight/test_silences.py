"""Silences exclude a finding from the counted ones with a reason, and cannot hide refusals of other programs."""

from pathlib import Path

from tests.unit.make import make_distributed, make_run, make_settings, make_storage, make_volume
from tests.unit.preflight.cluster_cases import IMAGES, make_live
from tests.unit.preflight.cluster_cases import check as check_cluster
from trainstack.preflight import cluster_checks, file_checks
from trainstack.preflight.all_rules import ALL_RULES
from trainstack.preflight.finding import Finding
from trainstack.preflight.live_context import LiveCluster, LiveContext
from trainstack.settings.model import Settings
from trainstack.settings.sections.checks import Checks, Silence
from trainstack.settings.sections.environment import Environment, Existing, Namespace
from trainstack.stack_objects.stack_objects import StackObjects

EMPTY = Path("/nonexistent")
ONE_POD = make_storage(volumes=(make_volume(access_modes=("ReadWriteOncePod",)),))


def make_silenced(*entries: tuple[str, str]) -> Settings:
    """Return an environment with an error at `workloads.runs[train].volumes[0].volume` and these silences."""
    silences = tuple(Silence(rule=rule, path=path, reason=f"reason {path}") for rule, path in entries)
    return make_settings(make_distributed(), storage=ONE_POD, checks=Checks(silenced=silences))


def check(*entries: tuple[str, str]) -> list[Finding]:
    """Return the findings about that environment."""
    return file_checks.check(make_silenced(*entries), EMPTY)


def test_a_silenced_error_stops_nothing_and_keeps_its_reason() -> None:
    """The silence has the path of the finding, or an enclosing one."""
    for path in ("workloads.runs[train].volumes[0].volume", "workloads.runs[train]", "workloads"):
        (found,) = check(("volume-one-pod", path))
        assert (found.id, found.severity, found.silence_reason, found.is_blocking) == (
            "volume-one-pod",
            "error",
            f"reason {path}",
            False,
        )


def test_a_silence_applies_to_one_rule_and_one_place() -> None:
    """A silence of another rule, or of a path with only the same prefix, has no effect."""
    # Without a cluster, a silence of a rule over clusters may be used there.
    for rule, path, unused in (
        ("volume-one-pod", "workloads.runs[train", []),
        ("data-unmounted", "workloads.runs[train]", [("silence-unused", False)]),
    ):
        findings = check((rule, path))
        assert [(finding.id, finding.is_blocking) for finding in findings] == [("volume-one-pod", True), *unused]


def test_silenced_findings_are_last() -> None:
    """They follow all counted findings, including warnings."""
    findings = check(("volume-one-pod", "workloads"), ("data-unmounted", "workloads"))
    assert [finding.id for finding in findings] == ["silence-unused", "volume-one-pod"]


def test_rules_over_a_cluster_are_silenced_where_the_cluster_is_read() -> None:
    """The files alone cannot show whether such a silence is used."""
    entry = Silence(rule="storage-class-unknown", path="storage.volumes[training]", reason="comes tomorrow")
    settings = make_settings(
        storage=make_storage(classes=(), volumes=(make_volume(storage_class="shared"),)),
        checks=Checks(silenced=(entry,)),
    )
    assert "silence-unused" not in {finding.id for finding in file_checks.check(settings, EMPTY)}
    (found,) = check_cluster(settings, make_live({"StorageClass": ()}), IMAGES)
    assert (found.id, found.silence_reason) == ("storage-class-unknown", "comes tomorrow")
    (unused,) = check_cluster(settings, make_live(), IMAGES)
    assert (unused.id, unused.path) == ("silence-unused", "checks.silenced[0]")


def on_cluster(settings: Settings, live: LiveCluster) -> list[Finding]:
    """Return the findings of `check --cluster` in addition to those of the files."""
    in_files = file_checks.check(settings, EMPTY)
    return cluster_checks.examine(LiveContext(StackObjects(settings), live, IMAGES), file_findings=in_files).findings


def test_a_finding_on_the_cluster_is_silenced() -> None:
    """The volume's class is among the existing ones, and the cluster may lack it."""
    entry = Silence(rule="storage-class-unknown", path="storage.volumes[training]", reason="comes tomorrow")
    environment = Environment(
        namespaces=(Namespace(name="research"),), existing=Existing(storage_classes=("nfs",), namespaces=("gone",))
    )
    storage = make_storage(classes=(), volumes=(make_volume(storage_class="nfs"),))
    settings = make_settings(storage=storage, environment=environment, checks=Checks(silenced=(entry,)))
    (finding,) = on_cluster(settings, make_live())
    assert (finding.id, finding.path, finding.silence_reason, finding.is_blocking) == (
        "storage-class-unknown",
        "storage.volumes[training].storageClass",
        "comes tomorrow",
        False,
    )
    assert file_checks.check(settings, EMPTY) == []


def test_a_silence_of_files_and_cluster_is_unused_where_neither_has_the_finding() -> None:
    """The files alone cannot show it, and the findings of the files count on the cluster."""
    entry = Silence(rule="queue-unknown", path="workloads.runs[train]", reason="comes tomorrow")
    used, unused = (
        make_settings(make_run(queue=queue), checks=Checks(silenced=(entry,))) for queue in ("x", "research")
    )
    assert [(finding.id, finding.silence_reason) for finding in file_checks.check(used, EMPTY)] == [
        ("queue-unknown", "comes tomorrow")
    ]
    assert [finding.id for finding in on_cluster(used, make_live())] == ["queue-unknown"]
    assert file_checks.check(unused, EMPTY) == []
    assert [finding.id for finding in on_cluster(unused, make_live())] == ["silence-unused"]


def test_a_finding_of_the_files_is_not_repeated_on_the_cluster() -> None:
    """One fault has one finding; without the files the cluster shows it."""
    settings = make_settings(make_run(queue="reserch"))
    assert [finding.id for finding in file_checks.check(settings, EMPTY)] == ["queue-unknown"]
    assert on_cluster(settings, make_live()) == []
    assert [finding.id for finding in check_cluster(settings, make_live(), IMAGES)] == ["queue-unknown"]


def test_a_namespace_that_the_cluster_lacks_cannot_be_silenced() -> None:
    """A missing declaration can: another owner may have created the namespace."""
    entry = Silence(rule="namespace-unknown", path="storage.volumes[training]", reason="made by hand")
    volumes = (make_volume(namespace="elsewhere"),)
    settings = make_settings(storage=make_storage(volumes=volumes), checks=Checks(silenced=(entry,)))
    assert [(finding.id, finding.silence_reason) for finding in file_checks.check(settings, EMPTY)] == [
        ("namespace-unknown", "made by hand")
    ]
    missing = make_live(namespaces={"research": True, "elsewhere": False})
    (found,) = on_cluster(settings, missing)
    assert (found.id, found.is_blocking) == ("namespace-unknown", True)
    existing = make_live(namespaces={"research": True, "elsewhere": True})
    assert on_cluster(settings, existing) == []
    unused = make_settings(checks=Checks(silenced=(entry,)))
    assert [finding.id for finding in on_cluster(unused, make_live())] == ["silence-unused"]


REFUSED = {
    *("borrow-without-reclaim", "covered-resources", "feature-gate-unknown", "framework-unknown"),
    "group-overlap",
    *("lending-over-nominal", "limit-without-cohort", "multikueue-checks", "multikueue-parameters"),
    *("kind-missing", "label-invalid", "launch-refused", "mount-duplicate", "name-derived", "name-duplicate"),
    *("manifest-invalid", "object-too-large", "patch-invalid", "patch-refused", "pod-resources-refused"),
    *("object-adoption-unknown", "object-data-too-large", "object-duplicate", "object-namespace-missing"),
    *("object-other-section", "object-reserved"),
    *("program-refused", "resources-refused", "tenant-cluster-scoped", "webhook-silent"),
    *("data-missing", "dockerfile-missing", "env-reserved", "manifest-mismatch", "manifest-missing"),
    *("trainjob-limit", "trainjob-misfit"),
}
"""Rules whose faults Kueue's webhooks or its controller, the API server, or a build refuses."""
OF_CHECKS = {"settings", "rule-failed", "cluster-unreachable"}
"""Findings about the checks themselves."""


def test_faults_that_other_programs_refuse_cannot_be_silenced() -> None:
    """All other rules can be."""
    assert {check.rule.id for check in file_checks.RULES.values() if not check.rule.silenceable} < REFUSED
    on_cluster = {check.rule.id for check in cluster_checks.RULES.values() if not check.rule.silenceable}
    assert on_cluster == {"kind-missing", "launch-refused", "namespace-unknown", "trainjob-limit", "webhook-silent"}
    assert {rule.id for rule in ALL_RULES if not rule.silenceable} - OF_CHECKS == REFUSED
