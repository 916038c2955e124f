"""TrainJobs that were queued before an upgrade, against a small API server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.components.patch_server import PatchServer, patch_server
from trainstack.components.queued_trainjobs import add_runtime_patches

ROOT = "/apis/trainer.kubeflow.org/v1alpha1"
ENTRY = {"manager": "kueue.x-k8s.io/manager", "trainingRuntimeSpec": {"template": {"spec": {}}}}
OTHER_ENTRY = {"manager": "example.com/other"}


def make_trainjob(name: str, **spec: Any) -> dict[str, Any]:
    """Return a TrainJob in a queue."""
    labels = {"kueue.x-k8s.io/queue-name": "research"}
    metadata = {"namespace": "a", "name": name, "uid": name, "resourceVersion": "7", "labels": labels}
    return {"kind": "TrainJob", "metadata": metadata, "spec": spec}


def path_of(name: str) -> str:
    return f"{ROOT}/namespaces/a/trainjobs/{name}"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PatchServer]:
    """Start a server with TrainJobs in each state."""
    trainjobs = [
        make_trainjob("queued", suspend=True),
        make_trainjob("patched", suspend=True, runtimePatches=[OTHER_ENTRY]),
        make_trainjob("current", suspend=True, runtimePatches=[ENTRY]),
        make_trainjob("running", suspend=False),
    ]
    bodies = {path_of(trainjob["metadata"]["name"]): trainjob for trainjob in trainjobs}
    items = {"kind": "TrainJobList", "metadata": {}, "items": trainjobs}
    with patch_server({f"{ROOT}/trainjobs": items, **bodies}, tmp_path, monkeypatch) as api_server:
        yield api_server


def test_suspended_trainjobs_get_the_entry_of_kueue(server: PatchServer) -> None:
    """Entries of others stay; a TrainJob that runs, or has the entry, is not written."""
    assert add_runtime_patches(None) == []
    assert sorted(server.patches) == [
        (path_of("patched"), {"metadata": {"resourceVersion": "7"}, "spec": {"runtimePatches": [OTHER_ENTRY, ENTRY]}}),
        (path_of("queued"), {"metadata": {"resourceVersion": "7"}, "spec": {"runtimePatches": [ENTRY]}}),
    ]


def test_a_changed_trainjob_is_read_again(server: PatchServer) -> None:
    """The second read shows that Kueue has started it."""
    server.refused["PATCH", path_of("queued")] = 409
    server.bodies[path_of("queued")] = make_trainjob("queued", suspend=False)
    assert add_runtime_patches(None) == []
    assert [path for path, _ in server.patches].count(path_of("queued")) == 1


def test_a_refusal_is_a_note(server: PatchServer) -> None:
    server.refused["PATCH", path_of("queued")] = 403
    assert add_runtime_patches(None) == [
        f"TrainJob a/queued cannot start when it is admitted: PATCH {path_of('queued')} was refused (403: not allowed)"
    ]


def test_a_list_that_may_not_be_read_is_a_note(server: PatchServer) -> None:
    server.refused["GET", f"{ROOT}/trainjobs"] = 403
    (note,) = add_runtime_patches(None)
    assert note.endswith("may not start: the list was refused (403)")


def test_a_cluster_without_trainjobs_needs_nothing(server: PatchServer) -> None:
    server.refused["GET", f"{ROOT}/trainjobs"] = 404
    assert add_runtime_patches(None) == []
