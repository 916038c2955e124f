"""Where drawn environments stand: who made what is there, and with whose rights the stack is brought up."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.people import Person
from tests.cluster.project import ROOT, Project
from tests.faults.configurations import Configuration, Share
from tests.faults.surroundings import cluster_queue, platform, platform_stack, stack_config
from trainstack.dev.cluster.config import SHARED_FOLDER
from trainstack.objects.labels import STACK, WORKLOAD

Body = dict[str, Any]
RESEARCHER = "researcher"
"""The service account that a tenant acts as."""
SITE = ROOT / "trainstack" / "dev" / "cluster" / "sites" / "eidf" / "objects.yaml"
"""A GPU service: its rules for Jobs, and what its tenants may do."""


KINDS = ("Job", "PyTorchJob", "Pod", "Workload", "LocalQueue")
"""What is looked at of a configuration's namespace."""


@dataclass(frozen=True)
class View:
    """The objects in a configuration's namespace at one look."""

    whole: Configuration
    found: Mapping[str, list[Body]]

    @property
    def launches(self) -> list[Body]:
        """The stack's launches, of whichever kind."""
        here = [*self.found["Job"], *self.found["PyTorchJob"]]
        return [body for body in here if body["metadata"].get("labels", {}).get(STACK) == self.whole.name]

    @property
    def workloads(self) -> dict[str, Body]:
        """Kueue's Workloads, by the UID of the object that each is of."""
        return {body["metadata"]["ownerReferences"][0]["uid"]: body for body in self.found["Workload"]}

    @property
    def waiting(self) -> int:
        """Workloads that wait in the queue, as Kueue counts them."""
        (queue,) = self.found["LocalQueue"]
        return int(queue.get("status", {}).get("pendingWorkloads", 0))

    def of(self, share: Share) -> list[Body]:
        """The launches of a workload."""
        return [body for body in self.launches if body["metadata"]["labels"][WORKLOAD] == share.name]

    def pods(self, share: Share) -> list[Body]:
        """The pods of a workload."""
        here = self.found["Pod"]
        return [body for body in here if body["metadata"].get("labels", {}).get(WORKLOAD) == share.name]


@dataclass(frozen=True)
class Place:
    """One configuration's stack, and the cluster as its owner sees it."""

    whole: Configuration
    project: Project
    owner: Person
    volumes: Path
    """Where the cluster's node keeps the files of volumes."""

    @property
    def volume(self) -> Path:
        """The files on the configuration's volume."""
        (folder,) = (self.volumes / SHARED_FOLDER).glob(f"*_{self.whole.name}_again")
        return folder

    def marks(self, name: str, which: str) -> int:
        """How often a workload's program began, or ended, as it says itself."""
        # There is no folder before the first pod.
        pattern = f"*_{self.whole.name}_again/told/{name}/{which}.*"
        return len(list((self.volumes / SHARED_FOLDER).glob(pattern)))

    def view(self) -> "View":
        """What stands in the namespace now."""
        kinds = ["jobs", "pods", "workloads.kueue.x-k8s.io", "localqueues.kueue.x-k8s.io"]
        if self.whole.environment != "site":
            kinds.append("pytorchjobs")
        found = self.owner.items(",".join(kinds), self.whole.name)
        return View(self.whole, {kind: [each for each in found if each["kind"] == kind] for kind in KINDS})

    def uids(self) -> dict[str, str]:
        """The launches by name: what tells an object from another that took its name."""
        return {body["metadata"]["name"]: body["metadata"]["uid"] for body in self.view().launches}

    def ledgers(self) -> dict[str, Body]:
        """What is remembered of the stack's launches, by the ledger's name."""
        label = f"trainstack.dev/ledger,trainstack.dev/stack={self.whole.name}"
        found = self.owner.items("configmaps", self.whole.name, label)
        return {body["metadata"]["name"]: body["data"] for body in found}


@contextmanager
def places(wholes: Sequence[Configuration], beside: Project, owner: Person, state: Path) -> Iterator[list[Place]]:
    """The stacks of some configurations of one environment, not yet up; they and what they stand on go afterwards.

    `beside`: the project with the dev environment, whose operators serve them. `state`: the cluster's folder.
    """
    (environment,) = {whole.environment for whole in wholes}
    with ExitStack() as afterwards:
        if environment == "team":
            afterwards.enter_context(_platform(wholes, beside))
        if environment == "site":
            afterwards.enter_context(_site(wholes, owner))
        yield [Place(whole, _project(whole, beside, owner), owner, state / "volumes") for whole in wholes]


def _project(whole: Configuration, beside: Project, owner: Person) -> Project:
    kubeconfig = beside.kubeconfig
    if whole.environment != "owner":
        kubeconfig = beside.root / ".trainstack" / f"{whole.name}.kubeconfig"
        write_kubeconfig(owner, whole.name, kubeconfig)
    beside.write_stack(whole.name, stack_config(whole, launched=False))
    return beside.environment(whole.name, kubeconfig)


def write_kubeconfig(owner: Person, namespace: str, to: Path) -> None:
    """A kubeconfig that has the rights of the namespace's service account and no others."""
    done = owner.kubectl("create", "token", RESEARCHER, "-n", namespace, "--duration=3h")
    assert done.code == 0, done.text
    config = yaml.safe_load(owner.kubeconfig.read_text())
    config["users"] = [{"name": config["users"][0]["name"], "user": {"token": done.out.strip()}}]
    to.write_text(yaml.safe_dump(config))


@contextmanager
def _platform(wholes: Sequence[Configuration], beside: Project) -> Iterator[None]:
    """The stack of an owner who gives each team a namespace, a queue and its rights."""
    teams = [{"name": whole.name, "namespace": whole.name, "serviceAccount": RESEARCHER} for whole in wholes]
    config = {**platform(*wholes), "trainstack:tenants": {"teams": teams}}
    config["trainstack:environment"] = {**config["trainstack:environment"], "layers": ["platform"]}
    (stack,) = {platform_stack(whole) for whole in wholes}
    project = beside.other(stack, config)
    try:
        done = project.up()
        assert done.code == 0, done.text
        yield
    finally:
        project.take_down()
        # A platform alone leaves its namespaces: teams' volumes may be in them.
        names = [whole.name for whole in wholes]
        done = project.kubectl("delete", "namespace", *names, "--ignore-not-found", "--timeout=300s")
        assert done.code == 0, done.text


@contextmanager
def _site(wholes: Sequence[Configuration], owner: Person) -> Iterator[None]:
    """What the service's staff made for each tenant, and the rules that its Jobs must keep."""
    objects = list(yaml.safe_load_all(SITE.read_text()))
    rules = [body for body in objects if "AdmissionPolicy" in body["kind"]]
    (role,) = (body for body in objects if body["kind"] == "Role")
    given = [body for whole in wholes for body in _given(whole, role["rules"])]
    done = owner.kubectl("apply", "--server-side", body=_listed([*given, *rules]))
    assert done.code == 0, done.text
    try:
        yield
    finally:
        # A flavor goes once no queue uses it any more, and what stands in a namespace goes with it.
        cluster_wide = [body for body in given if "namespace" not in body["metadata"]]
        done = owner.kubectl("delete", "--ignore-not-found", "--wait=false", body=_listed([*cluster_wide, *rules]))
        assert done.code == 0, done.text
        names = [f"namespace/{whole.name}" for whole in wholes]
        done = owner.kubectl("wait", "--for=delete", "--timeout=110s", *names)
        assert done.code == 0, done.text


def _given(whole: Configuration, rules: list[Body]) -> list[Body]:
    name, kueue, rbac = whole.name, "kueue.x-k8s.io/v1beta2", "rbac.authorization.k8s.io"
    queue = {key: each for key, each in cluster_queue(whole).items() if key != "name"}
    here = {"namespace": name}
    labels = {"gpu-service/tenant": "true", "pod-security.kubernetes.io/enforce": "restricted"}
    subjects = [{"kind": "ServiceAccount", "name": RESEARCHER, "namespace": name}]
    reference = {"apiGroup": rbac, "kind": "Role", "name": RESEARCHER}
    return [
        _body("v1", "Namespace", {"name": name, "labels": labels}),
        _body("v1", "ServiceAccount", {"name": RESEARCHER, **here}),
        _body(f"{rbac}/v1", "Role", {"name": RESEARCHER, **here}, rules=rules),
        _body(f"{rbac}/v1", "RoleBinding", {"name": RESEARCHER, **here}, roleRef=reference, subjects=subjects),
        _body(kueue, "ResourceFlavor", {"name": name}, spec={}),
        _body(kueue, "ClusterQueue", {"name": name}, spec={**queue, "namespaceSelector": {}}),
        _body(kueue, "LocalQueue", {"name": whole.queue, **here}, spec={"clusterQueue": name}),
    ]


def _body(api_version: str, kind: str, metadata: Body, **fields: Any) -> Body:
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def _listed(bodies: Sequence[Body]) -> Body:
    return {"apiVersion": "v1", "kind": "List", "items": list(bodies)}
