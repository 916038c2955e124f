"""The number of requests that read the metadata of declared objects."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from trainstack.live import snapshot
from trainstack.live.client import FORBIDDEN, NOT_FOUND, Answer
from trainstack.live.snapshot import read_metadata

_QUERY = "?labelSelector=trainstack.dev/stack%3Ddev&limit=500"


@dataclass
class Server:
    """An API server with objects in namespaces, some without the label."""

    unlabelled: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    list_status: int = 200
    namespaces: tuple[str, ...] = ("lab",)
    is_listed_everywhere: bool = True
    requests: list[str] = field(default_factory=list)

    def read(self, paths: Sequence[str], _: object, *, metadata_only: bool) -> dict[str, Answer]:
        """Return single objects."""
        assert metadata_only
        self.requests += paths
        return {path: self._object(path.split("/")[4], path.rpartition("/")[2]) for path in paths}

    def read_lists(self, paths: Sequence[str], _: object, *, metadata_of_items: bool) -> dict[str, Answer]:
        """Return the labelled objects and one undeclared object."""
        assert metadata_of_items
        self.requests += paths
        return {path: self._list(path) for path in paths}

    def _list(self, path: str) -> Answer:
        if self.list_status != 200 or ("/namespaces/" not in path and not self.is_listed_everywhere):
            return Answer(max(self.list_status, FORBIDDEN), {})
        namespaces = [name for name in self.namespaces if f"/{name}/" in path or "/namespaces/" not in path]
        names = [name for name in ("a", "b", "c", "undeclared") if name not in self.unlabelled + self.missing]
        return Answer(
            200, {"items": [self._object(namespace, name).body for namespace in namespaces for name in names]}
        )

    def _object(self, namespace: str, name: str) -> Answer:
        metadata = {"name": name, "namespace": namespace}
        return Answer(NOT_FOUND, {}) if name in self.missing else Answer(200, {"metadata": metadata})


def make_manifests(kind: str = "Service", namespaces: Sequence[str] = ("lab",)) -> list[dict[str, Any]]:
    """Return three objects of a kind in each namespace."""
    places = [{"namespace": namespace, "name": name} for namespace in namespaces for name in "abc"]
    return [{"apiVersion": "v1", "kind": kind, "metadata": place} for place in places]


def read_from(server: Server, monkeypatch: pytest.MonkeyPatch, **options: Any) -> set[str]:
    """Return the names of the objects that are found."""
    monkeypatch.setattr(snapshot, "read", server.read)
    monkeypatch.setattr(snapshot, "read_lists", server.read_lists)
    kind = options.pop("kind", "Service")
    found = read_metadata(make_manifests(kind, server.namespaces), None, **options)
    assert all(who == (kind, metadata["namespace"], metadata["name"]) for who, metadata in found.items())
    assert {namespace for _, namespace, _ in found} == {*server.namespaces}
    return {name for *_, name in found}


def test_several_objects_of_a_collection_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An object that has lost the label, and a missing one, are read individually."""
    server = Server(unlabelled=("b",), missing=("c",))
    assert read_from(server, monkeypatch, stack_to_list="dev") == {"a", "b"}
    path = "/api/v1/namespaces/lab/services"
    assert server.requests == [f"{path}{_QUERY}", f"{path}/b", f"{path}/c"]


def test_a_kind_of_several_namespaces_is_listed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Owners may list it everywhere; without that right, each namespace is listed."""
    server = Server(namespaces=("lab", "speech"))
    assert read_from(server, monkeypatch, stack_to_list="dev") == {"a", "b", "c"}
    everywhere = f"/api/v1/services{_QUERY}"
    assert server.requests == [everywhere]

    narrow = Server(namespaces=("lab", "speech"), is_listed_everywhere=False)
    assert read_from(narrow, monkeypatch, stack_to_list="dev") == {"a", "b", "c"}
    assert narrow.requests == [
        everywhere,
        *(f"/api/v1/namespaces/{name}/services{_QUERY}" for name in ("lab", "speech")),
    ]


@pytest.mark.parametrize("status", [FORBIDDEN, NOT_FOUND])
def test_without_the_list_objects_are_read_individually(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    """A role may lack the right, and a kind may not be served yet."""
    server = Server(list_status=status)
    assert read_from(server, monkeypatch, stack_to_list="dev") == {"a", "b", "c"}
    assert len(server.requests) == 4


@pytest.mark.parametrize("options", [{}, {"kind": "Secret", "stack_to_list": "dev"}])
def test_tenants_and_readers_of_secrets_list_nothing(monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]) -> None:
    """Their roles have no right to list."""
    server = Server()
    assert read_from(server, monkeypatch, **options) == {"a", "b", "c"}
    assert not any("?" in path for path in server.requests)
