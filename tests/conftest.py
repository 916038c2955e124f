"""The real cluster of the tests: one for the whole run, in a folder of its own, gone afterwards; and `dev` on it."""

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.cluster.inventory import Name, everything
from tests.cluster.project import ROOT, Project
from trainstack.dev.cluster import cluster as devcluster
from trainstack.dev.cluster.cluster import Cluster
from trainstack.dev.cluster.images import ensure_images, helpers, operators, workload
from trainstack.dev.cluster.spec import ClusterSpec


def start_cluster(state: Path) -> Cluster:
    """A running cluster with every image that the dev environment needs, which keeps a log of who asks what."""
    running = devcluster.up(state, ClusterSpec(audit=True))
    ensure_images([*operators(), *helpers(), workload(ROOT / "workloads" / "digits")], running.registry, lambda _: None)
    return running


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster for all tests that do not need one of their own.

    TRAINSTACK_TEST_CLUSTER names a folder whose cluster is used, and left running: for whoever writes tests.
    """
    kept = os.environ.get("TRAINSTACK_TEST_CLUSTER")
    state = Path(kept) if kept else tmp_path_factory.mktemp("cluster")
    try:
        yield start_cluster(state)
    finally:
        if not kept:
            devcluster.down(state, keep_data=False)


@pytest.fixture(scope="session")
def checkout(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of the project that knows the cluster by KUBECONFIG alone."""
    return Project.copy(tmp_path_factory.mktemp("dev"), cluster)


@pytest.fixture(scope="session")
def before(checkout: Project) -> frozenset[Name]:
    """What the cluster held before the dev environment came."""
    return everything(checkout)


@pytest.fixture(scope="session")
def dev(checkout: Project, before: frozenset[Name]) -> Project:
    """The dev environment, brought up by the one command, its run followed to its end."""
    done = checkout.trainstack("up", seconds=420)
    assert done.code == 0, done.text
    (checkout.root / "up.log").write_text(done.text)
    return checkout


GROUPS = {"cluster": "dev", "sites": "sites", "own": "outages", "servers": "stateful"}
"""Expensive fixtures of a session, and the group of the tests that share one."""


def group_of(item: pytest.Item) -> str:
    """The group of a test that needs a cluster: that of its shared fixture, else its folder or file."""
    if item.path.parent.name == "admission":
        return "admission"
    fixtures = getattr(item, "fixturenames", ())
    return next((group for name, group in GROUPS.items() if name in fixtures), item.path.stem)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, None, None]:
    """Group the tests that need a cluster: with `-n N --dist loadgroup`, one process runs a whole group.

    The large groups start first. Tests that take their environment down are the last of their group. As a wrapper the
    hook runs before that of xdist, which reads the groups.
    """
    large = [*GROUPS.values(), "admission"]
    ranks: dict[pytest.Item, int] = {}
    for item in items:
        if item.path.is_relative_to(ROOT / "tests" / "unit"):
            continue
        group = group_of(item)
        item.add_marker(pytest.mark.xdist_group(group))
        ranks[item] = large.index(group) if group in large else len(large)
    items.sort(key=lambda item: (ranks.get(item, -1), item.get_closest_marker("last") is not None))
    yield
