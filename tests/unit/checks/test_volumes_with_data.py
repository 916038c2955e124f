"""A volume with data is neither deleted nor replaced unless the change names it, and never under a pod."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.make import make_settings, make_storage, make_volume
from trainstack.guards.volumes import Danger, dangers, judge, mounting
from trainstack.settings.errors import Place
from trainstack.settings.sections.environment import Environment
from trainstack.settings.sections.storage import PersistentVolume, Volume

PLACES = {"storage.volumes": Place("Pulumi.dev.yaml", 3)}
CLAIM = "research/training"


def make_claim(volume: Volume | None = None, *, retain: str | None = "false", **spec: Any) -> dict[str, Any]:
    """The live claim of a volume, bound; as the last `up` made it."""
    volume = volume or make_volume()
    annotations = {} if retain is None else {"trainstack.dev/retain": retain}
    labels = {"trainstack.dev/stack": make_settings().stack}
    held = {
        "storageClassName": volume.storage_class,
        "accessModes": list(volume.access_modes),
        "resources": {"requests": {"storage": volume.size}},
        "volumeName": "pv-1",
    }
    metadata = {"namespace": volume.namespace, "name": volume.name, "labels": labels, "annotations": annotations}
    return {"metadata": metadata, "spec": {**held, **spec}}


def find(*claims: Mapping[str, Any], volumes: tuple[Volume, ...] = (), **environment: Any) -> tuple[Danger, ...]:
    """What an environment with these volumes would harm of these claims."""
    settings = make_settings(
        storage=make_storage(volumes=volumes),
        environment=Environment(**{"layers": ("platform", "training"), **environment}),
    )
    return dangers(settings, claims, (), PLACES.get)


def test_a_claim_as_it_is_declared_is_in_no_danger() -> None:
    """Nor one that grows, that another stack or nobody made, that is retained, empty or going, of those not named."""
    assert find(make_claim(), volumes=(make_volume(size="3Gi"),)) == ()
    foreign, going = make_claim(), make_claim()
    foreign["metadata"]["labels"] = {"trainstack.dev/stack": "other"}
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    empty = make_claim()
    del empty["spec"]["volumeName"]
    assert find(foreign, going, empty, make_claim(retain=None)) == ()


@pytest.mark.parametrize("layers", [("platform", "training"), ("platform",)])
def test_a_claim_that_nothing_names_any_more_would_go(layers: tuple[str, ...]) -> None:
    """Because its entry was taken out, or the half that has it."""
    volumes = () if "training" in layers else (make_volume(),)
    (danger,) = find(make_claim(), volumes=volumes, layers=layers)
    assert danger == Danger(
        CLAIM,
        "Pulumi.dev.yaml:3: storage.volumes: PersistentVolumeClaim research/training is no longer declared, and this "
        "change would delete it with its data (volume pv-1)",
        "",
    )


@pytest.mark.parametrize(
    ("spec", "said"),
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
def test_an_edit_that_replaces_a_claim_is_a_danger(spec: dict[str, Any], said: str) -> None:
    """With the place, the value there and the value here; one that is retained or protected is never replaced."""
    (danger,) = find(make_claim(**spec), volumes=(make_volume(retain=False),))
    told = f"storage.volumes[training].{said.format(CLAIM)} declared: the field is immutable"
    assert danger == Danger(CLAIM, f"{told}, and this change would replace the claim with an empty one", "")
    (retained,) = find(make_claim(retain=None, **spec), volumes=(make_volume(retain=False),))
    assert "set `retain: false`, run `up`, then add the claim to storage.discard" in retained.remedy
    (protected,) = find(make_claim(**spec), volumes=(make_volume(protect=True),))
    assert protected.remedy.startswith("it is protected: undo the edit")


def test_a_claim_never_becomes_smaller() -> None:
    """The API server does not take it, and naming the claim does not help."""
    (danger,) = find(make_claim(), volumes=(make_volume(size="1Gi"),))
    assert danger.effect.endswith("has size 2Gi, and 1Gi is declared: a claim cannot be shrunk")
    assert danger.remedy


def test_a_claim_that_is_taken_over_is_held_to_the_same() -> None:
    """Of another mark, it is only ever compared where the environment adopts it."""
    theirs = make_claim(storageClassName="old")
    theirs["metadata"]["labels"] = {}
    assert find(theirs, volumes=(make_volume(),)) == ()
    assert len(find(theirs, volumes=(make_volume(adopt=True),))) == 1


def test_a_volume_on_a_host_stays_on_its_folder() -> None:
    """The folder is the data."""
    one = PersistentVolume(
        name="one", storage_class="local", size="1Gi", access_modes=("ReadWriteMany",), host_path="/b"
    )
    settings = make_settings(storage=make_storage(persistent_volumes=(one,)))
    live: dict[str, Any] = {"metadata": {"name": "one"}, "spec": {"hostPath": {"path": "/b", "type": "Directory"}}}
    assert dangers(settings, (), (live,), PLACES.get) == ()
    live["spec"]["hostPath"] = {"path": "/a"}
    (danger,) = dangers(settings, (), (live,), PLACES.get)
    assert danger.effect.startswith(
        "storage.persistentVolumes[one].hostPath: PersistentVolume one has hostPath /a, and /b is declared"
    )
    assert danger.remedy


def test_data_goes_only_when_it_is_named_and_nobody_uses_it() -> None:
    """A refusal names the remedy; a pod that mounts it is named; an entry that names nothing is told."""
    danger = Danger(CLAIM, "it would go", "")
    remedy = "undo the edit, or allow the loss of its data: trainstack:storage: discard: [research/training]"
    assert judge([danger], (), {}) == ((f"it would go; {remedy}",), ())
    assert judge([danger], (CLAIM,), {}) == ((), ("it would go; storage.discard allows it",))
    refusals, notes = judge([danger], (CLAIM,), {CLAIM: ("pod research/a",)})
    assert notes == ()
    (refusal,) = refusals
    assert refusal.startswith("it would go. It is mounted by pod research/a, so it is not discarded: wait until")
    assert judge([Danger(CLAIM, "it would go", "keep it")], (CLAIM,), {}) == (("it would go; keep it",), ())
    said = "discard names research/other, which this change neither deletes nor replaces: remove the entry"
    assert judge([], ("research/other",), {}) == ((), (said,))


def test_pods_mount_claims_until_they_have_ended() -> None:
    """Waiting ones count: their claim must not go either."""

    def make_pod(name: str, phase: str, *claims: str) -> dict[str, Any]:
        volumes = [{"persistentVolumeClaim": {"claimName": each}} for each in claims]
        spec = {"volumes": [{"emptyDir": {}}, *volumes]}
        return {"metadata": {"namespace": "research", "name": name}, "spec": spec, "status": {"phase": phase}}

    pods = [make_pod("a", "Running", "x"), make_pod("b", "Pending", "x", "y"), make_pod("c", "Succeeded", "x")]
    assert mounting(pods) == {"research/x": ("pod research/a", "pod research/b"), "research/y": ("pod research/b",)}
