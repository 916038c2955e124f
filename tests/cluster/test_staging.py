"""The committed `staging` environment on a cluster like the lab's, with pinned images and the rights of teams."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.lab import launches
from tests.cluster.project import ROOT, Project
from trainstack.local_cluster import cluster as native
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.images import ensure_images, helpers, operators, workload
from trainstack.local_cluster.spec import NODE_NAME

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

REGISTRY = "registry.example.org"


@pytest.fixture
def lab_cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Yield a cluster whose registry has the lab's images."""
    with native.temporary_cluster(tmp_path / "cluster") as running:
        built = [workload(ROOT / "workloads" / "digits"), helpers()[1]]
        of_the_lab = [replace(recipe, serve_as=(f"{REGISTRY}/{without_registry(recipe.image)}",)) for recipe in built]
        served = replace(of_the_lab[1], serve_as=(f"{REGISTRY}/trainstack/init-pytorch:1",))
        ensure_images([*operators(), helpers()[0], of_the_lab[0], served], running.registry, lambda _: None)
        yield running


def without_registry(image: str) -> str:
    """Return an image reference without its registry."""
    return image.partition("/")[2]


@pytest.fixture
def staging(lab_cluster: LocalCluster, tmp_path: Path) -> Project:
    """Return the environment and the lab's parts that it does not declare: state, context, node pool and volumes."""
    project = Project.copy(tmp_path / "copy", lab_cluster, "staging")
    (tmp_path / "states").mkdir()
    project.variables["PULUMI_BACKEND_URL"] = (tmp_path / "states").as_uri()
    project.variables["PULUMI_CONFIG_PASSPHRASE"] = "the lab's own"
    done = project.run(["pulumi", "stack", "init", "staging", "--non-interactive"])
    assert done.code == 0, done.text
    for words in (
        ("config", "rename-context", current_context(project), "lab-staging"),
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


def current_context(project: Project) -> str:
    return project.kubectl("config", "current-context").out.strip()


def make_volume(team: str, folder: Path) -> dict[str, Any]:
    """Return the volume that the lab's provisioner would create for a team's claim."""
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


def test_the_committed_staging_environment_is_deployed(staging: Project) -> None:
    """It is refused without digests.

    With them, the run trains on the flavor of its pool, and each team has rights in its own namespace.
    """
    done = staging.trainstack("up", "--yes", seconds=600)
    assert done.code != 0
    assert "run `trainstack pin -s staging`" in done.text
    assert staging.get("namespace", "vision") == {}

    done = staging.trainstack("pin")
    assert done.code == 0, done.text
    done = staging.trainstack("up", "--yes", seconds=900)
    assert done.code == 0, done.text
    (launch,) = launches(staging, namespace="vision")
    for spec in launch["spec"]["pytorchReplicaSpecs"].values():
        for container in spec["template"]["spec"]["containers"]:
            assert container["image"].startswith(f"{REGISTRY}/")
            assert "@sha256:" in container["image"]
    # Kueue adds the node labels of the assigned flavor to the pods' node selectors.
    pods = staging.select("pods", "trainstack.dev/workload=digits", "vision")
    assert [pod["spec"]["nodeSelector"] for pod in pods] == [{"node.example.org/pool": "cpu"}] * len(pods) != []
    (record,) = (staging.root / "results").iterdir()
    assert (record / "_SUCCESS").is_file()
    assert staging.changes("--refresh") == {}

    for namespace, answer in (("vision", "yes"), ("speech", "no")):
        words = ("auth", "can-i", "create", "jobs.batch", "-n", namespace, "--as=somebody", "--as-group=oidc:vision")
        assert staging.kubectl(*words).out.strip() == answer
