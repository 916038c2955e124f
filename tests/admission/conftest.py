"""A cluster with nothing but Kueue on it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.admission.bench import Bench
from tests.admission.kueue import install
from tests.seeds import chosen_seed
from trainstack.dev.cluster import cluster as devcluster
from trainstack.dev.cluster.cluster import Cluster


@pytest.fixture(scope="session")
def seed() -> int:
    """Return the seed of all drawn cases."""
    return chosen_seed("TRAINSTACK_ADMISSION_SEED")


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Yield a separate cluster, and delete it before other tests start.

    With the folder TRAINSTACK_TEST_CLUSTER, the cluster of `<folder>-admission` is used and kept running, for the
    development of tests.
    """
    kept = os.environ.get("TRAINSTACK_TEST_CLUSTER")
    state = Path(f"{kept}-admission") if kept else tmp_path_factory.mktemp("admission")
    try:
        yield devcluster.up(state)
    finally:
        if not kept:
            devcluster.down(state, keep_data=False)


@pytest.fixture(scope="package")
def bench(cluster: Cluster) -> Bench:
    """Return a bench with Kueue ready for cases."""
    return Bench(install(cluster))
