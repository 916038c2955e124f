"""The surroundings of drawn environments: the objects of other owners, and the rights of their deployment."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.people import Person
from tests.cluster.project import ROOT, Project
from tests.faults.configurations import Configuration, Share
from tests.faults.stack_configs import cluster_queue, platform, platform_stack, stack_config
from trainstack.local_cluster.config import SHARED_FOLDER
from trainstack.objects.labels import STACK, WORKLOAD

Body = dict[str, Any]
RESEARCHER = "researcher"
"""The service account of a tenant."""
SITE = ROOT / "trainstack" / "local_cluster" / "sites" / "eidf" / "objects.yaml"
"""A GPU service: its rules for Jobs, and what its tenants may do."""


KINDS = ("Job", "PyTorchJob", "Pod", "Workload", "LocalQueue")
"""The kinds that a view of a configuration's namespace has."""


@dataclass(frozen=True)
class NamespaceView:
    """The objects in a configuration's namespace at one time."""

    configuration: Configuration
    objects: Mapping[str, list[Body]]

    @property
    def launches(self) -> list[Body]:
        """Return the stack's launches of both kinds."""
        jobs = [*self.objects["Job"], *self.objects["PyTorchJob"]]
        return [body for body in jobs if body["metadata"].get("labels", {}).get(STACK) == self.configuration.name]

    @property
    def workloads(self) -> dict[str, Body]:
        """Return Kueue's Workloads by the UID of their owner."""
        return {body["metadata"]["ownerReferences"][0]["uid"]: body for body in self.objects["Workload"]}

    @property
    def waiting(self) -> int:
        """Return the number of pending workloads in the queue, from its status."""
        (queue,) = self.objects["LocalQueue"]
        return int(queue.get("status", {}).get("pendingWorkloads", 0))

    def launches_of(self, share: Share) -> list[Body]:
        """Return the launches of a workload."""
        return [body for body in self.launches if body["metadata"]["labels"][WORKLOAD] == share.name]

    def pods_of(self, share: Share) -> list[Body]:
        """Return the pods of a workload."""
        pods = self.objects["Pod"]
        return [body for body in pods if body["metadata"].get("labels", {}).get(WORKLOAD) == share.name]


@dataclass(frozen=True)
class ConfiguredStack:
    """One configuration's stack, and the cluster as its owner sees it."""

    configuration: Configuration
    project: Project
    owner: Person
    volumes: Path
    """The node's folder for the files of volumes."""

    @property
    def volume(self) -> Path:
        """Return the folder of the configuration's volume."""
        (folder,) = (self.volumes / SHARED_FOLDER).glob(f"*_{self.configuration.name}_again")
        return folder

    def count_marks(self, name: str, which: str) -> int:
        """Return how often a workload's program has begun, or ended, from the files that it writes."""
        # There is no folder before the first pod.
        pattern = f"*_{self.configuration.name}_again/told/{name}/{which}.*"
        return len(list((self.volumes / SHARED_FOLDER).glob(pattern)))

    def view(self) -> "NamespaceView":
        """Return the objects in the namespace."""
        kinds = ["jobs", "pods", "workloads.kueue.x-k8s.io", "localqueues.kueue.x-k8s.io"]
        if self.configuration.environment != "site":
            kinds.append("pytorchjobs")
        found = self.owner.items(",".join(kinds), self.configuration.name)
        return NamespaceView(
            self.configuration, {kind: [body for body in found if body["kind"] == kind] for kind in KINDS}
        )

    def uids(self) -> dict[str, str]:
        """Return the UIDs of the launches by name, to detect an object that was replaced."""
        return {body["metadata"]["name"]: body["metadata"]["uid"] for body in self.view().launches}

    def ledgers(self) -> dict[str, Body]:
        """Return the data of the stack's ledgers by name."""
        label = f"trainstack.dev/ledger,trainstack.dev/stack={self.configuration.name}"
        found = self.owner.items("configmaps", self.configuration.name, label)
        return {body["metadata"]["name"]: body["data"] for body in found}


@contextmanager
def configured_stacks(
    configurations: Sequence[Configuration], base_project: Project, owner: Person, state: Path
) -> Iterator[list[ConfiguredStack]]:
    """Yield the stacks of some configurations of one environment, not yet deployed; remove their platform afterwards.

    `base_project`: the project with the dev environment, whose operators serve them. `state`: the cluster's folder.
    """
    (environment,) = {configuration.environment for configuration in configurations}
    with ExitStack() as afterwards:
        if environment == "team":
            afterwards.enter_context(_platform(configurations, base_project))
        if environment == "site":
            afterwards.enter_context(_site(configurations, owner))
        yield [
            ConfiguredStack(configuration, _project(configuration, base_project, owner), owner, state / "volumes")
            for configuration in configurations
        ]


def _project(configuration: Configuration, base_project: Project, owner: Person) -> Project:
    kubeconfig = base_project.kubeconfig
    if configuration.environment != "owner":
        kubeconfig = base_project.root / ".trainstack" / f"{configuration.name}.kubeconfig"
        write_kubeconfig(owner, configuration.name, kubeconfig)
    base_project.write_stack(configuration.name, stack_config(configuration, launched=False))
    return base_project.environment(configuration.name, kubeconfig)


def write_kubeconfig(owner: Person, namespace: str, to: Path) -> None:
    """Write a kubeconfig with only the rights of the namespace's service account."""
    done = owner.kubectl("create", "token", RESEARCHER, "-n", namespace, "--duration=3h")
    assert done.code == 0, done.text
    config = yaml.safe_load(owner.kubeconfig.read_text())
    config["users"] = [{"name": config["users"][0]["name"], "user": {"token": done.out.strip()}}]
    to.write_text(yaml.safe_dump(config))


@contextmanager
def _platform(configurations: Sequence[Configuration], base_project: Project) -> Iterator[None]:
    """Deploy the stack of an owner, with a namespace, a queue and rights for each team."""
    teams = [
        {"name": configuration.name, "namespace": configuration.name, "serviceAccount": RESEARCHER}
        for configuration in configurations
    ]
    config = {**platform(*configurations), "trainstack:tenants": {"teams": teams}}
    config["trainstack:environment"] = {**config["trainstack:environment"], "layers": ["platform"]}
    (stack,) = {platform_stack(configuration) for configuration in configurations}
    project = base_project.other_stack(stack, config)
    try:
        done = project.up()
        assert done.code == 0, done.text
        yield
    finally:
        project.take_down()
        # A platform alone leaves its namespaces: teams' volumes may be in them.
        names = [configuration.name for configuration in configurations]
        done = project.kubectl("delete", "namespace", *names, "--ignore-not-found", "--timeout=300s")
        assert done.code == 0, done.text


@contextmanager
def _site(configurations: Sequence[Configuration], owner: Person) -> Iterator[None]:
    """Create the objects that the service's staff creates for each tenant, and the policies for its Jobs."""
    objects = list(yaml.safe_load_all(SITE.read_text()))
    rules = [body for body in objects if "AdmissionPolicy" in body["kind"]]
    (role,) = (body for body in objects if body["kind"] == "Role")
    tenant_objects = [
        body for configuration in configurations for body in _tenant_objects(configuration, role["rules"])
    ]
    done = owner.kubectl("apply", "--server-side", body=_listed([*tenant_objects, *rules]))
    assert done.code == 0, done.text
    try:
        yield
    finally:
        # A flavor is deleted once no queue uses it; the objects in a namespace are deleted with it.
        cluster_wide = [body for body in tenant_objects if "namespace" not in body["metadata"]]
        done = owner.kubectl("delete", "--ignore-not-found", "--wait=false", body=_listed([*cluster_wide, *rules]))
        assert done.code == 0, done.text
        names = [f"namespace/{configuration.name}" for configuration in configurations]
        done = owner.kubectl("wait", "--for=delete", "--timeout=110s", *names)
        assert done.code == 0, done.text


def _tenant_objects(configuration: Configuration, rules: list[Body]) -> list[Body]:
    name, kueue, rbac = configuration.name, "kueue.x-k8s.io/v1beta2", "rbac.authorization.k8s.io"
    queue = {key: value for key, value in cluster_queue(configuration).items() if key != "name"}
    in_namespace = {"namespace": name}
    labels = {"gpu-service/tenant": "true", "pod-security.kubernetes.io/enforce": "restricted"}
    subjects = [{"kind": "ServiceAccount", "name": RESEARCHER, "namespace": name}]
    reference = {"apiGroup": rbac, "kind": "Role", "name": RESEARCHER}
    return [
        _body("v1", "Namespace", {"name": name, "labels": labels}),
        _body("v1", "ServiceAccount", {"name": RESEARCHER, **in_namespace}),
        _body(f"{rbac}/v1", "Role", {"name": RESEARCHER, **in_namespace}, rules=rules),
        _body(f"{rbac}/v1", "RoleBinding", {"name": RESEARCHER, **in_namespace}, roleRef=reference, subjects=subjects),
        _body(kueue, "ResourceFlavor", {"name": name}, spec={}),
        _body(kueue, "ClusterQueue", {"name": name}, spec={**queue, "namespaceSelector": {}}),
        _body(kueue, "LocalQueue", {"name": configuration.queue, **in_namespace}, spec={"clusterQueue": name}),
    ]


def _body(api_version: str, kind: str, metadata: Body, **fields: Any) -> Body:
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def _listed(bodies: Sequence[Body]) -> Body:
    return {"apiVersion": "v1", "kind": "List", "items": list(bodies)}
