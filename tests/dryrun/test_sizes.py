"""The sizes that the files are checked for are those that the API server and etcd accept."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver import ApiServer, Response, api_server
from tests.unit.make import make_run
from tests.unit.runs.launches import make_launch
from trainstack.objects.size_limits import (
    MAX_ANNOTATION_BYTES,
    MAX_DATA_BYTES,
    MAX_REQUEST_BYTES,
    annotation_bytes,
    stored_bytes,
)
from trainstack.runs.manifests.build import manifest

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

_COLLECTIONS = {"Job": "/apis/batch/v1/namespaces/research/jobs", "ConfigMap": "/api/v1/namespaces/research/configmaps"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Return an API server with the namespace of the runs."""
    folder: Path = tmp_path_factory.mktemp("sizes")
    with api_server(folder) as running:
        running.make_namespace("research")
        yield running


def apply(server: ApiServer, body: dict[str, Any], name: str) -> Response:
    """Apply an object under another name, as the engine does."""
    named = {**body, "metadata": {**body["metadata"], "name": name}}
    path = f"{_COLLECTIONS[body['kind']]}/{name}"
    return server.send("PATCH", path, named, "application/apply-patch+yaml", fieldManager="engine", force="true")


def job(**changes: Any) -> dict[str, Any]:
    """Return a suspended Job of an unmanaged run."""
    body = manifest(make_run(managed=False, record=None, **changes), "dev", make_launch())
    return {**body, "spec": {**body["spec"], "suspend": True}}


def test_the_paths_of_fields_are_counted(server: ApiServer) -> None:
    """With the bytes that the API server has for them, which are more than those of short variables."""
    body = job(env={f"N{number:05}": "x" for number in range(10_000)})
    applied = apply(server, body, "paths").checked()["metadata"]["managedFields"]
    written = len(json.dumps(body, separators=(",", ":")).encode())
    assert stored_bytes(body) - written == pytest.approx(len(json.dumps(applied, separators=(",", ":"))), rel=0.01)


def test_a_request_has_a_limit(server: ApiServer) -> None:
    """Of which the check leaves 8 KiB to what others add."""
    for name, size, code in (("within", MAX_REQUEST_BYTES - 8_192, 201), ("over", MAX_REQUEST_BYTES, 500)):
        rest = size - stored_bytes(job(args=("",)))
        body = job(args=("x" * rest,))
        assert stored_bytes(body) == size
        answer = apply(server, body, name)
        assert answer.code == code, answer.body


@pytest.mark.parametrize("excess", [0, 1])
def test_data_and_annotations_have_limits(server: ApiServer, excess: int) -> None:
    """Values of a ConfigMap alone, but annotations with their names."""
    data: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}
    answers = [apply(server, {**data, "data": {"launch": '"' * (MAX_DATA_BYTES + excess)}}, f"data-{excess}")]
    metadata = {"annotations": {"note": "x" * (MAX_ANNOTATION_BYTES - 4 + excess)}}
    assert annotation_bytes(metadata) == MAX_ANNOTATION_BYTES + excess
    answers.append(apply(server, {**data, "metadata": metadata}, f"annotations-{excess}"))
    assert [answer.code for answer in answers] == [422 if excess else 201] * 2
