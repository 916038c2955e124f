"""Fixtures of the lab, which shares the dev environment's cluster, and of the cluster of the sites."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import traces
from tests.cluster.lab import NAMESPACE, platform_config
from tests.cluster.people import NAMESPACE as TENANT
from tests.cluster.people import OTHER_PRODUCT, Person, cluster_command
from tests.cluster.project import Project
from tests.cluster.registries import buildah_variables
from tests.local_clusters import kept_state, local_cluster
from trainstack.local_cluster import cluster as native
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.spec import ClusterSpec


@pytest.fixture(scope="session")
def labs(checkout: Project) -> Iterator[list[Project]]:
    """Yield the list of open labs, and close them at the end only if the cluster is kept."""
    made: list[Project] = []
    yield made
    if kept_state():
        close_lab(made)


@pytest.fixture(scope="session")
def lab(installed: Project, labs: list[Project]) -> Project:
    """Install a platform-only stack that uses the operators of the dev environment."""
    project = installed.other_stack("lab", platform_config())
    labs.append(project)
    done = project.up()
    assert done.code == 0, done.text
    return project


@pytest.fixture
def no_lab(labs: list[Project]) -> None:
    """Remove the lab and leave the dev environment."""
    close_lab(labs)


def close_lab(labs: list[Project]) -> None:
    """Destroy the lab, if there is one."""
    for project in labs:
        project.take_down()
        # A platform-only stack retains its namespaces, which may contain volumes of teams.
        done = project.kubectl("delete", "namespace", NAMESPACE, "--timeout=60s")
        assert done.code == 0, done.text
    labs.clear()


@pytest.fixture(scope="session")
def traces_before_sites(tmp_path_factory: pytest.TempPathFactory) -> traces.Traces:
    """Return the traces on this machine before the cluster of the sites."""
    return traces.collect_traces(_sites_state(tmp_path_factory))


@pytest.fixture(scope="session")
def sites(traces_before_sites: traces.Traces, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Start a cluster and add the sites of all reference systems with two commands while it runs."""
    state = _sites_state(tmp_path_factory)
    spec = ClusterSpec(simulated_nodes=1, simulated_product=OTHER_PRODUCT)
    with local_cluster(state, spec, kept=kept_state("-sites")) as plain:
        for names in (("eidf", "traindb"), ("vsphere", "azurestack", "eidf")):
            words = (word for name in names for word in ("--site", name))
            done = cluster_command("up", "--state", str(state), *words)
            assert done.code == 0, done.text
        assert native.up(state) == plain
        yield plain


@pytest.fixture(scope="session")
def owner(sites: LocalCluster) -> Person:
    """Return the administrator of the cluster of the sites."""
    return Person(sites.kubeconfig)


@pytest.fixture(scope="session")
def tenant(sites: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Person:
    """Return a researcher of the GPU service, with the kubeconfig from `trainstack cluster kubeconfig`."""
    file = tmp_path_factory.mktemp("tenant") / "kubeconfig"
    words = ("--as", f"{TENANT}/researcher", "--output", str(file))
    done = cluster_command("kubeconfig", "--state", str(sites.state), *words)
    assert (done.code, done.out) == (0, f"{file}\n"), done.text
    assert file.stat().st_mode & 0o777 == 0o600
    return Person(file)


def _sites_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return kept_state("-sites") or tmp_path_factory.getbasetemp() / "sites"


@pytest.fixture
def buildah(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set up buildah as for a user, with files of the test."""
    (tmp_path / "auth.json").write_text("{}")
    for variable in ("DOCKER_CONFIG", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in buildah_variables(tmp_path).items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
