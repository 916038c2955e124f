"""The migration of stored objects after an upgrade of an operator, against a small API server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.components.patch_server import PatchServer, patch_server
from trainstack.components.storage_migration import migrate_stored_objects

NAME = "workloads.kueue.x-k8s.io"
DEFINITION_PATH = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{NAME}"
LIST_PATH = "/apis/kueue.x-k8s.io/v1beta2/workloads"
OBJECT_PATHS = [f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{namespace}/workloads/job-a" for namespace in ("a", "b")]


def make_definition(*versions: str) -> dict[str, Any]:
    """Return a definition that stores its last version."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME, "uid": "u"},
        "spec": {
            "group": "kueue.x-k8s.io",
            "names": {"plural": "workloads", "kind": "Workload"},
            "versions": [{"name": version, "storage": version == versions[-1]} for version in versions],
        },
    }


@pytest.fixture
def stored_versions() -> tuple[str, ...]:
    """Return the versions in which objects were ever stored."""
    return ("v1beta1", "v1beta2")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored_versions: tuple[str, ...]) -> Iterator[PatchServer]:
    """Start a server with the definition and with an object in each of two namespaces."""
    definition = {**make_definition("v1beta1", "v1beta2"), "status": {"storedVersions": list(stored_versions)}}
    objects = {
        path: {"kind": "Workload", "metadata": {"namespace": space, "name": "job-a", "uid": space}, "spec": {}}
        for path, space in zip(OBJECT_PATHS, ("a", "b"), strict=True)
    }
    items = {"kind": "PartialObjectMetadataList", "metadata": {}, "items": [*objects.values()]}
    with patch_server({DEFINITION_PATH: definition, LIST_PATH: items, **objects}, tmp_path, monkeypatch) as server:
        yield server


def migrate() -> list[str]:
    return migrate_stored_objects([make_definition("v1beta1", "v1beta2")], None)


def test_each_object_is_written_before_the_status_of_its_definition(server: PatchServer) -> None:
    """An empty patch makes the API server store an object in the storage version."""
    assert migrate() == []
    *objects, status = server.patches
    assert sorted(objects) == [(path, {}) for path in OBJECT_PATHS]
    assert status == (f"{DEFINITION_PATH}/status", {"status": {"storedVersions": ["v1beta2"]}})


@pytest.mark.parametrize("stored_versions", [("v1beta2",), ()])
def test_objects_in_the_storage_version_are_not_written(server: PatchServer) -> None:
    assert migrate() == []
    assert server.patches == []


def test_a_definition_with_one_version_is_not_read() -> None:
    """No server is reachable."""
    assert migrate_stored_objects([make_definition("v1beta2")], None) == []


def test_a_deleted_object_or_definition_is_no_failure(server: PatchServer) -> None:
    server.refused["PATCH", OBJECT_PATHS[0]] = 404
    assert migrate() == []
    assert server.patches[-1][0] == f"{DEFINITION_PATH}/status"
    server.patches.clear()
    server.refused["GET", DEFINITION_PATH] = 404
    assert migrate() == []
    assert server.patches == []


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (("PATCH", OBJECT_PATHS[1]), f"PATCH {OBJECT_PATHS[1]} was refused (403: not allowed)"),
        (("GET", LIST_PATH), "the list of workloads was refused (403)"),
        (
            ("PATCH", f"{DEFINITION_PATH}/status"),
            f"PATCH {DEFINITION_PATH}/status was refused (403: not allowed)",
        ),
    ],
)
def test_a_refusal_is_a_note_and_the_former_version_stays_recorded(
    server: PatchServer, refused: tuple[str, str], reason: str
) -> None:
    """The next `up` repeats it: the definition's status changes last."""
    server.refused[refused] = 403
    (note,) = migrate()
    assert note.startswith(f"{NAME} has objects that are stored in v1beta1, which a later release of the operator may")
    assert note.endswith(f"{reason}. An `up` with the right to change these objects stores them in v1beta2")
    if refused != ("PATCH", f"{DEFINITION_PATH}/status"):
        assert not any(path.endswith("/status") for path, _ in server.patches)


def test_an_unreadable_definition_is_a_note(server: PatchServer) -> None:
    server.refused["GET", DEFINITION_PATH] = 403
    assert migrate() == [f"the stored versions of {NAME} are unknown: reading it was refused (403)"]
