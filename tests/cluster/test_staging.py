"""The `staging` environment as it is committed, on a cluster that has what the lab's has: pinned, trained, guarded."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.lab import launches
from tests.cluster.project import ROOT, Project
from trainstack.dev.cluster import cluster as devcluster
from trainstack.dev.cluster.cluster import Cluster
from trainstack.dev.cluster.images import ensure_images, helpers, operators, workload
from trainstack.dev.cluster.spec import NODE_NAME

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

REGISTRY = "registry.example.org"


@pytest.fixture
def lab_cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster whose registry has the lab's images."""
    state = tmp_path / "cluster"
    try:
        running = devcluster.up(state)
        built = [workload(ROOT / "workloads" / "digits"), helpers()[1]]
        of_the_lab = [replace(each, serve_as=(f"{REGISTRY}/{name(each.image)}",)) for each in built]
        served = replace(of_the_lab[1], serve_as=(f"{REGISTRY}/trainstack/init-pytorch:1",))
        ensure_images([*operators(), helpers()[0], of_the_lab[0], served], running.registry, lambda _: None)
        yield running
    finally:
        devcluster.down(state, keep_data=False)


def name(image: str) -> str:
    """An image without its registry."""
    return image.partition("/")[2]


@pytest.fixture
def staging(lab_cluster: Cluster, tmp_path: Path) -> Project:
    """The environment, and of the lab what it does not declare: the state, the context, the pool, the volumes."""
    project = Project.copy(tmp_path / "copy", lab_cluster, "staging")
    (tmp_path / "states").mkdir()
    project.variables["PULUMI_BACKEND_URL"] = (tmp_path / "states").as_uri()
    project.variables["PULUMI_CONFIG_PASSPHRASE"] = "the lab's own"
    done = project.run(["pulumi", "stack", "init", "staging", "--non-interactive"])
    assert done.code == 0, done.text
    for words in (
        ("config", "rename-context", current(project), "lab-staging"),
        ("label", "node", NODE_NAME, "node.example.org/pool=cpu"),
    ):
        done = project.kubectl(*words)
        assert done.code == 0, done.text
    volumes = []
    for team in ("vision", "speech"):
        folder = tmp_path / team
        folder.mkdir()
        folder.chmod(0o777)
        volumes.append(make_volume(team, folder))
    done = project.kubectl("create", stdin=yaml.safe_dump_all(volumes))
    assert done.code == 0, done.text
    return project


def current(project: Project) -> str:
    """The kubeconfig's context."""
    return project.kubectl("config", "current-context").out.strip()


def make_volume(team: str, folder: Path) -> dict[str, Any]:
    """What the lab's provisioner would make of a team's claim."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"training-{team}"},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": "100Gi"},
            "claimRef": {"namespace": team, "name": "training"},
            "hostPath": {"path": str(folder)},
            "storageClassName": "shared",
        },
    }


def test_staging_is_deployed_as_it_is_committed(staging: Project) -> None:
    """Refused without digests; then trained on the flavor of its pool, each team with rights in its own namespace."""
    done = staging.trainstack("up", seconds=600)
    assert done.code != 0
    assert "run `trainstack pin -s staging`" in done.text
    assert staging.get("namespace", "vision") == {}

    done = staging.trainstack("pin")
    assert done.code == 0, done.text
    done = staging.trainstack("up", seconds=900)
    assert done.code == 0, done.text
    (launch,) = launches(staging, namespace="vision")
    for spec in launch["spec"]["pytorchReplicaSpecs"].values():
        for container in spec["template"]["spec"]["containers"]:
            assert container["image"].startswith(f"{REGISTRY}/")
            assert "@sha256:" in container["image"]
    # Kueue gives pods the labels of the flavor that it has chosen for them.
    pods = staging.select("pods", "trainstack.dev/workload=digits", "vision")
    assert [pod["spec"]["nodeSelector"] for pod in pods] == [{"node.example.org/pool": "cpu"}] * len(pods) != []
    (record,) = (staging.root / "results").iterdir()
    assert (record / "_SUCCESS").is_file()
    assert staging.changes("--refresh") == {}

    for namespace, answer in (("vision", "yes"), ("speech", "no")):
        words = ("auth", "can-i", "create", "jobs.batch", "-n", namespace, "--as=somebody", "--as-group=oidc:vision")
        assert staging.kubectl(*words).out.strip() == answer
