"""The Kubernetes manifests of `tests/corpus`, which have the features of the files that people have."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from trainstack.settings.errors import SettingsFinding
from trainstack.settings.loading.kubernetes_yaml import parse_documents
from trainstack.settings.loading.merge import to_plain

Manifest = dict[str, Any]
CORPUS = Path(__file__).parent / "corpus"
WORKLOAD_KINDS = frozenset(
    {
        *("AppWrapper", "CronJob", "JAXJob", "Job", "JobSet", "LeaderWorkerSet", "MiniCluster", "MPIJob", "Pod"),
        *("PyTorchJob", "RayJob", "TFJob", "TrainJob", "XGBoostJob"),
    }
)
"""The kinds of objects that people launch, whether or not Trainstack has a module for them."""
_SERVER_SET = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid")
"""Metadata that only the API server sets."""


def corpus_files() -> list[str]:
    """Return the paths of all files, relative to the corpus."""
    return sorted(str(file.relative_to(CORPUS)) for file in CORPUS.rglob("*.yaml"))


@cache
def read_corpus_file(file: str) -> tuple[Manifest, ...]:
    """Return the objects in a file; do not change them."""
    findings = list[SettingsFinding]()
    documents = parse_documents((CORPUS / file).read_text(encoding="utf-8"), file, findings)
    assert not findings, findings
    # JSON has lists, where the settings have tuples.
    manifests: list[Manifest] = json.loads(json.dumps([to_plain(document) for document in documents]))
    return tuple(manifests)


def corpus_objects() -> Iterator[tuple[str, Manifest]]:
    """Yield every object with a name for it, such as `aws/etcd-rendezvous.yaml PyTorchJob tundra-vision`.

    Objects of a List are as their users would write them, without what the API server sets.
    """
    for file in corpus_files():
        for document in read_corpus_file(file):
            items = [_without_server_set(item) for item in document["items"]] if document["kind"] == "List" else []
            for manifest in items or [document]:
                metadata = manifest["metadata"]
                yield f"{file} {manifest['kind']} {metadata.get('name') or metadata['generateName']}", manifest


def corpus_workloads() -> dict[str, Manifest]:
    """Return the objects of kinds that are launched, by the names of `corpus_objects`."""
    return {name: manifest for name, manifest in corpus_objects() if manifest["kind"] in WORKLOAD_KINDS}


def _without_server_set(manifest: Manifest) -> Manifest:
    metadata = {key: value for key, value in manifest["metadata"].items() if key not in _SERVER_SET}
    return {key: value for key, value in manifest.items() if key != "status"} | {"metadata": metadata}
