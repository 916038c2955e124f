"""A stack that is used with another cluster's kubeconfig is refused before its first write, for owner and tenant."""

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.inventory import all_objects
from tests.cluster.lab import volume
from tests.cluster.people import Person
from tests.cluster.project import CommandResult, Project
from tests.faults.clusters import own_cluster
from tests.faults.configured_stacks import RESEARCHER, write_kubeconfig
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.objects.labels import LOCAL_CLUSTER

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

TEAM = "team"
"""The tenant's namespace, of the same name in both clusters."""
Config = dict[str, Any]


@dataclass(frozen=True)
class TwoClusters:
    """A project, and the kubeconfigs of two clusters that an administrator has made alike."""

    project: Project
    other_kubeconfigs: Path

    def on_other_cluster(self, project: Project) -> Project:
        """Return the same stack and state with the other cluster's kubeconfig."""
        return with_kubeconfig(project, self.other_kubeconfigs / project.kubeconfig.name)


def with_kubeconfig(project: Project, file: Path) -> Project:
    """Return the same stack and state with another kubeconfig."""
    return replace(project, kubeconfig=file)


@pytest.fixture(scope="module")
def two_clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoClusters]:
    """Yield two clusters that differ only in their identity, each with the tenant's namespace."""
    with ExitStack() as clusters:
        first, second = (
            clusters.enter_context(own_cluster(tmp_path_factory, name, [])) for name in ("here", "elsewhere")
        )
        folders = [make_kubeconfigs(cluster, tmp_path_factory.mktemp("kubeconfigs")) for cluster in (first, second)]
        project = Project.copy(tmp_path_factory.mktemp("pointed"), first)
        yield TwoClusters(replace(project, kubeconfig=folders[0] / "owner"), folders[1])


def make_kubeconfigs(cluster: LocalCluster, folder: Path) -> Path:
    """Write kubeconfigs of an owner and of a tenant, as the administrator would."""
    admin = Person(cluster.kubeconfig)
    # With this annotation a recreated local cluster counts as the same cluster; other clusters do not have it.
    for words in (
        ("annotate", "namespace", "kube-system", f"{LOCAL_CLUSTER}-"),
        ("create", "namespace", TEAM),
        ("create", "serviceaccount", RESEARCHER, "-n", TEAM),
        (
            "create",
            "rolebinding",
            RESEARCHER,
            "-n",
            TEAM,
            "--clusterrole=admin",
            f"--serviceaccount={TEAM}:{RESEARCHER}",
        ),
    ):
        done = admin.kubectl(*words)
        assert done.code == 0, done.text
    shutil.copy2(cluster.kubeconfig, folder / "owner")
    write_kubeconfig(admin, TEAM, folder / "tenant")
    return folder


OWNER: Config = {
    "trainstack:environment": {"namespaces": [{"name": "owned"}]},
    "trainstack:storage": {
        "classes": [{"name": "shared", "provisioner": "rancher.io/local-path"}],
        "volumes": [volume("data", "owned")],
    },
    "trainstack:queues": {"priorityClasses": None},
}
TENANT: Config = {
    "trainstack:environment": {
        "profile": "tenant",
        "layers": ["training"],
        "existing": {"namespaces": [TEAM], "storageClasses": ["shared"]},
    },
    "trainstack:storage": {"volumes": [volume("data", TEAM)]},
    "trainstack:queues": {"priorityClasses": None},
}


@pytest.mark.parametrize(("profile", "config"), [("owner", OWNER), ("tenant", TENANT)])
def test_a_stack_on_another_cluster_writes_nothing(two_clusters: TwoClusters, profile: str, config: Config) -> None:
    """This applies to all commands. Its own cluster and its state do not change, and `up` still works there."""
    two_clusters.project.write_stack(profile, config)
    project = two_clusters.project.environment(profile, two_clusters.project.kubeconfig.with_name(profile))
    owner = with_kubeconfig(project, two_clusters.project.kubeconfig)
    done = project.up()
    assert done.code == 0, done.text
    try:
        redirected = two_clusters.on_other_cluster(project)
        before = (all_objects(owner), all_objects(two_clusters.on_other_cluster(owner)), state_outputs(project))
        for done in (
            redirected.pulumi("preview"),
            redirected.up(),
            redirected.trainstack("up", "--yes", "--no-wait"),
            redirected.pulumi("destroy", "--yes", "--skip-preview", "--run-program"),
            redirected.trainstack("destroy", "--keep-platform", "--yes"),
            redirected.trainstack("destroy", "--yes"),
        ):
            assert_refused(done, profile)
        assert (all_objects(owner), all_objects(two_clusters.on_other_cluster(owner)), state_outputs(project)) == before
        done = project.up("--refresh", "--expect-no-changes")
        assert done.code == 0, done.text
    finally:
        project.take_down()


def assert_refused(done: CommandResult, stack: str) -> None:
    """Check that the command fails, and that its message names the other cluster and the remedy."""
    output = " ".join(done.text.split())
    assert done.code != 0, output
    assert f"stack '{stack}' was created on another cluster" in output
    assert "Nothing was changed" in output
    assert "Traceback" not in output


def state_outputs(project: Project) -> dict[str, Any]:
    """Return the outputs of the resources in the state."""
    done = project.pulumi("stack", "export")
    assert done.code == 0, done.text
    resources: list[dict[str, Any]] = json.loads(done.out)["deployment"]["resources"]
    return {resource["urn"]: resource.get("outputs") for resource in resources}
