"""A cluster with nothing but Kueue on it."""

from collections.abc import Iterator

import pytest

from tests.admission.bench import Bench
from tests.admission.kueue import install
from tests.local_clusters import kept_state, local_cluster
from tests.seeds import chosen_seed
from trainstack.local_cluster.cluster import LocalCluster


@pytest.fixture(scope="session")
def seed() -> int:
    """Return the seed of all drawn cases."""
    return chosen_seed("TRAINSTACK_ADMISSION_SEED")


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Yield a separate cluster, and delete it before other tests start."""
    with local_cluster(tmp_path_factory.mktemp("admission"), kept=kept_state("-admission")) as running:
        yield running


@pytest.fixture(scope="package")
def bench(cluster: LocalCluster) -> Bench:
    """Return a bench with Kueue ready for cases."""
    return Bench(install(cluster))
