"""A volume with data is deleted or replaced only if `discard` names it, and never while a pod mounts it."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.make import make_settings, make_storage, make_volume
from trainstack.guards.volumes import VolumeDanger, decide_discards, find_dangers, find_mounting_pods
from trainstack.settings.errors import Place
from trainstack.settings.sections.environment import Environment
from trainstack.settings.sections.objects import Objects
from trainstack.settings.sections.storage import PersistentVolume, Volume
from trainstack.settings.values.paths import nearest_place

PLACES = {"storage.volumes": Place("Pulumi.dev.yaml", 3)}
CLAIM = "research/training"


def make_claim(volume: Volume | None = None, *, retain: str | None = "false", **spec: Any) -> dict[str, Any]:
    """Return the live, bound claim of a volume as the last `up` created it."""
    volume = volume or make_volume()
    annotations = {} if retain is None else {"trainstack.dev/retain": retain}
    labels = {"trainstack.dev/stack": make_settings().stack}
    declared = {
        "storageClassName": volume.storage_class,
        "accessModes": list(volume.access_modes),
        "resources": {"requests": {"storage": volume.size}},
        "volumeName": "pv-1",
    }
    metadata = {"namespace": volume.namespace, "name": volume.name, "labels": labels, "annotations": annotations}
    return {"metadata": metadata, "spec": {**declared, **spec}}


def find(*claims: Mapping[str, Any], volumes: tuple[Volume, ...] = (), **environment: Any) -> tuple[VolumeDanger, ...]:
    """Return the dangers of an environment with these volumes for these claims."""
    settings = make_settings(
        storage=make_storage(volumes=volumes),
        environment=Environment(**{"layers": ("platform", "training"), **environment}),
    )
    return find_dangers(settings, claims, (), PLACES.get)


def test_a_claim_that_matches_its_declaration_is_in_no_danger() -> None:
    """A growing claim is safe too, and so are undeclared claims that are foreign, retained, unbound or terminating."""
    assert find(make_claim(), volumes=(make_volume(size="3Gi"),)) == ()
    foreign, terminating = make_claim(), make_claim()
    foreign["metadata"]["labels"] = {"trainstack.dev/stack": "other"}
    terminating["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    empty = make_claim()
    del empty["spec"]["volumeName"]
    assert find(foreign, terminating, empty, make_claim(retain=None)) == ()


@pytest.mark.parametrize("layers", [("platform", "training"), ("platform",)])
def test_a_claim_that_is_no_longer_declared_is_in_danger(layers: tuple[str, ...]) -> None:
    """Its entry was removed, or the layer that has it."""
    volumes = () if "training" in layers else (make_volume(),)
    (danger,) = find(make_claim(), volumes=volumes, layers=layers)
    assert danger == VolumeDanger(
        CLAIM,
        "Pulumi.dev.yaml:3: storage.volumes: PersistentVolumeClaim research/training is no longer declared, and this "
        "change would delete it with its data (volume pv-1)",
        "",
    )


@pytest.mark.parametrize(
    ("spec", "difference"),
    [
        ({"storageClassName": "old"}, "storageClass: PersistentVolumeClaim {} has storageClass old, and shared is"),
        (
            {"accessModes": ["ReadWriteOnce"]},
            "accessModes: PersistentVolumeClaim {} has accessModes ReadWriteOnce, and ReadWriteMany is",
        ),
        (
            {"selector": {"matchLabels": {"for": "models"}}},
            "selector: PersistentVolumeClaim {} has selector {{'for': 'models'}}, and none is",
        ),
    ],
)
def test_an_edit_that_replaces_a_claim_is_a_danger(spec: dict[str, Any], difference: str) -> None:
    """The message has the place and both values. A retained or protected claim is never replaced."""
    (danger,) = find(make_claim(**spec), volumes=(make_volume(retain=False),))
    message = f"storage.volumes[training].{difference.format(CLAIM)} declared: the field is immutable"
    assert danger == VolumeDanger(CLAIM, f"{message}, and this change would replace the claim with an empty one", "")
    (retained,) = find(make_claim(retain=None, **spec), volumes=(make_volume(retain=False),))
    assert "set `retain: false`, run `up`, then add the claim to storage.discard" in retained.remedy
    (protected,) = find(make_claim(**spec), volumes=(make_volume(protect=True),))
    assert protected.remedy.startswith("it is protected: undo the edit")


def test_a_claim_never_becomes_smaller() -> None:
    """The API server refuses it, and an entry in `discard` does not help."""
    (danger,) = find(make_claim(), volumes=(make_volume(size="1Gi"),))
    assert danger.effect.endswith("has size 2Gi, and 1Gi is declared: a claim cannot be shrunk")
    assert danger.remedy


def test_an_adopted_claim_is_compared_too() -> None:
    """A claim without the stack's label is compared only if the environment adopts it."""
    foreign = make_claim(storageClassName="old")
    foreign["metadata"]["labels"] = {}
    assert find(foreign, volumes=(make_volume(),)) == ()
    assert len(find(foreign, volumes=(make_volume(adopt=True),))) == 1


def test_a_change_of_a_host_path_is_a_danger() -> None:
    """The folder has the data."""
    volume = PersistentVolume(
        name="one", storage_class="local", size="1Gi", access_modes=("ReadWriteMany",), host_path="/b"
    )
    settings = make_settings(storage=make_storage(persistent_volumes=(volume,)))
    live: dict[str, Any] = {"metadata": {"name": "one"}, "spec": {"hostPath": {"path": "/b", "type": "Directory"}}}
    assert find_dangers(settings, (), (live,), PLACES.get) == ()
    live["spec"]["hostPath"] = {"path": "/a", "type": "Directory"}
    (danger,) = find_dangers(settings, (), (live,), PLACES.get)
    assert danger.effect.startswith(
        "storage.persistentVolumes[one].hostPath: PersistentVolume one has hostPath /a, and /b is declared"
    )
    assert danger.remedy


def test_data_is_deleted_only_if_discard_names_it_and_no_pod_uses_it() -> None:
    """A refusal has the remedy and the pods that mount the claim; a note reports an unused entry."""
    danger = VolumeDanger(CLAIM, "it would go", "")
    remedy = "undo the edit, or allow the loss of its data: trainstack:storage: discard: [research/training]"
    assert decide_discards([danger], (), {}) == ((f"it would go; {remedy}",), ())
    assert decide_discards([danger], (CLAIM,), {}) == ((), ("it would go; storage.discard allows it",))
    refusals, notes = decide_discards([danger], (CLAIM,), {CLAIM: ("pod research/a",)})
    assert notes == ()
    (refusal,) = refusals
    assert refusal.startswith("it would go. It is mounted by pod research/a, so it is not discarded: wait until")
    assert decide_discards([VolumeDanger(CLAIM, "it would go", "keep it")], (CLAIM,), {}) == (
        ("it would go; keep it",),
        (),
    )
    note = "discard names research/other, which this change neither deletes nor replaces: remove the entry"
    assert decide_discards([], ("research/other",), {}) == ((), (note,))


def test_pods_mount_claims_until_they_have_ended() -> None:
    """Pending pods count: their claim must not be deleted either."""

    def make_pod(name: str, phase: str, *claims: str) -> dict[str, Any]:
        volumes = [{"persistentVolumeClaim": {"claimName": claim}} for claim in claims]
        spec = {"volumes": [{"emptyDir": {}}, *volumes]}
        return {"metadata": {"namespace": "research", "name": name}, "spec": spec, "status": {"phase": phase}}

    pods = [make_pod("a", "Running", "x"), make_pod("b", "Pending", "x", "y"), make_pod("c", "Succeeded", "x")]
    assert find_mounting_pods(pods) == {
        "research/x": ("pod research/a", "pod research/b"),
        "research/y": ("pod research/b",),
    }


def find_place_in_file(path: str) -> Place | None:
    """Return the place of the only object of a file."""
    return nearest_place({"objects.manifests[0]": Place("volumes.yaml", 1)}, path)


def find_in_objects(manifest: dict[str, Any], *claims: Mapping[str, Any]) -> tuple[VolumeDanger, ...]:
    """Return the dangers of an environment whose section `objects` has a volume, which is also a live one."""
    settings = make_settings(storage=make_storage(volumes=()), objects=Objects(manifests=(manifest,)))
    return find_dangers(settings, claims, (manifest,), find_place_in_file)


def test_a_claim_of_other_objects_passes_the_same_guard() -> None:
    """It is not in danger as it is; an edit names the path in the manifest."""
    live = make_claim(retain=None)
    spec = {key: value for key, value in live["spec"].items() if key != "volumeName"}
    manifest = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "training"}, "spec": spec}
    assert find_in_objects(manifest, live) == ()
    (danger,) = find_in_objects({**manifest, "spec": {**spec, "storageClassName": "other"}}, live)
    assert danger.effect == (
        "volumes.yaml:1: objects.manifests[0].spec.storageClassName: PersistentVolumeClaim research/training has "
        "storageClass shared, and other is declared: the field is immutable, and the claim is retained"
    )
    assert 'annotate it with trainstack.dev/retain: "false", run `up`' in danger.remedy
    (danger,) = find_in_objects({**manifest, "spec": {**spec, "resources": {"requests": {"storage": "1Gi"}}}}, live)
    assert "objects.manifests[0].spec.resources.requests.storage" in danger.effect
    assert danger.effect.endswith("has size 2Gi, and 1Gi is declared: a claim cannot be shrunk")


def test_a_persistent_volume_of_other_objects_keeps_its_source() -> None:
    modes = ["ReadOnlyMany"]
    spec = {
        "accessModes": modes,
        "capacity": {"storage": "1Gi"},
        "nfs": {"server": "a", "path": "/data"},
        "volumeMode": "Filesystem",
    }
    manifest = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "data"}, "spec": spec}
    assert find_in_objects(manifest) == ()
    live = {**manifest, "spec": {**spec, "nfs": {"server": "b", "path": "/data"}}}
    settings = make_settings(objects=Objects(manifests=(manifest,)))
    (danger,) = find_dangers(settings, (), (live,), find_place_in_file)
    assert danger.effect.startswith(
        "volumes.yaml:1: objects.manifests[0].spec.nfs: PersistentVolume data has source.nfs"
    )
