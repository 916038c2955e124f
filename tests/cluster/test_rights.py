"""Everything that people do, with the rights of their roles alone, as the API server's audit log has it."""

import json
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.audit import Request, requests
from tests.cluster.lab import NAMESPACE, await_end, managed, volume
from tests.cluster.project import ROOT, Done, Project
from tests.conftest import start_cluster
from tests.unit.stacks.test_environment_rights import INSTALLING
from trainstack.cli.rights import FOLDER, text
from trainstack.cli.session import Session
from trainstack.dev.cluster import cluster as devcluster
from trainstack.dev.cluster.access import write_kubeconfig
from trainstack.dev.cluster.cluster import Cluster
from trainstack.live.client import FORBIDDEN
from trainstack.platform.rbac.rights import API, Grant, granted_by

pytestmark = pytest.mark.cluster

DEPLOYER, RESEARCHER = "deployer", "researcher"
OWNER, TENANT, CLAIM = "owner", "tenant", "tenant"
PEOPLE = "people"
"""The namespace of an owner's accounts: none that the stack makes or takes away."""

Unused = Mapping[tuple[str, str], str]
"""By resource and verb, why a right that no command used here is given all the same."""
SELDOM: Mapping[str, Unused] = {
    DEPLOYER: {},
    RESEARCHER: {("pods/exec", "create"): "kubectl falls back to a POST where no web socket gets through"},
}
"""Rights for what happens seldom, or where a cluster is another one."""
UPGRADES: Unused = {
    ("workloads", "list"): "a queue that leaves the files is looked at for others who use it",
}
NOT_LISTED = {
    TENANT: {
        *("deployments", "localqueues", "networkpolicies", "rolebindings", "roles", "secrets", "serviceaccounts"),
        *("services", "trainingruntimes"),
    },
    OWNER: {"flowschemas", "persistentvolumes", "prioritylevelconfigurations", "secrets", "trainingruntimes"},
}
"""Kinds that are not declared, and Secrets of all namespaces: `doctor` names them as not looked at."""


@pytest.mark.parametrize("stack", INSTALLING)
def test_the_written_roles_of_environments_with_operators_are_current(stack: str) -> None:
    """As tests/unit has it of the others; else run `trainstack rights -s <environment>`."""
    assert (ROOT / FOLDER / f"{stack}.yaml").read_text(encoding="utf-8") == text(Session(ROOT, stack))


class People:
    """Two accounts of a namespace, a project for each, and the roles that they get."""

    def __init__(self, admin: Project, cluster: Cluster, namespace: str, folder: Path) -> None:
        """Make the accounts, without any right."""
        self.admin, self.cluster, self.namespace = admin, cluster, namespace
        self.projects: dict[str, Project] = {}
        for who in (DEPLOYER, RESEARCHER):
            done = admin.kubectl("create", "serviceaccount", who, "-n", namespace)
            assert done.code == 0, done.text
            file = write_kubeconfig(cluster, f"{namespace}/{who}", folder / who)
            self.projects[who] = replace(admin, kubeconfig=file)

    def give(self) -> None:
        """Apply the environment's file as an administrator does, and bind its roles."""
        file = self.admin.root / FOLDER / f"{self.admin.stack}.yaml"
        objects = list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
        bindings = [self._binding(each) for each in objects if each["kind"] in ("Role", "ClusterRole")]
        done = self.admin.kubectl("apply", stdin=yaml.safe_dump_all([*objects, *bindings]))
        assert done.code == 0, done.text

    def _binding(self, role: dict[str, Any]) -> dict[str, Any]:
        name = role["metadata"]["name"]
        subject = {
            "kind": "ServiceAccount",
            "name": name.removeprefix(f"trainstack-{self.admin.stack}-"),
            "namespace": self.namespace,
        }
        return {
            "apiVersion": role["apiVersion"],
            "kind": f"{role['kind']}Binding",
            "metadata": role["metadata"],
            "roleRef": {"apiGroup": API, "kind": role["kind"], "name": name},
            "subjects": [subject],
        }

    def granted(self, who: str) -> set[Grant]:
        """The rights of somebody, by the live roles."""
        name = f"trainstack-{self.admin.stack}-{who}"
        found = [self.admin.get("clusterrole", name), *self.admin.get("roles")["items"]]
        return {grant for role in found if role and role["metadata"]["name"] == name for grant in granted_by(role)}

    def asked(self, who: str) -> list[Request]:
        """What somebody has asked the API server."""
        return requests(self.cluster, f"system:serviceaccount:{self.namespace}:{who}")

    def bound(self, who: str) -> set[Grant]:
        """The roles that somebody's live bindings refer to, as the rights that writing such a binding takes."""
        result = set()
        for request in self.asked(who):
            ref = request.reference
            if ref.get("resource", "") in ("rolebindings", "clusterrolebindings") and request.verb == "patch":
                namespace = ref.get("namespace", "")
                live = self.admin.get(ref["resource"], ref["name"], namespace)
                if live:
                    role = live["roleRef"]
                    result.add(Grant(API, f"{role['kind'].lower()}s", "bind", namespace, role["name"]))
        return result


def judge(
    people: People,
    who: str,
    also: set[Grant],
    *,
    unused: Unused,
    refused: Collection[str] = (),
    granted: Collection[Grant] | None = None,
) -> None:
    """Nothing was refused but what is known to be, nothing was asked beyond the roles, and each right was used.

    Args:
        people: the accounts.
        who: one of them.
        also: rights that were used and that the log does not show.
        unused: why other rights are given.
        refused: what may be refused, as `<verb> <resource>`.
        granted: the rights that it had; None for those of the live roles.

    """
    asked = people.asked(who)
    granted = people.granted(who) if granted is None else granted
    took = {grant for each in asked if each.code != FORBIDDEN for grant in each.took} | also
    idle = {right for right in granted if not any(right.covers(each) for each in took)}
    known = {(each.resource, each.verb) for each in idle}
    denied = {_short(each): each.uri for each in asked if each.code == FORBIDDEN}
    assert {
        "refused": sorted(f"{short}: {uri}" for short, uri in denied.items() if short not in refused),
        "beyond the role": sorted(each for each in took if not any(right.covers(each) for right in granted)),
        "idle": sorted(each for each in idle if (each.resource, each.verb) not in unused),
        "used after all": sorted(set(unused) - known),
    } == {"refused": [], "beyond the role": [], "idle": [], "used after all": []}


def _short(request: Request) -> str:
    """What was asked, as `<verb> <resource>`."""
    return f"{request.verb} {request.grant.resource}" if request.grant else f"{request.verb} {request.uri}"


def well(done: Done) -> Done:
    """A command that has ended well."""
    assert done.code == 0, done.text
    return done


def day(researcher: Project, run: str, folder: Path, volume: str) -> None:
    """Each of the day's commands once, on a run that ends by itself."""
    (folder / "data").mkdir()
    (folder / "data" / "file").write_text("brought")
    well(researcher.trainstack("wait"))
    (view,) = json.loads(well(researcher.trainstack("status", "--json")).out)
    well(researcher.trainstack("logs", run))
    well(researcher.trainstack("events", run))
    # One without an object is looked for among the ledgers.
    assert "run 'nobody' has no object in the cluster" in researcher.trainstack("logs", "nobody").text
    well(researcher.trainstack("upload", str(folder / "data"), f"{volume}:more"))
    well(researcher.trainstack("ls", f"{volume}:more"))
    well(researcher.trainstack("fetch", f"{volume}:more", "--to", str(folder / "back")))
    well(researcher.trainstack("fetch", view["launch"]["run_id"], "--to", str(folder / "record")))
    found = json.loads(researcher.trainstack("check", "--cluster", "--json").out)["findings"]
    # Without the Internet, only the nodes have the registry: with this kubeconfig, the cluster is not the local one.
    errors = {(each["id"], each["path"]) for each in found if each["severity"] == "error"}
    assert errors <= {("registry-unreachable", "cluster.loader.image")}
    assert (folder / "record" / "_SUCCESS").is_file()
    assert (folder / "back" / "file").read_text() == "brought"


@pytest.fixture(scope="module")
def tenant(lab: Project, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    """A tenant of the lab's namespace: its stack, not yet up, and its people with the roles made for it."""
    run = managed("short", "print('trained')", record={"volume": CLAIM})
    run["volumes"] = [{"volume": CLAIM, "mountPath": "/mnt/tenant"}]
    environment = {
        "profile": "tenant",
        "layers": ["training"],
        "existing": {"namespaces": [NAMESPACE], "storageClasses": ["shared"]},
    }
    admin = lab.other(
        TENANT,
        {
            "trainstack:environment": environment,
            "trainstack:queues": {"priorityClasses": None},
            "trainstack:storage": {"volumes": [volume(CLAIM)]},
            "trainstack:workloads": {"runs": [run]},
        },
    )
    well(admin.trainstack("rights"))
    people = People(admin, cluster, NAMESPACE, tmp_path_factory.mktemp("people"))
    people.give()
    try:
        yield people
    finally:
        admin.take_down()
        well(admin.kubectl("delete", "serviceaccount", DEPLOYER, RESEARCHER, "-n", NAMESPACE))


def test_a_tenants_people_need_their_roles_and_no_more(tenant: People, tmp_path: Path) -> None:
    """From the first preview to `destroy`, and every command in between: no right is missing, and none is idle."""
    deployer, researcher = (tenant.projects[who] for who in (DEPLOYER, RESEARCHER))
    well(deployer.pulumi("preview"))
    well(deployer.up())
    await_end(tenant.admin, "short", "Complete")
    assert deployer.changes("--refresh") == {}
    well(deployer.trainstack("doctor"))
    day(researcher, "short", tmp_path, CLAIM)
    well(deployer.trainstack("destroy", "--keep-platform", "--yes"))
    judge(tenant, DEPLOYER, set(), unused=SELDOM[DEPLOYER], refused={f"list {each}" for each in NOT_LISTED[TENANT]})
    # `check --cluster` reports these as unknown.
    unread = {"get namespaces", "list storageclasses"}
    judge(tenant, RESEARCHER, set(), unused=SELDOM[RESEARCHER], refused=unread)


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    """The dev environment's people, with the roles that are committed, on a cluster that holds nothing of ours."""
    state = tmp_path_factory.mktemp("owner")
    try:
        running = start_cluster(state)
        admin = Project.copy(tmp_path_factory.mktemp("dev"), running)
        well(admin.kubectl("create", "namespace", PEOPLE))
        people = People(admin, running, PEOPLE, tmp_path_factory.mktemp("people"))
        people.give()
        yield people
    finally:
        devcluster.down(state, keep_data=False)


@pytest.mark.slow
def test_an_owners_people_need_their_roles_and_no_more(owner: People, tmp_path: Path) -> None:
    """The whole dev environment: operators, queues, storage, a distributed run with its data, and all of it gone."""
    deployer, researcher = (owner.projects[who] for who in (DEPLOYER, RESEARCHER))
    well(deployer.pulumi("preview"))
    well(deployer.up(seconds=580))
    data = tmp_path / "digits"
    subprocess.run([sys.executable, "-m", "workloads.digits.prepare", str(data)], cwd=owner.admin.root, check=True)
    well(researcher.trainstack("upload", str(data), "training:data/digits"))
    day(researcher, "digits", tmp_path, "training")
    # A role goes with its namespace, so this one is judged before the end.
    judge(owner, RESEARCHER, set(), unused=SELDOM[RESEARCHER], refused={"get nodes/proxy"})
    assert deployer.changes("--refresh") == {}
    well(deployer.trainstack("doctor"))
    # What is in a namespace that goes, the roles too, goes with it.
    written, granted = owner.bound(DEPLOYER), owner.granted(DEPLOYER)
    well(deployer.trainstack("destroy", "--keep-platform", "--yes", seconds=580))
    again = deployer.up()
    assert again.code != 0
    assert (
        "namespace kueue-system does not exist, and system:serviceaccount:people:deployer may not create" in again.text
    )
    unseen = {f"list {each}" for each in NOT_LISTED[OWNER]}
    judge(owner, DEPLOYER, written, unused={**SELDOM[DEPLOYER], **UPGRADES}, refused=unseen, granted=granted)
