"""Local clusters of tests, which stop with the tests, even if their process is killed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trainstack.local_cluster import cluster as native
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.images import Recipe, ensure_images, helpers, operators, workload
from trainstack.local_cluster.spec import ClusterSpec

ROOT = Path(__file__).parents[1]
_KEPT = "TRAINSTACK_TEST_CLUSTER"
"""The variable with a folder. While you write tests, its clusters are used and kept running."""


def kept_state(suffix: str = "") -> Path | None:
    """Return the state folder of a cluster that is kept running; None if none is."""
    kept = os.environ.get(_KEPT)
    return Path(f"{kept}{suffix}") if kept else None


@contextmanager
def local_cluster(state: Path, spec: ClusterSpec | None = None, *, kept: Path | None = None) -> Iterator[LocalCluster]:
    """Run a cluster, and delete it afterwards; instead, use the kept one if there is one."""
    if kept:
        yield native.up(kept, spec)
    else:
        with native.temporary_cluster(state, spec) as running:
            yield running


def dev_images() -> list[Recipe]:
    """Return every image that the dev environment needs."""
    return [*operators(), *helpers(), workload(ROOT / "workloads" / "digits")]


@contextmanager
def cluster_for_dev(state: Path, *, kept: Path | None = None) -> Iterator[LocalCluster]:
    """Run a cluster with an audit log and every image that the dev environment needs, as `local_cluster` does."""
    with local_cluster(state, ClusterSpec(audit=True), kept=kept) as running:
        ensure_images(dev_images(), running.registry, lambda _: None)
        yield running
