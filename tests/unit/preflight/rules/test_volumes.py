"""Claims of other owners, and volumes that a claim names or that are reserved for one."""

from pathlib import Path

import pytest

from tests.unit.make import make_distributed, make_mount, make_run, make_settings, make_storage, make_volume
from trainstack.preflight.file_checks import check
from trainstack.settings.model import Settings
from trainstack.settings.sections.environment import Environment, Existing, ExistingVolume, Namespace
from trainstack.settings.sections.storage import AccessMode, PersistentVolume
from trainstack.settings.sections.workloads import Workload

EMPTY = Path("/nonexistent")
SHARED: tuple[AccessMode, ...] = ("ReadWriteMany",)


def with_claim_of_another_owner(run: Workload, *access_modes: AccessMode, name: str = "data") -> Settings:
    """Return an environment whose run also mounts the claim `data`."""
    existing = Existing(volumes=(ExistingVolume(name=name, namespace="research", access_modes=access_modes or None),))
    mounts = (*run.volumes, make_mount(volume="data", mount_path="/data"))
    return make_settings(
        run.model_copy(update={"volumes": mounts}),
        environment=Environment(namespaces=(Namespace(name="research"),), existing=existing),
    )


def rules(settings: Settings) -> list[str]:
    return [finding.id for finding in check(settings, EMPTY)]


def test_a_claim_of_another_owner_is_mounted_without_a_declaration() -> None:
    """The files do not show its access modes, unless they are listed."""
    assert rules(with_claim_of_another_owner(make_distributed())) == []
    assert rules(with_claim_of_another_owner(make_distributed(), "ReadWriteMany")) == []
    assert rules(with_claim_of_another_owner(make_distributed(), "ReadWriteOnce")) == ["volume-one-node"]
    assert rules(with_claim_of_another_owner(make_distributed(), "ReadWriteOncePod")) == ["volume-one-pod"]
    assert rules(with_claim_of_another_owner(make_run(), "ReadOnlyMany")) == ["volume-read-only"]
    assert rules(with_claim_of_another_owner(make_run(), name="date")) == ["volume-unknown"]


def test_a_claim_is_either_declared_or_of_another_owner() -> None:
    settings = with_claim_of_another_owner(make_run(), name="training")
    assert "name-duplicate" in rules(settings)


def make_persistent_volume(name: str = "disk", **changes: object) -> PersistentVolume:
    """Return a volume without a class."""
    source = {"nfs": {"server": "10.0.0.2", "path": "/data"}}
    base = {"name": name, "size": "2Gi", "access_modes": SHARED, "source": source}
    return PersistentVolume.model_validate({**base, **changes})


@pytest.mark.parametrize(
    ("claim", "reserved_for", "message"),
    [
        ({}, None, ""),
        ({"volume_name": "disk"}, "research/training", ""),
        ({"volume_name": "of-another-stack"}, None, ""),
        ({}, "research/other", "no volume without a class matches: disk is reserved for research/other"),
        ({"size": "4Gi"}, None, "no volume without a class matches: disk has 2Gi of 4Gi"),
    ],
)
def test_a_claim_without_a_class_needs_a_volume_without_one(
    claim: dict[str, str], reserved_for: str | None, message: str
) -> None:
    volumes = (make_volume(**{"storage_class": "", **claim}),)
    storage = make_storage(
        classes=(), persistent_volumes=(make_persistent_volume(claim=reserved_for),), volumes=volumes
    )
    found = [finding.message for finding in check(make_settings(storage=storage), EMPTY)]
    assert found == ([message] if message else [])


def test_a_claim_that_names_another_volume_does_not_bind() -> None:
    storage = make_storage(
        classes=(),
        persistent_volumes=(make_persistent_volume("disk"), make_persistent_volume("tape", size="1Gi")),
        volumes=(make_volume(storage_class="", volume_name="tape"),),
    )
    (finding,) = check(make_settings(storage=storage), EMPTY)
    assert finding.message == (
        "no volume without a class matches: disk is not tape, which the claim names; tape has 1Gi of 2Gi"
    )
