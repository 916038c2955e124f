"""The metadata of declared objects: in how many requests it is read."""

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
    """An API server with objects in namespace `lab`, of which it lists those with the label."""

    unlabelled: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    list_status: int = 200
    asked: list[str] = field(default_factory=list)

    def read(self, paths: Sequence[str], _: object, *, metadata_only: bool) -> dict[str, Answer]:
        """Return single objects."""
        assert metadata_only
        self.asked += paths
        return {path: self._object(path.rpartition("/")[2]) for path in paths}

    def read_lists(self, paths: Sequence[str], _: object, *, metadata_of_items: bool) -> dict[str, Answer]:
        """Return the labelled objects; one is not declared."""
        assert metadata_of_items
        self.asked += paths
        names = [name for name in ("a", "b", "c", "undeclared") if name not in self.unlabelled + self.missing]
        items = {"items": [self._object(name).body for name in names]}
        return {path: Answer(self.list_status, items if self.list_status == 200 else {}) for path in paths}

    def _object(self, name: str) -> Answer:
        return Answer(NOT_FOUND, {}) if name in self.missing else Answer(200, {"metadata": {"name": name}})


def make_manifests(kind: str = "Service") -> list[dict[str, Any]]:
    """Three objects of a kind."""
    return [{"apiVersion": "v1", "kind": kind, "metadata": {"namespace": "lab", "name": name}} for name in "abc"]


def read_from(server: Server, monkeypatch: pytest.MonkeyPatch, **options: Any) -> set[str]:
    """The names of the objects that are found."""
    monkeypatch.setattr(snapshot, "read", server.read)
    monkeypatch.setattr(snapshot, "read_lists", server.read_lists)
    kind = options.pop("kind", "Service")
    found = read_metadata(make_manifests(kind), None, **options)
    assert all(who == (kind, "lab", metadata["name"]) for who, metadata in found.items())
    return {name for *_, name in found}


def test_several_objects_of_a_collection_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An object that has lost the label, and a missing one, are read individually."""
    server = Server(unlabelled=("b",), missing=("c",))
    assert read_from(server, monkeypatch, listed_of="dev") == {"a", "b"}
    path = "/api/v1/namespaces/lab/services"
    assert server.asked == [f"{path}{_QUERY}", f"{path}/b", f"{path}/c"]


@pytest.mark.parametrize("status", [FORBIDDEN, NOT_FOUND])
def test_without_the_list_objects_are_read_individually(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    """A role may lack the right, and a kind may not be served yet."""
    server = Server(list_status=status)
    assert read_from(server, monkeypatch, listed_of="dev") == {"a", "b", "c"}
    assert len(server.asked) == 4


@pytest.mark.parametrize("options", [{}, {"kind": "Secret", "listed_of": "dev"}])
def test_tenants_and_readers_of_secrets_list_nothing(monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]) -> None:
    """Their roles have no right to."""
    server = Server()
    assert read_from(server, monkeypatch, **options) == {"a", "b", "c"}
    assert not any("?" in path for path in server.asked)
