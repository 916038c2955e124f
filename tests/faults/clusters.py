"""Separate clusters for tests that would disturb the others."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from trainstack.dev.cluster import cluster as devcluster
from trainstack.dev.cluster.cluster import Cluster
from trainstack.dev.cluster.images import Recipe, ensure_images


@contextmanager
def own_cluster(factory: pytest.TempPathFactory, name: str, images: Sequence[Recipe]) -> Iterator[Cluster]:
    """Yield a cluster with these images, in a folder with this name, and delete it afterwards.

    TRAINSTACK_TEST_CLUSTER is a folder whose cluster is used and kept running, for the development of tests.
    """
    kept = os.environ.get("TRAINSTACK_TEST_CLUSTER")
    state = Path(kept) if kept else factory.mktemp(name)
    try:
        running = devcluster.up(state)
        ensure_images(images, running.registry, lambda _: None)
        yield running
    finally:
        if not kept:
            devcluster.down(state, keep_data=False)
