"""What stands beside the dev environment, and the cluster of the sites."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import traces
from tests.cluster.lab import NAMESPACE, platform_config
from tests.cluster.people import NAMESPACE as TENANT
from tests.cluster.people import OTHER_PRODUCT, Person, cluster_command
from tests.cluster.project import Project
from tests.cluster.registries import buildah_variables
from trainstack.dev.cluster import cluster as devcluster
from trainstack.dev.cluster.cluster import Cluster
from trainstack.dev.cluster.spec import ClusterSpec


@pytest.fixture(scope="session")
def labs(checkout: Project) -> Iterator[list[Project]]:
    """The lab, from the first test that needs it to the last. A cluster that is deleted anyway takes it along."""
    made: list[Project] = []
    yield made
    if os.environ.get("TRAINSTACK_TEST_CLUSTER"):
        close_lab(made)


@pytest.fixture(scope="session")
def lab(installed: Project, labs: list[Project]) -> Project:
    """A stack of the platform's half alone, beside the dev environment, whose operators serve it too."""
    project = installed.other("lab", platform_config())
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


@pytest.fixture
def buildah(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Buildah as a user has it, whose files are the test's own."""
    (tmp_path / "auth.json").write_text("{}")
    for variable in ("DOCKER_CONFIG", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in buildah_variables(tmp_path).items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
