"""Manifests of the corpus are read as kubectl reads them, and the API server accepts their launches."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.corpus_files import CORPUS, Manifest, corpus_files, read_corpus_file
from tests.dryrun.manifest_results import differences_of_launch, original_result
from tests.dryrun.server import Server, dry_run_server
from tests.rendered_manifests import QUEUE
from tests.unit.runs.manifests.test_corpus import REFUSED, WORKLOADS, settings_of
from trainstack.toolchain.tools import program

pytestmark = pytest.mark.cluster

MARK = "example.org/read"
SERVED = ("Job", "JAXJob", "JobSet", "MPIJob", "Pod", "PyTorchJob", "RayJob", "TrainJob")
"""The kinds that the API server of the tests serves."""
NOT_ACCEPTED = {
    # kubectl printed the selector that a Job's name and UID determine.
    "exports/kubectl-get.yaml Job moraine-fit",
    # Trainer 2.1 had fields that later releases have removed.
    "kubeflow/overridden-pods.yaml TrainJob ptjob-lichenlab",
}
"""The workloads that the API server does not accept in the form of the file."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with dry_run_server(tmp_path_factory.mktemp("server")) as running:
        yield running


def test_files_are_read_as_kubectl_reads_them() -> None:
    """`kubectl annotate --local` prints the objects of a file as JSON without a cluster."""
    for file in corpus_files():
        words = ["annotate", "--local", "-f", str(CORPUS / file), "-o", "json", "--overwrite", f"{MARK}=true"]
        done = subprocess.run([str(program("kubectl")), *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, (file, done.stderr)
        own_objects = [item for body in read_corpus_file(file) for item in body.get("items", [body])]
        assert list(map(_without_mark, _json_documents(done.stdout))) == list(map(_without_mark, own_objects)), file


def _json_documents(text: str) -> Iterator[Manifest]:
    decoder, position = json.JSONDecoder(), 0
    while position < len(text):
        body, position = decoder.raw_decode(text, position)
        yield body
        while position < len(text) and text[position].isspace():
            position += 1


def _without_mark(body: Manifest) -> Manifest:
    """Return an object without what kubectl adds and removes itself."""
    metadata = {key: value for key, value in body["metadata"].items() if key != "managedFields"}
    annotations = {key: value for key, value in (metadata.pop("annotations", None) or {}).items() if key != MARK}
    return {**body, "metadata": {**metadata, "annotations": annotations}}


@pytest.mark.parametrize("queue", [None, QUEUE])
def test_what_the_api_server_accepts_it_accepts_as_launched(server: Server, tmp_path: Path, queue: str | None) -> None:
    """The results are equal except for the additions of decision 0032."""
    settings: dict[str, Any] = {"queue": queue} if queue else {}
    compared = []
    for name in sorted(WORKLOADS.keys() - REFUSED.keys()):
        manifest = WORKLOADS[name]
        if manifest["kind"] not in SERVED:
            continue
        accepted = original_result(server, manifest)
        assert (accepted.code < 300) == (name not in NOT_ACCEPTED), (name, accepted.body.get("message"))
        if accepted.code < 300:
            found = differences_of_launch(
                server, tmp_path, manifest, accepted, **settings_of(name, manifest), **settings
            )
            assert not found, (name, found)
            compared.append(name)
    assert len(compared) >= 32
