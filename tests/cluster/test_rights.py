"""The commands of each role work with the role's rights alone, according to the API server's audit log."""

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
from tests.cluster.lab import NAMESPACE, await_end, managed_run, volume
from tests.cluster.project import ROOT, CommandResult, Project
from tests.local_clusters import cluster_for_dev
from tests.unit.stacks.test_environment_rights import INSTALLING
from trainstack.cli.commands.rights import FOLDER, rights_text
from trainstack.cli.session import Session
from trainstack.live.client import FORBIDDEN
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.tenant_kubeconfigs import write_kubeconfig
from trainstack.platform.rbac.rights import API, Grant, rights_of_role

pytestmark = pytest.mark.cluster

DEPLOYER, RESEARCHER = "deployer", "researcher"
OWNER, TENANT, CLAIM = "owner", "tenant", "tenant"
PEOPLE = "people"
"""The namespace of an owner's accounts, which the stack neither creates nor deletes."""

Unused = Mapping[tuple[str, str], str]
"""By resource and verb, the reason for a right that no command used in the test."""
RARELY_USED: Mapping[str, Unused] = {
    DEPLOYER: {},
    RESEARCHER: {("pods/exec", "create"): "kubectl falls back to a POST where no web socket gets through"},
}
"""Rights for rare cases, or for other clusters."""
NOT_LISTED = {
    TENANT: {
        *("deployments", "localqueues", "networkpolicies", "rolebindings", "roles", "secrets", "serviceaccounts"),
        *("services", "trainingruntimes", "workloads"),
    },
    OWNER: {"flowschemas", "persistentvolumes", "prioritylevelconfigurations", "secrets", "trainingruntimes"},
}
"""Kinds that are not declared, and Secrets of all namespaces: `doctor` reports that it did not look at them. A tenant's
`destroy --keep-platform` looks for users of its objects as far as it may."""


@pytest.mark.parametrize("stack", INSTALLING)
def test_the_committed_roles_of_environments_with_operators_are_current(stack: str) -> None:
    """tests/unit checks the other environments. `trainstack rights -s <environment>` writes the roles."""
    assert (ROOT / FOLDER / f"{stack}.yaml").read_text(encoding="utf-8") == rights_text(Session(ROOT, stack))


class People:
    """Two accounts of a namespace, a project for each, and their roles."""

    def __init__(self, admin: Project, cluster: LocalCluster, namespace: str, folder: Path) -> None:
        """Create the accounts without rights."""
        self.admin, self.cluster, self.namespace = admin, cluster, namespace
        self.projects: dict[str, Project] = {}
        for account in (DEPLOYER, RESEARCHER):
            done = admin.kubectl("create", "serviceaccount", account, "-n", namespace)
            assert done.code == 0, done.text
            file = write_kubeconfig(cluster, f"{namespace}/{account}", folder / account)
            self.projects[account] = replace(admin, kubeconfig=file)

    def apply_roles(self) -> None:
        """Apply the environment's file as an administrator does, and bind its roles."""
        file = self.admin.root / FOLDER / f"{self.admin.stack}.yaml"
        objects = list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
        bindings = [self._binding(body) for body in objects if body["kind"] in ("Role", "ClusterRole")]
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

    def granted_rights(self, account: str) -> set[Grant]:
        """Return the rights of an account, from the live roles."""
        name = f"trainstack-{self.admin.stack}-{account}"
        found = [self.admin.get("clusterrole", name), *self.admin.get("roles")["items"]]
        return {grant for role in found if role and role["metadata"]["name"] == name for grant in rights_of_role(role)}

    def requests_of(self, account: str) -> list[Request]:
        """Return the requests of an account to the API server."""
        return requests(self.cluster, f"system:serviceaccount:{self.namespace}:{account}")

    def bound_rights(self, account: str) -> set[Grant]:
        """Return the `bind` rights on the roles of the live bindings that an account has written."""
        result = set()
        for request in self.requests_of(account):
            ref = request.reference
            if ref.get("resource", "") in ("rolebindings", "clusterrolebindings") and request.verb == "patch":
                namespace = ref.get("namespace", "")
                live = self.admin.get(ref["resource"], ref["name"], namespace)
                if live:
                    role = live["roleRef"]
                    result.add(Grant(API, f"{role['kind'].lower()}s", "bind", namespace, role["name"]))
        return result


def assert_minimal_rights(
    people: People,
    account: str,
    also: set[Grant],
    *,
    unused: Unused,
    refused: Collection[str] = (),
    granted: Collection[Grant] | None = None,
) -> None:
    """Assert that only known requests were refused, that no request exceeded the roles, and that each right was used.

    Args:
        people: the accounts.
        account: one of them.
        also: used rights that are not in the audit log.
        unused: the reasons for unused rights.
        refused: the requests that may be refused, as `<verb> <resource>`.
        granted: the rights of the account; None for those of the live roles.

    """
    requested = people.requests_of(account)
    granted = people.granted_rights(account) if granted is None else granted
    used = {grant for request in requested if request.code != FORBIDDEN for grant in request.used_grants} | also
    idle = {right for right in granted if not any(right.covers(grant) for grant in used)}
    known = {(right.resource, right.verb) for right in idle}
    denied = {_short(request): request.uri for request in requested if request.code == FORBIDDEN}
    assert {
        "refused": sorted(f"{short}: {uri}" for short, uri in denied.items() if short not in refused),
        "beyond the role": sorted(grant for grant in used if not any(right.covers(grant) for right in granted)),
        "idle": sorted(right for right in idle if (right.resource, right.verb) not in unused),
        "used after all": sorted(set(unused) - known),
    } == {"refused": [], "beyond the role": [], "idle": [], "used after all": []}


def _short(request: Request) -> str:
    """Return a request as `<verb> <resource>`."""
    return f"{request.verb} {request.grant.resource}" if request.grant else f"{request.verb} {request.uri}"


def assert_succeeded(done: CommandResult) -> CommandResult:
    """Assert that a command succeeded, and return it."""
    assert done.code == 0, done.text
    return done


def run_daily_commands(researcher: Project, run: str, folder: Path, volume: str) -> None:
    """Run each daily command once, on a run that completes."""
    (folder / "data").mkdir()
    (folder / "data" / "file").write_text("brought")
    assert_succeeded(researcher.trainstack("wait"))
    (view,) = json.loads(assert_succeeded(researcher.trainstack("status", "--json")).out)
    assert_succeeded(researcher.trainstack("logs", run))
    assert_succeeded(researcher.trainstack("events", run))
    # A run without an object is looked up in the ledgers.
    assert "run 'nobody' has no object in the cluster" in researcher.trainstack("logs", "nobody").text
    assert_succeeded(researcher.trainstack("upload", str(folder / "data"), f"{volume}:more"))
    assert_succeeded(researcher.trainstack("ls", f"{volume}:more"))
    assert_succeeded(researcher.trainstack("fetch", f"{volume}:more", "--to", str(folder / "back")))
    assert_succeeded(researcher.trainstack("fetch", view["launch"]["run_id"], "--to", str(folder / "record")))
    found = json.loads(researcher.trainstack("check", "--cluster", "--json").out)["findings"]
    # Without Internet access, only the nodes reach the registry. This kubeconfig hides that the cluster is local.
    errors = {(finding["id"], finding["path"]) for finding in found if finding["severity"] == "error"}
    assert errors <= {("registry-unreachable", "cluster.loader.image")}
    assert (folder / "record" / "_SUCCESS").is_file()
    assert (folder / "back" / "file").read_text() == "brought"


@pytest.fixture(scope="module")
def tenant(lab: Project, cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    """Yield the accounts and roles of a tenant of the lab's namespace, whose stack is not deployed yet."""
    run = managed_run("short", "print('trained')", record={"volume": CLAIM})
    run["volumes"] = [{"volume": CLAIM, "mountPath": "/mnt/tenant"}]
    environment = {
        "profile": "tenant",
        "layers": ["training"],
        "existing": {"namespaces": [NAMESPACE], "storageClasses": ["shared"]},
    }
    admin = lab.other_stack(
        TENANT,
        {
            "trainstack:environment": environment,
            "trainstack:queues": {"priorityClasses": None},
            "trainstack:storage": {"volumes": [volume(CLAIM)]},
            "trainstack:workloads": {"runs": [run]},
        },
    )
    assert_succeeded(admin.trainstack("rights"))
    people = People(admin, cluster, NAMESPACE, tmp_path_factory.mktemp("people"))
    people.apply_roles()
    try:
        yield people
    finally:
        admin.take_down()
        assert_succeeded(admin.kubectl("delete", "serviceaccount", DEPLOYER, RESEARCHER, "-n", NAMESPACE))


def test_a_tenants_accounts_need_exactly_their_roles(tenant: People, tmp_path: Path) -> None:
    """From the first preview to `destroy`, no right is missing, and none is unused."""
    deployer, researcher = (tenant.projects[account] for account in (DEPLOYER, RESEARCHER))
    assert_succeeded(deployer.pulumi("preview"))
    assert_succeeded(deployer.up())
    await_end(tenant.admin, "short", "Complete")
    assert deployer.changes("--refresh") == {}
    assert_succeeded(deployer.trainstack("doctor"))
    run_daily_commands(researcher, "short", tmp_path, CLAIM)
    assert_succeeded(deployer.trainstack("destroy", "--keep-platform", "--yes"))
    assert_minimal_rights(
        tenant,
        DEPLOYER,
        set(),
        unused=RARELY_USED[DEPLOYER],
        refused={f"list {resource}" for resource in NOT_LISTED[TENANT]},
    )
    # `check --cluster` reports these as unknown.
    unread = {"get namespaces", "list storageclasses"}
    assert_minimal_rights(tenant, RESEARCHER, set(), unused=RARELY_USED[RESEARCHER], refused=unread)


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    """Yield the dev environment's accounts with the committed roles, on a cluster without our objects."""
    with cluster_for_dev(tmp_path_factory.mktemp("owner")) as running:
        admin = Project.copy(tmp_path_factory.mktemp("dev"), running)
        assert_succeeded(admin.kubectl("create", "namespace", PEOPLE))
        people = People(admin, running, PEOPLE, tmp_path_factory.mktemp("people"))
        people.apply_roles()
        yield people


@pytest.mark.slow
def test_an_owners_accounts_need_exactly_their_roles(owner: People, tmp_path: Path) -> None:
    """The whole dev environment is deployed, with a distributed run and its data, and destroyed."""
    deployer, researcher = (owner.projects[account] for account in (DEPLOYER, RESEARCHER))
    assert_succeeded(deployer.pulumi("preview"))
    assert_succeeded(deployer.up(seconds=580))
    data = tmp_path / "digits"
    subprocess.run([sys.executable, "-m", "workloads.digits.prepare", str(data)], cwd=owner.admin.root, check=True)
    assert_succeeded(researcher.trainstack("upload", str(data), "training:data/digits"))
    run_daily_commands(researcher, "digits", tmp_path, "training")
    # A role is deleted with its namespace, so this one is checked before the destroy.
    assert_minimal_rights(owner, RESEARCHER, set(), unused=RARELY_USED[RESEARCHER], refused={"get nodes/proxy"})
    assert deployer.changes("--refresh") == {}
    assert_succeeded(deployer.trainstack("doctor"))
    # The destroy deletes the roles with their namespaces.
    written, granted = owner.bound_rights(DEPLOYER), owner.granted_rights(DEPLOYER)
    assert_succeeded(deployer.trainstack("destroy", "--keep-platform", "--yes", seconds=580))
    again = deployer.up()
    assert again.code != 0
    assert (
        "namespace kueue-system does not exist, and system:serviceaccount:people:deployer may not create" in again.text
    )
    unseen = {f"list {resource}" for resource in NOT_LISTED[OWNER]}
    assert_minimal_rights(owner, DEPLOYER, written, unused=RARELY_USED[DEPLOYER], refused=unseen, granted=granted)
