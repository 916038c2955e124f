"""The contents of a cluster: the names of all objects, and the files of its volumes."""

import hashlib
from pathlib import Path

from tests.cluster.project import Project, await_empty

ObjectKey = tuple[str, str, str]
"""Kind, namespace (`<none>` for cluster-scoped objects) and name."""
TRANSIENT = {"Event", "Lease", "EndpointSlice", "Endpoints"}
"""Kinds whose objects the cluster itself continually creates and deletes."""


COMPUTED = ("events", "componentstatuses", "pods.metrics", "nodes.m")
"""Prefixes of resources that are computed from other objects, or are other names of them."""


def all_objects(project: Project, selector: str = "") -> frozenset[ObjectKey]:
    """Return the names of all objects in the cluster with these labels."""
    found = project.reader().names(selector, without=COMPUTED)
    return frozenset((kind, namespace or "<none>", name) for kind, namespace, name in found if kind not in TRANSIENT)


def assert_only_retained(project: Project, before: frozenset[ObjectKey], retained: list[str]) -> None:
    """Assert that the cluster has only the earlier and the retained objects, and those that Kubernetes adds to them."""
    named = {name_of(line) for line in retained}
    namespaces = {name for kind, _, name in named if kind == "Namespace"}
    added = {("ConfigMap", namespace, "kube-root-ca.crt") for namespace in namespaces}
    added |= {("ServiceAccount", namespace, "default") for namespace in namespaces}
    groups = {name.partition(".")[2] for kind, _, name in named if kind == "CustomResourceDefinition"}

    def left() -> set[ObjectKey]:
        # A dynamic volume belongs to its claim, and the API server has an APIService for each definition's group.
        found = {item for item in all_objects(project) if item[0] != "PersistentVolume"}
        served = {item for item in found if item[0] == "APIService" and item[2].partition(".")[2] in groups}
        return found - before - added - served

    await_empty("what the controllers clean up", lambda: left() - named, 60)
    assert left() == named - before
    assert {kind for kind, _, _ in named} >= {"Namespace", "PersistentVolumeClaim"}


def name_of(retained: str) -> ObjectKey:
    """Return the object of a line in the output `retained`: `Kind [namespace/]name: why`."""
    kind, _, rest = retained.partition(" ")
    namespace, slash, name = rest.partition(": ")[0].rpartition("/")
    return kind, namespace if slash else "<none>", name


def digests(state: Path) -> dict[str, str]:
    """Return the digests of the files on all dynamic volumes of a local cluster, by path."""
    root = state / "volumes"
    files = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def training_files(files: dict[str, str]) -> dict[str, str]:
    """Return the files that a training writes: results and checkpoints."""
    return {name: digest for name, digest in files.items() if "/result/" in name or "/checkpoints/" in name}
