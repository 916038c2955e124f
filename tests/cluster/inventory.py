"""What a cluster holds: the names of all objects, and the files of its volumes."""

import hashlib
from pathlib import Path

from tests.cluster.project import Project, emptied

Name = tuple[str, str, str]
"""Kind, namespace (`<none>` where there is none) and name."""
TRANSIENT = {"Event", "Lease", "EndpointSlice", "Endpoints"}
"""What the cluster itself makes and removes all the time."""


COMPUTED = ("events", "componentstatuses", "pods.metrics", "nodes.m")
"""What the names of resources begin with that are computed from other objects, or are other objects' second names."""


def everything(project: Project, selector: str = "") -> frozenset[Name]:
    """Every object of every kind in the cluster, whoever made it, with these labels."""
    found = project.reader().names(selector, without=COMPUTED)
    return frozenset((kind, namespace or "<none>", name) for kind, namespace, name in found if kind not in TRANSIENT)


def only_stays(project: Project, before: frozenset[Name], retained: list[str]) -> None:
    """The cluster holds what it held before, what is named as retained, and what Kubernetes itself puts beside that."""
    named = {name_of(each) for each in retained}
    namespaces = {name for kind, _, name in named if kind == "Namespace"}
    beside = {("ConfigMap", each, "kube-root-ca.crt") for each in namespaces}
    beside |= {("ServiceAccount", each, "default") for each in namespaces}
    groups = {name.partition(".")[2] for kind, _, name in named if kind == "CustomResourceDefinition"}

    def left() -> set[Name]:
        # A dynamic volume is its claim's, and the API server serves the group of every definition.
        there = {each for each in everything(project) if each[0] != "PersistentVolume"}
        served = {each for each in there if each[0] == "APIService" and each[2].partition(".")[2] in groups}
        return there - before - beside - served

    emptied("what the controllers clean up", lambda: left() - named, 60)
    assert left() == named - before
    assert {kind for kind, _, _ in named} >= {"Namespace", "PersistentVolumeClaim"}


def name_of(retained: str) -> Name:
    """The object that a line of the output `retained` is about: `Kind [namespace/]name: why`."""
    kind, _, rest = retained.partition(" ")
    namespace, slash, name = rest.partition(": ")[0].rpartition("/")
    return kind, namespace if slash else "<none>", name


def digests(state: Path) -> dict[str, str]:
    """The files of all dynamic volumes of the local cluster in a state folder, by path."""
    root = state / "volumes"
    files = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def trained(files: dict[str, str]) -> dict[str, str]:
    """What a training writes: results and checkpoints."""
    return {name: digest for name, digest in files.items() if "/result/" in name or "/checkpoints/" in name}
