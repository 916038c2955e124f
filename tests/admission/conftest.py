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
    """Of everything that is drawn."""
    return chosen_seed("TRAINSTACK_ADMISSION_SEED")


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of its own, gone before the other tests begin.

    TRAINSTACK_TEST_CLUSTER names a folder; its cluster's neighbour of the name `<folder>-admission` is used then, and
    left running: for whoever writes tests.
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
    """Kueue, ready for cases."""
    return Bench(install(cluster))
