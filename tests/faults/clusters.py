"""Separate clusters for tests that would disturb the others."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from tests.local_clusters import kept_state, local_cluster
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.images import Recipe, ensure_images


@contextmanager
def own_cluster(factory: pytest.TempPathFactory, name: str, images: Sequence[Recipe]) -> Iterator[LocalCluster]:
    """Yield a cluster with these images, in a folder with this name, and delete it afterwards."""
    with local_cluster(factory.mktemp(name), kept=kept_state()) as running:
        ensure_images(images, running.registry, lambda _: None)
        yield running
