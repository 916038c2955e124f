"""StorageClasses and Volumes: the objects that the engine may delete, and their order."""

from typing import Any

from tests.unit.components.declare import declare
from tests.unit.make import make_storage, make_volume
from trainstack.components.storage import StorageClasses, Volumes
from trainstack.settings.sections.storage import PersistentVolume, Storage


def make_args(**changes: Any) -> Storage:
    """Return the class `shared` and the claim `training`."""
    return make_storage(**changes)


def make_disk() -> PersistentVolume:
    """Return a hostPath volume."""
    return PersistentVolume(
        name="disk", storage_class="shared", size="1Gi", access_modes=("ReadWriteOnce",), host_path="/data"
    )


def test_host_path_volumes_depend_on_the_classes_and_are_retained() -> None:
    """The engine never deletes a static volume: its data would be orphaned."""
    found = declare(lambda opts: StorageClasses("storage", make_args(persistent_volumes=(make_disk(),)), opts))
    component, storage_class, disk = (
        found.pop(key) for key in ("StorageClasses storage", "StorageClass shared", "PersistentVolume disk")
    )
    assert not found
    assert component.type == "trainstack:platform:StorageClasses"
    assert component.outputs == {"classes": ["shared"]}
    assert storage_class.parent == disk.parent == "storage"
    assert disk.dependencies == ["shared"]
    assert disk.options["retainOnDelete"] is True
    assert storage_class.options["retainOnDelete"] is False


def test_claims_are_retained_and_protected_by_their_settings() -> None:
    """The deletion of a claim deletes its data."""
    volumes = (make_volume(name="kept"), make_volume(name="scratch", retain=False), make_volume(name="p", protect=True))
    found = declare(lambda opts: Volumes("volumes", make_args(volumes=volumes), opts))
    component = found.pop("Volumes volumes")
    assert component.type == "trainstack:training:Volumes"
    assert component.outputs == {"volumes": ["research/kept", "research/scratch", "research/p"]}
    options = {
        key: (claim.options["retainOnDelete"], claim.options["protect"], claim.parent, claim.dependencies)
        for key, claim in found.items()
    }
    assert options == {
        "PersistentVolumeClaim research/kept": (True, False, "volumes", []),
        "PersistentVolumeClaim research/scratch": (False, False, "volumes", []),
        "PersistentVolumeClaim research/p": (True, True, "volumes", []),
    }
