"""Objects of kinds whose scope the cluster decides."""

from collections.abc import Iterable
from typing import Any

import pytest

from trainstack.live import object_scopes
from trainstack.live.answers import Answer
from trainstack.live.object_scopes import scope_refusals

VERSION = "cert-manager.io/v1"


def resource(kind: str, name: str, *, namespaced: bool) -> dict[str, Any]:
    """Return a kind as the API server lists it."""
    return {"kind": kind, "name": name, "namespaced": namespaced}


SERVED = [
    resource("Issuer", "issuers", namespaced=True),
    resource("Issuer", "issuers/status", namespaced=True),
    resource("ClusterIssuer", "clusterissuers", namespaced=False),
    resource("Chassis", "chassis", namespaced=True),
]


def make_object(kind: str, version: str = VERSION, **metadata: str) -> dict[str, Any]:
    """Return an object named `a`."""
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "a", **metadata}}


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Serve one API version; another one is missing."""

    def read(paths: Iterable[str], _: str | None) -> dict[str, Answer]:
        answers = {f"/apis/{VERSION}": Answer(200, {"resources": SERVED})}
        return {path: answers.get(path, Answer(404, {})) for path in paths}

    monkeypatch.setattr(object_scopes, "read", read)


def test_an_object_in_the_scope_of_its_kind_is_not_refused() -> None:
    """Nor is one of a known kind, or of a kind that is not served yet."""
    objects = [
        make_object("Issuer", namespace="lab"),
        make_object("ClusterIssuer"),
        make_object("ConfigMap", "v1"),
        make_object("Foo", "example.org/v1"),
        make_object("Missing"),
    ]
    assert scope_refusals(objects, None) == ()


def test_an_object_in_another_scope_is_refused() -> None:
    """Guards would look for it at another path."""
    objects = [
        make_object("Issuer"),
        make_object("ClusterIssuer", namespace="lab"),
        make_object("Chassis", namespace="lab"),
    ]
    issuer, cluster_issuer, chassis = (scope_refusals([item], None) for item in objects)
    assert issuer == (
        "Issuer a: Issuer is a namespaced kind in this cluster; add metadata.namespace in section objects",
    )
    (refusal,) = cluster_issuer
    assert refusal.endswith("is a cluster-scoped kind in this cluster; remove metadata.namespace in section objects")
    (refusal,) = chassis
    assert refusal.startswith("Chassis lab/a: the cluster serves Chassis as chassis")
    assert len(scope_refusals(objects, None)) == 3
