"""The separate cluster of the outage tests, which would disturb other tests."""

from collections.abc import Iterator

import pytest

from tests.cluster.project import ROOT, Project
from tests.faults import outages
from tests.faults.clusters import own_cluster
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.images import helpers, operators, workload


@pytest.fixture(scope="session")
def dedicated_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Yield a cluster with the images of Kueue, the training operator and a workload."""
    images = [*operators(["kueue", "training-operator"]), *helpers(), workload(ROOT / "workloads" / "digits")]
    with own_cluster(tmp_path_factory, "outages", images) as running:
        yield running


@pytest.fixture(scope="session")
def platform(dedicated_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Deploy both operators, a storage class, a namespace and two queues."""
    project = Project.copy(tmp_path_factory.mktemp("outages"), dedicated_cluster).other_stack(
        "platform", outages.platform()
    )
    done = project.up(seconds=600)
    assert done.code == 0, done.text
    return project
