"""The real cluster of the tests: one for the whole run, in a folder of its own, gone afterwards."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster import cluster as devcluster
from devcluster.cluster import Cluster
from devcluster.images import ensure_images, helpers, operators, workload
from devcluster.spec import ClusterSpec
from tests.cluster import traces
from tests.cluster.inventory import Name, everything
from tests.cluster.lab import NAMESPACE, platform_config
from tests.cluster.people import NAMESPACE as TENANT
from tests.cluster.people import OTHER_PRODUCT, Person, cluster_command
from tests.cluster.project import ROOT, Project


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


@pytest.fixture(scope="session")
def labs(dev: Project) -> Iterator[list[Project]]:
    """The lab, from the first test that needs it to the last."""
    made: list[Project] = []
    yield made
    close_lab(made)


@pytest.fixture(scope="session")
def lab(dev: Project, labs: list[Project]) -> Project:
    """A stack of the platform's half alone, beside the dev environment, whose operators serve it too."""
    project = dev.other("lab", platform_config())
    labs.append(project)
    done = project.up()
    assert done.code == 0, done.text
    return project


@pytest.fixture
def no_lab(labs: list[Project]) -> None:
    """The dev environment alone again."""
    close_lab(labs)


def close_lab(labs: list[Project]) -> None:
    """Take the lab down, if there is one."""
    for project in labs:
        project.take_down()
        # A platform alone leaves its namespaces: teams' volumes may be in them.
        done = project.kubectl("delete", "namespace", NAMESPACE, "--timeout=60s")
        assert done.code == 0, done.text
    labs.clear()


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> traces.Traces:
    """What this machine had before the cluster of the sites."""
    return traces.look(_sites_state(tmp_path_factory))


@pytest.fixture(scope="session")
def sites(machine: traces.Traces, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster that became all reference systems' sites while it ran, two of them by a later command."""
    state = _sites_state(tmp_path_factory)
    try:
        plain = devcluster.up(state, ClusterSpec(simulated_nodes=1, simulated_product=OTHER_PRODUCT))
        for names in (("eidf", "traindb"), ("vsphere", "azurestack", "eidf")):
            words = (word for name in names for word in ("--site", name))
            done = cluster_command("up", "--state", str(state), *words)
            assert done.code == 0, done.text
        assert devcluster.up(state) == plain
        yield plain
    finally:
        if not os.environ.get("TRAINSTACK_TEST_CLUSTER"):
            devcluster.down(state, keep_data=False)


@pytest.fixture(scope="session")
def owner(sites: Cluster) -> Person:
    """Who runs the cluster of the sites."""
    return Person(sites.kubeconfig)


@pytest.fixture(scope="session")
def tenant(sites: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Person:
    """A researcher of the GPU service, by the kubeconfig that he is given."""
    file = tmp_path_factory.mktemp("tenant") / "kubeconfig"
    words = ("--as", f"{TENANT}/researcher", "--output", str(file))
    done = cluster_command("kubeconfig", "--state", str(sites.state), *words)
    assert (done.code, done.out) == (0, f"{file}\n"), done.text
    assert file.stat().st_mode & 0o777 == 0o600
    return Person(file)


def _sites_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    kept = os.environ.get("TRAINSTACK_TEST_CLUSTER")
    return Path(f"{kept}-sites") if kept else tmp_path_factory.getbasetemp() / "sites"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests that take the dev environment down come after all others."""
    items.sort(key=lambda item: item.get_closest_marker("last") is not None)
