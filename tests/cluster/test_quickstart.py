"""`quickstart` on somebody else's cluster: its Kueue, a class of one node, a registry with a password, one namespace."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.cluster.project import Done, Project, emptied
from tests.cluster.registries import (
    PASSWORD,
    USER,
    buildah_variables,
    log_in,
    make_access,
    served_with_password,
    trusted_by_nodes,
)
from trainstack.dev.cluster.access import write_kubeconfig
from trainstack.dev.cluster.cluster import Cluster
from trainstack.dev.cluster.images import Storage
from trainstack.dev.cluster.images.storage import OWN_MOUNTS
from trainstack.runs.images.images import base_reference

pytestmark = pytest.mark.cluster

NAME, ACCOUNT, SECRET = "quickstart", "newcomer", "registry"
PLACEHOLDER = "registry.example.org"
KINDS = "configmaps,secrets,serviceaccounts,persistentvolumeclaims,pods,jobs,localqueues,workloads,rolebindings"


@dataclass(frozen=True)
class Newcomer:
    """A person with a kubeconfig in the usual place, a checkout and buildah."""

    project: Project
    variables: dict[str, str | None]
    registry: str

    def trainstack(self, *words: str, code: int = 0, seconds: float = 300) -> Done:
        """Run a command, which ends with this code."""
        # What buildah mounts is gone when the command ends.
        command = [*OWN_MOUNTS, str(self.project.root / ".venv/bin/python"), "-m", "trainstack.cli", *words, "-s", NAME]
        done = self.project.run(command, environment=self.variables, seconds=seconds)
        assert done.code == code, done.text
        return done

    def edit(self, *edits: tuple[str, str]) -> None:
        """Replace texts that the environment's file has once."""
        file = self.project.root / f"Pulumi.{NAME}.yaml"
        text = file.read_text()
        for old, new in edits:
            assert text.count(old) == 1
            text = text.replace(old, new)
        file.write_text(text)


def owners_objects() -> list[dict[str, object]]:
    """What the cluster's owner makes for a team: a namespace, an account, a queue and a class for one node."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    namespace, queue = {"name": NAME, "labels": labels}, {"name": NAME, "namespace": NAME}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": namespace},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAME}},
        {
            "apiVersion": "kueue.x-k8s.io/v1beta1",
            "kind": "LocalQueue",
            "metadata": queue,
            "spec": {"clusterQueue": "research"},
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "standard"},
            "provisioner": "rancher.io/local-path-node",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    ]


def give_roles(owner: Project) -> None:
    """Apply the environment's roles, and bind them to the account."""
    roles = list(yaml.safe_load_all((owner.root / "rights" / f"{NAME}.yaml").read_text()))
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAME}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role"}
    bindings = [
        {
            **{**role, "kind": "RoleBinding"},
            "roleRef": {**reference, "name": role["metadata"]["name"]},
            "subjects": [subject],
        }
        for role in roles
    ]
    for binding in bindings:
        del binding["rules"]
    apply(owner, *roles, *bindings)


def apply(owner: Project, *objects: object) -> None:
    """Apply objects as the cluster's owner."""
    done = owner.kubectl("apply", stdin=yaml.safe_dump_all(objects))
    assert done.code == 0, done.text


def names(owner: Project) -> set[str]:
    """What the namespace has."""
    done = owner.kubectl("get", KINDS, "-n", NAME, "-o", "name")
    assert done.code == 0, done.text
    return {*done.out.split()}


@pytest.fixture
def newcomer(dev: Project, cluster: Cluster, tmp_path: Path) -> Iterator[Newcomer]:
    """A new checkout, and a cluster on which its owner has made a namespace, a queue, a class and roles."""
    project = Project.copy(tmp_path / "checkout", cluster, NAME)
    access = make_access(tmp_path, cluster.host_ip)
    variables = {**buildah_variables(tmp_path), "CONTAINERS_STORAGE_CONF": str(tmp_path / "overlay.conf")}
    # The base image is neither built nor copied: this machine has it.
    storage = Storage.shared().folder / "storage"
    (tmp_path / "overlay.conf").write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{tmp_path}/graph"\nrunroot = "{tmp_path}/run"\n'
        f'[storage.options]\nadditionalimagestores = ["{storage}"]\n'
    )
    apply(dev, *owners_objects())
    try:
        give_roles(dev)
        (tmp_path / "home" / ".kube").mkdir(parents=True)
        kubeconfig = write_kubeconfig(cluster, f"{NAME}/{ACCOUNT}", tmp_path / "home" / ".kube" / "config")
        absent = dict.fromkeys(("KUBECONFIG", "DOCKER_CONFIG", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"))
        with served_with_password(tmp_path, access), trusted_by_nodes(cluster, access):
            log_in(tmp_path, access.address, PASSWORD)
            person = Project(project.root, kubeconfig, NAME)
            yield Newcomer(person, {**variables, **absent}, access.address)
    finally:
        for kind in ("namespace", "storageclass"):
            name = {"namespace": NAME, "storageclass": "standard"}[kind]
            done = dev.kubectl("delete", kind, name, "--timeout=60s")
            assert done.code == 0, done.text


def test_a_newcomer_trains_on_a_cluster_of_somebody_else(newcomer: Newcomer, dev: Project) -> None:
    """After an edit of registry and queue, with rights in one namespace, of which nothing is used up at the end."""
    found = newcomer.trainstack("check", "--cluster", code=1)
    print(found.text)
    words = (f"--docker-server={newcomer.registry}", f"--docker-username={USER}", f"--docker-password={PASSWORD}")
    done = dev.kubectl("create", "secret", "docker-registry", SECRET, "-n", NAME, *words)
    assert done.code == 0, done.text
    before = names(dev)

    newcomer.edit((PLACEHOLDER, newcomer.registry), ("# queue: ", "queue: "))
    newcomer.trainstack("image", "build", "digits-one", "--build-arg", f"BASE={base_reference()}")
    newcomer.trainstack("image", "push", "digits-one")
    checked = newcomer.trainstack("check", "--cluster")
    print(checked.text)
    done = newcomer.trainstack("up")
    print(done.text)
    (record,) = (newcomer.project.root / "results").iterdir()
    run = json.loads((record / "run.json").read_text())
    print(run)
    (queued,) = dev.get("workloads", namespace=NAME)["items"]
    print(queued["spec"]["queueName"])
    done = newcomer.trainstack("fetch", record.name, "--to", str(newcomer.project.root / "again"))
    done = newcomer.trainstack("destroy", "--yes")
    print(done.text)
    emptied("what the run needed", lambda: names(dev) - before, 60)
    assert names(dev) == before
