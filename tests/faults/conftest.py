"""The cluster of the outages: one of their own, since what they do to it would disturb others."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster import cluster as devcluster
from devcluster.cluster import Cluster
from devcluster.images import ensure_images, helpers, operators, workload
from tests.cluster.project import ROOT, Project
from tests.faults import outages


@pytest.fixture(scope="session")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with the images of Kueue, of the training operator and of a Python that trains.

    TRAINSTACK_TEST_CLUSTER names a folder whose cluster is used, and left running: for whoever writes tests.
    """
    kept = os.environ.get("TRAINSTACK_TEST_CLUSTER")
    state = Path(kept) if kept else tmp_path_factory.mktemp("outages")
    try:
        running = devcluster.up(state)
        wanted = [*operators(["kueue", "training-operator"]), *helpers(), workload(ROOT / "workloads" / "digits")]
        ensure_images(wanted, running.registry, lambda _: None)
        yield running
    finally:
        if not kept:
            devcluster.down(state, keep_data=False)


@pytest.fixture(scope="session")
def platform(own: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Both operators, a storage class, a namespace and two queues."""
    project = Project.copy(tmp_path_factory.mktemp("outages"), own).other("platform", outages.platform())
    done = project.up(seconds=600)
    assert done.code == 0, done.text
    return project
