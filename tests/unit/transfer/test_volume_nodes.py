"""The nodes on which a data loader can mount a volume."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.unit.make import make_settings, make_storage, make_volume
from trainstack.live.client import Answer
from trainstack.transfer import volume_nodes
from trainstack.transfer.errors import TransferError
from trainstack.transfer.volume_nodes import nodes_of_volume

CLAIM_PATH = "/api/v1/namespaces/research/persistentvolumeclaims/training"


def make_pod(name: str, node: str | None, *, claim: str = "training", deleted: bool = False) -> dict[str, Any]:
    """Return a pod that mounts a claim."""
    volumes = [{"name": "scratch", "emptyDir": {}}, {"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
    return {
        "metadata": {"name": name, **({"deletionTimestamp": "2026-01-02T03:04:05Z"} if deleted else {})},
        "spec": {"volumes": volumes, **({"nodeName": node} if node else {})},
    }


def serve(monkeypatch: pytest.MonkeyPatch, claim: Answer, *pods: dict[str, Any]) -> list[str]:
    """Serve this claim and these pods; return the list of the paths that are read."""
    paths_read: list[str] = []

    def read(paths: Sequence[str], _: str | None) -> dict[str, Answer]:
        paths_read.extend(paths)
        return {
            path: claim if "/persistentvolumeclaims/" in path else Answer(200, {"items": [*pods]}) for path in paths
        }

    monkeypatch.setattr(volume_nodes, "read", read)
    return paths_read


def make_claim(*modes: str) -> Answer:
    """Return the claim `training`."""
    return Answer(200, {"spec": {"accessModes": [*modes]}})


def test_a_loader_joins_the_pods_on_the_node_of_a_block_volume(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would wait for the volume elsewhere. Pods without a node, or of other claims, do not count."""
    pods = (
        make_pod("train", "a"),
        make_pod("evaluate", "a", deleted=True),
        make_pod("queued", None),
        make_pod("other", "b", claim="results"),
    )
    paths_read = serve(monkeypatch, make_claim("ReadWriteOnce"), *pods)
    assert nodes_of_volume(make_settings(), "research", "training") == ["a"]
    assert paths_read == [
        CLAIM_PATH,
        "/api/v1/namespaces/research/pods?fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed",
    ]


@pytest.mark.parametrize("modes", [("ReadWriteMany",), ("ReadWriteOnce", "ReadWriteMany"), ("ReadOnlyMany",)])
def test_a_shared_volume_is_mounted_anywhere(monkeypatch: pytest.MonkeyPatch, modes: tuple[str, ...]) -> None:
    """No pods are read."""
    paths_read = serve(monkeypatch, make_claim(*modes), make_pod("train", "a"))
    assert (nodes_of_volume(make_settings(), "research", "training"), paths_read) == ([], [CLAIM_PATH])


def test_a_claim_that_may_not_be_read_has_the_modes_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing claim is reported when its loader does not start."""
    once = make_settings(storage=make_storage(volumes=(make_volume(access_modes=("ReadWriteOnce",)),)))
    for status, settings, nodes in ((403, once, ["a"]), (403, make_settings(), []), (404, once, ["a"])):
        serve(monkeypatch, Answer(status, {}), make_pod("train", "a"))
        assert nodes_of_volume(settings, "research", "training") == nodes
    serve(monkeypatch, Answer(404, {}), make_pod("train", "a"))
    assert nodes_of_volume(once, "research", "other") == []


def test_a_volume_of_one_pod_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the pod; one that is being deleted does not count, nor does one without a node."""
    serve(monkeypatch, make_claim("ReadWriteOncePod"), make_pod("queued", None), make_pod("train", "a"))
    with pytest.raises(TransferError) as caught:
        nodes_of_volume(make_settings(), "research", "training")
    assert str(caught.value) == (
        "pod research/train mounts volume training, which only one pod can mount (ReadWriteOncePod); wait until the "
        "pod has ended, or give the volume ReadWriteOnce"
    )
    serve(monkeypatch, make_claim("ReadWriteOncePod"), make_pod("train", "a", deleted=True), make_pod("queued", None))
    assert nodes_of_volume(make_settings(), "research", "training") == ["a"]
