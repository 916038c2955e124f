"""Ten installs of the operators on fresh clusters: each succeeds at the first attempt."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.cluster.project import ROOT, Project, eventually
from trainstack.local_cluster import cluster as native
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.images import ensure_images, operators

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

INSTALLS = 10


@pytest.fixture(scope="module")
def fresh_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Start a separate cluster, since it is reset between installs."""
    with native.temporary_cluster(tmp_path_factory.mktemp("fresh")) as running:
        ensure_images(operators(), running.registry, lambda _: None)
        yield running


@pytest.fixture(scope="module")
def project(fresh_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a copy of the project, whose state is kept across resets."""
    return Project.copy(tmp_path_factory.mktemp("installs"), fresh_cluster)


def platform_only() -> dict[str, Any]:
    """Return the dev environment without its training layer."""
    config = dict(yaml.safe_load((ROOT / "Pulumi.dev.yaml").read_text())["config"])
    config["trainstack:environment"] = {**config["trainstack:environment"], "layers": ["platform"]}
    del config["trainstack:workloads"]
    return config


@pytest.mark.parametrize("number", range(INSTALLS))
def test_the_operators_install_at_the_first_attempt(fresh_cluster: LocalCluster, project: Project, number: int) -> None:
    """One `pulumi up` on a cluster that has just started; afterwards the queue is active, and no change is left."""
    native.reset(fresh_cluster.state)
    stack = project.other_stack(f"install{number}", platform_only())
    done = stack.up()
    assert done.code == 0, done.text
    eventually("the queue is open", lambda: is_active(stack), 30)
    assert stack.changes("--refresh") == {}


def is_active(stack: Project) -> bool:
    """Return whether Kueue's status of the cluster queue is active."""
    conditions = stack.get("clusterqueues", "research")["status"].get("conditions", [])
    return any(condition["type"] == "Active" and condition["status"] == "True" for condition in conditions)
