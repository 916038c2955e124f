"""Objects of section `objects` that no rule refuses."""

from pathlib import Path

from tests.unit.make import make_settings
from tests.unit.preflight.object_cases import declaring, make_manifest_of
from trainstack.preflight.file_checks import check
from trainstack.settings.sections.environment import Environment, Existing

EMPTY = Path("/nonexistent")


def test_objects_of_any_other_kind_have_no_finding() -> None:
    """Kinds of other definitions may be in a namespace or not, and a claim may be deleted with the stack."""
    settings = declaring(
        make_manifest_of("ServiceAccount"),
        make_manifest_of("CronJob", version="batch/v1"),
        make_manifest_of("ClusterRole", version="rbac.authorization.k8s.io/v1"),
        make_manifest_of("ClusterIssuer", version="cert-manager.io/v1"),
        make_manifest_of("PersistentVolumeClaim", annotations={"trainstack.dev/retain": "false"}),
        adopt=("ServiceAccount research/reader", "ClusterRole reader"),
    )
    assert check(settings, EMPTY) == []


def test_a_claim_of_the_section_can_be_mounted() -> None:
    """The name of a mounted volume may be that of such a claim."""
    settings = declaring(make_manifest_of("PersistentVolumeClaim", "models"))
    (volume,) = (volume for volume in settings.mountable_volumes if volume.name == "models")
    assert (volume.namespace, volume.access_modes) == ("research", ("ReadOnlyMany",))


def test_a_claim_of_two_sections_is_a_duplicate() -> None:
    settings = declaring(make_manifest_of("PersistentVolumeClaim", "training"))
    assert [(finding.id, finding.message) for finding in check(settings, EMPTY)] == [
        ("name-duplicate", "research/training is listed 2 times")
    ]


def test_a_tenant_declares_only_objects_of_its_namespaces() -> None:
    environment = Environment(profile="tenant", layers=("training",), existing=Existing(namespaces=("research",)))
    settings = declaring(
        make_manifest_of("ServiceAccount"),
        make_manifest_of("ClusterRole", version="rbac.authorization.k8s.io/v1"),
        environment=environment,
        queues=make_settings().queues.model_copy(
            update=dict.fromkeys(("flavors", "cohorts", "cluster_queues", "priority_classes", "local_queues"), ())
        ),
    )
    findings = [finding for finding in check(settings, EMPTY) if finding.path.startswith("objects")]
    assert [(finding.id, finding.path) for finding in findings] == [("tenant-cluster-scoped", "objects.manifests[1]")]
