"""Ten clusters in a row take the operators at the first attempt: the order of an install is right, not lucky."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.cluster.project import ROOT, Project, eventually
from trainstack.dev.cluster import cluster as devcluster
from trainstack.dev.cluster.cluster import Cluster
from trainstack.dev.cluster.images import ensure_images, operators

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

INSTALLS = 10


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster that nobody else needs, since it is reset between installs."""
    state = tmp_path_factory.mktemp("fresh")
    try:
        running = devcluster.up(state)
        ensure_images(operators(), running.registry, lambda _: None)
        yield running
    finally:
        devcluster.down(state, keep_data=False)


@pytest.fixture(scope="module")
def project(own: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of the project, whose state outlives the clusters."""
    return Project.copy(tmp_path_factory.mktemp("installs"), own)


def platform_only() -> dict[str, Any]:
    """The dev environment without its training half."""
    config = dict(yaml.safe_load((ROOT / "Pulumi.dev.yaml").read_text())["config"])
    config["trainstack:environment"] = {**config["trainstack:environment"], "layers": ["platform"]}
    del config["trainstack:workloads"]
    return config


@pytest.mark.parametrize("number", range(INSTALLS))
def test_the_operators_install_at_the_first_attempt(own: Cluster, project: Project, number: int) -> None:
    """One `pulumi up` against a cluster that has just started; then the queue is open, and nothing is left to do."""
    devcluster.reset(own.state)
    stack = project.other(f"install{number}", platform_only())
    done = stack.up()
    assert done.code == 0, done.text
    eventually("the queue is open", lambda: active(stack), 30)
    assert stack.changes("--refresh") == {}


def active(stack: Project) -> bool:
    """Whether Kueue itself says that the cluster queue admits jobs."""
    conditions = stack.get("clusterqueues", "research")["status"].get("conditions", [])
    return any(each["type"] == "Active" and each["status"] == "True" for each in conditions)
