"""Any other cluster than the local one: the same program trains there, and leaves nothing but what it names."""

import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from devcluster import cluster as devcluster
from devcluster.cluster import Cluster
from tests.cluster.conftest import start_cluster
from tests.cluster.project import ROOT, Done, Project, emptied

pytestmark = pytest.mark.cluster

Name = tuple[str, str, str]
"""Kind, namespace (`<none>` where there is none) and name."""
TRANSIENT = {"Event", "Lease", "EndpointSlice", "Endpoints"}
"""What the cluster itself makes and removes all the time."""


@dataclass(frozen=True)
class Elsewhere:
    """A cluster of another owner, and a copy of the project that was brought up there."""

    cluster: Cluster
    project: Project
    before: frozenset[Name]
    """What the cluster held before us."""
    up: Done


@pytest.fixture(scope="module")
def owned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster whose owner has loaded the images."""
    state = tmp_path_factory.mktemp("elsewhere")
    try:
        yield start_cluster(state)
    finally:
        devcluster.down(state, keep_data=False)


@pytest.fixture(scope="module")
def elsewhere(owned: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Elsewhere:
    """The dev environment on it, by KUBECONFIG alone."""
    project = Project.copy(tmp_path_factory.mktemp("other"), owned)
    before = everything(project)
    done = project.trainstack("up", seconds=420)
    assert done.code == 0, done.text
    return Elsewhere(owned, project, before, done)


def test_make_with_a_kubeconfig_builds_no_local_cluster(tmp_path: Path) -> None:
    """`make up KUBECONFIG=<file>` asks for the client's tools only, and needs no right on this machine."""
    words = ["make", "--dry-run", "-C", str(ROOT), "up", "KUBECONFIG=some/file"]
    done = Project(ROOT, tmp_path, "dev").run(words)
    assert done.code == 0, done.text
    assert "-m toolchain ensure --client" in done.out
    assert "trainstack up -s dev" in done.out
    assert "-m toolchain machine" not in done.out


def test_the_run_succeeds_there_and_starts_no_local_cluster(elsewhere: Elsewhere) -> None:
    """The job is in that cluster, its model on this machine."""
    (job,) = elsewhere.project.get("pytorchjobs", namespace="research")["items"]
    assert "Succeeded" in {each["type"] for each in job["status"]["conditions"] if each["status"] == "True"}
    assert re.search(r"test accuracy +0\.9[5-9]", elsewhere.up.out)
    (record,) = (elsewhere.project.root / "results").iterdir()
    assert (record / "result" / "model.pt").is_file()
    assert not (elsewhere.project.root / ".trainstack" / "cluster").exists()


def test_destroy_leaves_what_it_names_and_up_again_finds_the_trained_run(elsewhere: Elsewhere) -> None:
    """Only the retained stays, its data included; a further `up` takes it over and trains nothing anew."""
    project = elsewhere.project
    data = digests(elsewhere)
    assert any(name.endswith("_SUCCESS") for name in data)
    retained = outputs(project)["retained"]

    done = project.trainstack("destroy", "--yes")
    assert done.code == 0, done.text
    assert [line.removeprefix("stays: ") for line in done.out.splitlines() if line.startswith("stays: ")] == retained
    only_stays(elsewhere, retained)
    assert digests(elsewhere) == data

    shutil.rmtree(project.root / "results")
    again = project.trainstack("up", seconds=420)
    assert again.code == 0, again.text
    (record,) = (project.root / "results").iterdir()
    assert json.loads((record / "run.json").read_text())["attempts"] == 1
    assert trained(digests(elsewhere)) == trained(data), "nothing was trained anew"
    assert project.changes("--refresh") == {}

    plain = project.pulumi("destroy", "--yes", "--skip-preview")
    assert plain.code == 0, plain.text
    only_stays(elsewhere, retained)
    assert trained(digests(elsewhere)) == trained(data)


def only_stays(elsewhere: Elsewhere, retained: list[str]) -> None:
    """The cluster holds what it held before, what is named as retained, and what Kubernetes itself puts beside that."""
    named = {name_of(each) for each in retained}
    namespaces = {name for kind, _, name in named if kind == "Namespace"}
    beside = {("ConfigMap", each, "kube-root-ca.crt") for each in namespaces}
    beside |= {("ServiceAccount", each, "default") for each in namespaces}

    groups = {name.partition(".")[2] for kind, _, name in named if kind == "CustomResourceDefinition"}

    def left() -> set[Name]:
        # A dynamic volume is its claim's, and the API server serves the group of every definition.
        there = {each for each in everything(elsewhere.project) if each[0] != "PersistentVolume"}
        served = {each for each in there if each[0] == "APIService" and each[2].partition(".")[2] in groups}
        return there - elsewhere.before - beside - served

    emptied("what the controllers clean up", lambda: left() - named, 60)
    assert left() == named
    assert {kind for kind, _, _ in named} == {"Namespace", "PersistentVolumeClaim", "CustomResourceDefinition"}


def name_of(retained: str) -> Name:
    """The object that a line of the output `retained` is about: `Kind [namespace/]name: why`."""
    kind, _, rest = retained.partition(" ")
    namespace, slash, name = rest.partition(": ")[0].rpartition("/")
    return kind, namespace if slash else "<none>", name


def outputs(project: Project) -> dict[str, Any]:
    """The stack's outputs."""
    return dict(json.loads(project.pulumi("stack", "output", "--json").out))


def everything(project: Project) -> frozenset[Name]:
    """Every object of every kind in the cluster, whoever made it."""
    resources = project.kubectl("api-resources", "--verbs=list", "-o", "name").out.split()
    # These are computed from other objects, or are other objects' second names.
    kinds = [
        each for each in resources if not each.startswith(("events", "componentstatuses", "pods.metrics", "nodes.m"))
    ]
    columns = "custom-columns=KIND:.kind,NAMESPACE:.metadata.namespace,NAME:.metadata.name"
    done = project.kubectl("get", ",".join(kinds), "-A", "--no-headers", "-o", columns, "--ignore-not-found")
    assert done.code == 0, done.text
    found = {(kind, namespace, name) for kind, namespace, name in map(str.split, done.out.splitlines())}
    return frozenset(each for each in found if each[0] not in TRANSIENT)


def digests(elsewhere: Elsewhere) -> dict[str, str]:
    """The files of all volumes on the node's disk, by path."""
    root = elsewhere.cluster.state / "volumes"
    files = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def trained(files: dict[str, str]) -> dict[str, str]:
    """What a training writes: results and checkpoints."""
    return {name: digest for name, digest in files.items() if "/result/" in name or "/checkpoints/" in name}
