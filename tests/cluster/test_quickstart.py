"""`quickstart` on another owner's cluster: rights in one namespace, a single-node StorageClass, a private registry."""

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.people import Person, make_claim
from tests.cluster.project import ROOT, CommandResult, Project, await_empty, eventually
from tests.cluster.registries import (
    PASSWORD,
    USER,
    buildah_variables,
    log_in,
    make_access,
    pulled_by_nodes,
    running_private_registry,
)
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.images import ImageStorage
from trainstack.local_cluster.images.storage import UNSHARE_COMMAND
from trainstack.local_cluster.spec import NODE_NAME
from trainstack.local_cluster.tenant_kubeconfigs import write_kubeconfig
from trainstack.platform.rbac.rights import API
from trainstack.runs.images.content_tags import base_reference

pytestmark = pytest.mark.cluster

NAME, ACCOUNT = "quickstart", "newcomer"
PLACEHOLDER = "registry.example.org"
KINDS = "configmaps,secrets,serviceaccounts,persistentvolumeclaims,pods,jobs,localqueues,workloads,rolebindings"


@dataclass(frozen=True)
class Newcomer:
    """A user with a kubeconfig in the default place, a checkout and buildah."""

    project: Project
    variables: dict[str, str | None]
    registry: str

    def trainstack(self, *words: str, code: int = 0, seconds: float = 300) -> CommandResult:
        """Run a command, and assert its exit code."""
        # Buildah's mounts are removed when the command ends.
        command = [
            *UNSHARE_COMMAND,
            str(self.project.root / ".venv/bin/python"),
            "-m",
            "trainstack.cli",
            *words,
            "-s",
            NAME,
        ]
        done = self.project.run(command, environment=self.variables, seconds=seconds)
        assert done.code == code, done.text
        return done

    @property
    def file(self) -> Path:
        """Return the path of the environment's file."""
        return self.project.root / f"Pulumi.{NAME}.yaml"

    def edit(self, *edits: tuple[str, str]) -> None:
        """Replace texts that occur once in the environment's file."""
        text = self.file.read_text()
        for old, new in edits:
            assert text.count(old) == 1
            text = text.replace(old, new)
        self.file.write_text(text)

    def line_of(self, text: str) -> int:
        """Return the number of the first line with a text."""
        lines = self.file.read_text().splitlines()
        return next(number for number, line in enumerate(lines, 1) if text in line)


OWNERS = f"""
apiVersion: v1
kind: Namespace
metadata: {{name: {NAME}, labels: {{pod-security.kubernetes.io/enforce: restricted}}}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {{name: {ACCOUNT}, namespace: {NAME}}}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {{name: {NAME}, namespace: {NAME}}}
spec: {{clusterQueue: research}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{name: standard}}
provisioner: rancher.io/local-path-node
volumeBindingMode: WaitForFirstConsumer
"""
"""The objects that the cluster's owner creates for a team. The provisioner supports ReadWriteOnce only."""


def give_roles(owner: Project) -> None:
    """Apply the environment's roles, and bind them to the account."""
    roles = list(yaml.safe_load_all((ROOT / "rights" / f"{NAME}.yaml").read_text()))
    bindings = [
        {
            "apiVersion": role["apiVersion"],
            "kind": "RoleBinding",
            "metadata": role["metadata"],
            "roleRef": {"apiGroup": API, "kind": "Role", "name": role["metadata"]["name"]},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAME}],
        }
        for role in roles
    ]
    apply(owner, *roles, *bindings)


def apply(owner: Project, *objects: object) -> None:
    """Apply objects as the cluster's owner."""
    done = owner.kubectl("apply", stdin=yaml.safe_dump_all(objects))
    assert done.code == 0, done.text


def object_names(owner: Project) -> set[str]:
    """Return the kinds and names of the objects in the namespace."""
    return {f"{body['kind']}/{body['metadata']['name']}" for body in owner.select(KINDS, "", NAME)}


@pytest.fixture
def newcomer(dev: Project, cluster: LocalCluster, tmp_path: Path) -> Iterator[Newcomer]:
    """Yield a new user of a cluster whose owner has created a namespace, a queue, a class and roles."""
    project = Project.copy(tmp_path / "checkout", cluster, NAME)
    access = make_access(tmp_path, cluster.host_ip)
    variables = {**buildah_variables(tmp_path), "CONTAINERS_STORAGE_CONF": str(tmp_path / "overlay.conf")}
    # The base image is neither built nor copied, because this machine's storage has it.
    storage = ImageStorage.shared().folder / "storage"
    (tmp_path / "overlay.conf").write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{tmp_path}/graph"\nrunroot = "{tmp_path}/run"\n'
        f'[storage.options]\nadditionalimagestores = ["{storage}"]\n'
    )
    apply(dev, *yaml.safe_load_all(OWNERS))
    try:
        give_roles(dev)
        words = (f"--docker-server={access.address}", f"--docker-username={USER}", f"--docker-password={PASSWORD}")
        done = dev.kubectl("create", "secret", "docker-registry", "registry", "-n", NAME, *words)
        assert done.code == 0, done.text
        (tmp_path / "home" / ".kube").mkdir(parents=True)
        kubeconfig = write_kubeconfig(cluster, f"{NAME}/{ACCOUNT}", tmp_path / "home" / ".kube" / "config")
        absent = dict.fromkeys(("KUBECONFIG", "DOCKER_CONFIG", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"))
        with running_private_registry(tmp_path, access), pulled_by_nodes(cluster, access):
            log_in(tmp_path, access.address, PASSWORD)
            person = Project(project.root, kubeconfig, NAME)
            yield Newcomer(person, {**variables, **absent}, access.address)
    finally:
        shutil.rmtree(tmp_path / "blobs", ignore_errors=True)
        done = dev.kubectl("delete", f"namespace/{NAME}", "storageclass/standard", "--timeout=60s")
        assert done.code == 0, done.text


def test_quickstart_on_the_cluster_of_another_owner(newcomer: Newcomer, dev: Project) -> None:
    """The user edits registry and queue, and needs rights in only one namespace.

    After `destroy`, the namespace has the same objects as before.
    """
    assert "Forbidden" in Person(newcomer.project.kubeconfig).kubectl("get", "pods", "-n", "default").err
    assert shared_volume_is_refused(dev)
    before = object_names(dev)
    found = newcomer.trainstack("check", "--cluster", code=4)
    assert f"error    [registry-unreachable] Pulumi.{NAME}.yaml:{newcomer.line_of(PLACEHOLDER)}: " in found.out
    assert "1 error" in found.err

    newcomer.edit((PLACEHOLDER, newcomer.registry), ("# queue: ", "queue: "))
    newcomer.trainstack("image", "build", "digits-one", "--build-arg", f"BASE={base_reference()}")
    _, _, digest = newcomer.trainstack("image", "push", "digits-one").out.strip().partition("@")
    assert "0 errors" in newcomer.trainstack("check", "--cluster").err
    edited = newcomer.file.read_text()
    up = newcomer.trainstack("up", "--yes")
    assert "/home/.kube/config)" in up.err
    assert newcomer.file.read_text() == edited
    assert {pod_image(pod) for pod in dev.get("pods", namespace=NAME)["items"]} == {digest}
    queues = [workload["spec"]["queueName"] for workload in dev.get("workloads", namespace=NAME)["items"]]
    assert set(queues) == {NAME}

    (record,) = (newcomer.project.root / "results").iterdir()
    assert f"{record.name}\n  test accuracy  0.98" in up.out
    fetched = newcomer.project.root / "fetched"
    newcomer.trainstack("fetch", record.name, "--to", str(fetched))
    assert json.loads((fetched / "run.json").read_text())["state"] == "succeeded"
    newcomer.trainstack("destroy", "--yes")
    await_empty("what the run needed", lambda: object_names(dev) - before, 60)
    assert object_names(dev) == before


def shared_volume_is_refused(owner: Project) -> bool:
    """Return whether the class refuses a ReadWriteMany volume."""
    claim = make_claim("shared", "standard", "ReadWriteMany", NAME)
    # The scheduler sets this annotation for the claim's first pod.
    claim["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": NODE_NAME}
    apply(owner, claim)

    def refusals() -> list[str]:
        events = owner.get("events", namespace=NAME)["items"]
        return [event["message"] for event in events if event["reason"] == "ProvisioningFailed"]

    (refusal, *_) = eventually("a refusal of the claim", refusals, 60)
    done = owner.kubectl("delete", "pvc", "shared", "-n", NAME, "--timeout=60s")
    assert done.code == 0, done.text
    return "ReadWriteOnce" in refusal


def pod_image(pod: Mapping[str, Any]) -> str:
    """Return the digest of the image that a pod with one container runs."""
    (status,) = pod["status"]["containerStatuses"]
    return str(status["imageID"]).partition("@")[2]
