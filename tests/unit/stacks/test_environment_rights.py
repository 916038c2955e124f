"""The roles of environments: their content, and that the repository's files are current."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.make import (
    make_distributed,
    make_kueue,
    make_queues,
    make_run,
    make_runtime_run,
    make_secret,
    make_settings,
    make_storage,
    make_training_operator,
    make_volume,
)
from trainstack.cli.commands.rights import FOLDER, rights_text
from trainstack.cli.session import Session
from trainstack.objects.labels import PATCH_FORCE, Manifest
from trainstack.objects.launch_kinds import STANDARD_LAUNCH_KINDS
from trainstack.platform import probes
from trainstack.platform.rbac.escalations import find_escalations
from trainstack.platform.rbac.policies import admission_policies, restricted_objects
from trainstack.platform.rbac.rights import DECLARE_VERBS, WATCH_VERBS, Grant, grants, rights_of_role, team_rights
from trainstack.runs.status.launch_kinds import optional_kinds
from trainstack.settings.model import Settings
from trainstack.settings.sections.environment import Environment, Existing, Namespace
from trainstack.settings.sections.objects import Objects
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.secrets import Secrets
from trainstack.settings.sections.workloads import ReplicatedJob, Role
from trainstack.settings.values.stack_name import list_stacks
from trainstack.stack_objects.inputs import Inputs
from trainstack.stack_objects.stack_objects import StackObjects
from trainstack.stacks.rights import deployer_rights, researcher_rights, rights_of

ROOT = Path(__file__).resolve().parents[3]
RBAC = "rbac.authorization.k8s.io"


INSTALLING = ("dev", "prod", "staging")
"""Their roles depend on releases, which `make tools` builds: tests/cluster/test_rights.py tests them."""


@pytest.mark.parametrize("stack", sorted({*list_stacks(ROOT)} - {*INSTALLING}))
def test_the_written_roles_are_current(stack: str) -> None:
    """Each environment's file matches its settings; otherwise run `trainstack rights -s <environment>`."""
    assert (ROOT / FOLDER / f"{stack}.yaml").read_text(encoding="utf-8") == rights_text(Session(ROOT, stack))


def test_no_role_is_of_a_removed_environment() -> None:
    """Each file has an environment."""
    assert {file.stem for file in (ROOT / FOLDER).iterdir()} <= {*list_stacks(ROOT)}


@pytest.mark.parametrize("file", sorted((ROOT / FOLDER).iterdir()), ids=lambda file: file.stem)
def test_every_written_role_may_list_launches_of_every_kind(file: Path) -> None:
    """A ledger may be of a kind that the environment no longer declares, and many launches are read from a list."""
    roles = [role for role in yaml.safe_load_all(file.read_text(encoding="utf-8")) if role["kind"].endswith("Role")]
    for name in {role["metadata"]["name"] for role in roles if role["metadata"]["name"].startswith("trainstack-")}:
        held = {grant for role in roles if role["metadata"]["name"] == name for grant in rights_of_role(role)}
        needed = {
            grant
            for namespace in {role.namespace for role in held if role.namespace}
            for kind in STANDARD_LAUNCH_KINDS.values()
            for grant in grants(*kind, ("list",), namespace)
        }
        assert needed
        assert {role for role in needed if not any(has.covers(role) for has in held)} == set()


def test_the_right_to_read_runtimes_is_granted_with_runs_that_name_one() -> None:
    """Without it, `check --cluster` cannot find the runtime. A tenant has no right on objects of the cluster."""
    right = Grant("trainer.kubeflow.org", "clustertrainingruntimes", "list")
    settings = make_settings(make_runtime_run())
    assert right in researcher_rights(settings, ())
    assert right not in researcher_rights(make_settings(make_distributed(kind="TrainJob")), ())
    assert right not in researcher_rights(make_tenant(make_runtime_run()), ())


def make_tenant(*runs: Any, **changes: Any) -> Settings:
    """Return a tenant of the namespace `research` with one volume."""
    base = {
        "environment": Environment(profile="tenant", layers=("training",), existing=Existing(namespaces=("research",))),
        "storage": make_storage(classes=()),
        "operators": Operators(),
        "queues": make_queues(flavors=(), cohorts=(), cluster_queues=(), priority_classes=(), local_queues=()),
    }
    return make_settings(*runs, **{**base, **changes})


def any_name(granted: set[Grant]) -> set[Grant]:
    """Return the rights without names of objects."""
    return {Grant(grant.group, grant.resource, grant.verb, grant.namespace) for grant in granted}


def test_a_teams_role_is_what_an_environment_of_all_kinds_needs() -> None:
    """Both roles of its stack together, with any volumes, have exactly these rights."""
    runs = (
        make_run(name="a"),
        make_run(name="b", kind="Pod"),
        make_run(name="c", kind="JobSet", replicated_jobs=(ReplicatedJob(name="node"),)),
        make_distributed(name="d"),
        make_distributed(name="e", kind="TrainJob"),
    )
    assert {run.kind for run in runs} == {*STANDARD_LAUNCH_KINDS}
    settings = make_tenant(*runs, storage=make_storage(classes=(), volumes=(make_volume(retain=False),)))
    assert any_name(deployer_rights(settings, ()) | researcher_rights(settings, ())) == team_rights("research")


def test_a_kind_that_few_environments_use_is_granted_where_it_is_used() -> None:
    """The rights are granted to a tenant with such a run, and to a team whose platform has Kueue manage the kind."""
    kind = ("kubeflow.org", "mpijobs")
    run = make_run(kind="MPIJob", managed=False, security="baseline", roles={"Launcher": Role()})
    needed = deployer_rights(make_tenant(run), ()) | researcher_rights(make_tenant(run), ())
    assert grants(*kind, ("get", "list", "watch", "create", "patch", "delete"), "research") <= needed
    assert any_name(needed) <= team_rights("research", [kind])
    assert not {grant for grant in deployer_rights(make_tenant(make_run()), ()) if grant.resource == "mpijobs"}
    for frameworks, optional in ((("batch/job",), ()), (("batch/job", "kubeflow.org/mpijob"), (kind,))):
        operators = Operators(kueue=make_kueue(frameworks=frameworks))
        assert optional_kinds(make_settings(make_run(), operators=operators)) == optional


def test_a_tenant_has_the_kinds_that_it_uses() -> None:
    """It may list other kinds of launches, since one may be left from before, and nothing else."""
    needed = deployer_rights(make_tenant(make_run()), ()) | researcher_rights(make_tenant(make_run()), ())
    assert {grant for grant in needed if grant.resource == "pytorchjobs"} == grants(
        "kubeflow.org", "pytorchjobs", ("list",), "research"
    )
    assert grants("batch", "jobs", ("create", "patch", "delete"), "research") <= needed
    assert needed <= team_rights("research") | {grant for grant in needed if grant.name}
    assert {grant.name for grant in needed} == {"", "training"}


def test_what_a_stack_keeps_it_may_not_delete() -> None:
    """`destroy` leaves its volumes, so a deployer must not delete them."""
    assert not {
        grant
        for grant in deployer_rights(make_tenant(make_run()), ())
        if (grant.resource, grant.verb) == ("persistentvolumeclaims", "delete")
    }


def test_a_deployer_declares_other_objects_and_deletes_all_but_volumes() -> None:
    """The rights name each object, in its namespace."""
    spec = {"accessModes": ["ReadOnlyMany"], "resources": {"requests": {"storage": "1Gi"}}}
    manifests = (
        {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"}},
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "gpu"}},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "models"}, "spec": spec},
        {"apiVersion": "cert-manager.io/v1", "kind": "ClusterIssuer", "metadata": {"name": "lab"}},
    )
    settings = make_tenant(objects=Objects(manifests=manifests))
    granted = rights_of(StackObjects(settings, Inputs())).roles
    deployer = {
        grant for role in granted if role["metadata"]["name"].endswith("-deployer") for grant in rights_of_role(role)
    }
    verbs = (*DECLARE_VERBS, "delete")
    assert grants("batch", "cronjobs", verbs, "research", ["nightly"]) <= deployer
    assert grants("resource.k8s.io", "resourceclaimtemplates", verbs, "research", ["gpu"]) <= deployer
    assert grants("cert-manager.io", "clusterissuers", verbs, names=["lab"]) <= deployer
    assert grants("", "persistentvolumeclaims", DECLARE_VERBS, "research", ["models"]) <= deployer
    assert not grants("", "persistentvolumeclaims", ["delete"], "research", ["models"]) & deployer


SECRETS = Secrets(secrets=(make_secret(),))


def test_an_owner_lists_what_it_declares_and_a_tenant_nothing_more() -> None:
    """`trainstack doctor` lists objects with the stack's label; Secrets may be listed only to delete one."""
    settings = make_settings(make_run(), operators=Operators(), secrets=SECRETS)
    declared = [manifest for part in StackObjects(settings, Inputs()).platform for manifest in part.manifests]
    granted = deployer_rights(settings, declared)
    assert {"ClusterQueue", "NetworkPolicy", "Secret"} <= {manifest["kind"] for manifest in declared}
    assert {"clusterqueues", "networkpolicies", "localqueues", "namespaces", "persistentvolumeclaims"} <= {
        grant.resource for grant in granted if grant.verb == "list" and not grant.namespace
    }
    assert grants("", "namespaces", ("get",), names=["kube-system"]) <= granted


def test_secrets_are_written_by_name_and_listed_where_one_is_deleted() -> None:
    """The same holds for a tenant, whose layer has the only Secrets."""
    tenant = make_tenant(make_run(), secrets=SECRETS)
    adopting = make_settings(
        make_run(),
        operators=Operators(),
        secrets=SECRETS,
        environment=Environment(namespaces=(Namespace(name="research", adopt=True),)),
    )
    for settings in (tenant, adopting):
        roles = rights_of(StackObjects(settings, Inputs())).roles
        granted = {grant for role in roles for grant in rights_of_role(role) if grant.resource == "secrets"}
        assert granted == {
            *grants("", "secrets", (*DECLARE_VERBS, "delete"), "research", ["git"]),
            *grants("", "secrets", WATCH_VERBS, "research"),
        }
    assert "secrets" not in {grant.resource for grant in team_rights("research")}


def make_role(kind: str, name: str, **rest: Any) -> Manifest:
    """Return an object of an operator's release."""
    namespace = {} if kind.startswith("Cluster") else {"namespace": "kube-system"}
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": {"name": name, **namespace}, **rest}


def test_an_owner_may_write_the_roles_of_its_operators_and_no_others() -> None:
    """The API server lets users write only rights that they have, except with `escalate` and `bind`, here by name."""
    role = {"kind": "ClusterRole", "name": "manager"}
    declared = [
        make_role("ClusterRole", "manager"),
        make_role("ClusterRoleBinding", "managers", roleRef=role),
        make_role("RoleBinding", "reader", roleRef={"kind": "Role", "name": "extension-reader"}),
    ]
    granted = deployer_rights(make_settings(operators=Operators()), declared)
    escalating = {grant for grant in granted if grant.verb in ("escalate", "bind")}
    assert escalating == {
        Grant(RBAC, "clusterroles", "escalate", "", "manager"),
        Grant(RBAC, "clusterroles", "bind", "", "manager"),
        Grant(RBAC, "roles", "bind", "kube-system", "extension-reader"),
    }


@pytest.mark.parametrize("adopt", [False, True])
def test_a_deployer_writes_in_declared_namespaces_and_under_declared_names_alone(adopt: bool) -> None:
    """The stack may create the namespace: an administrator does so first, and the role is in that namespace."""
    settings = make_settings(
        make_run(kind="Pod"),
        make_distributed(),
        operators=Operators(),
        secrets=SECRETS,
        environment=Environment(namespaces=(Namespace(name="research", adopt=adopt),)),
    )
    declared = [manifest for part in StackObjects(settings, Inputs()).platform for manifest in part.manifests]
    assert any(PATCH_FORCE in grant["metadata"].get("annotations", {}) for grant in declared) == adopt
    writing = {grant for grant in deployer_rights(settings, declared) if grant.verb not in ("get", "list", "watch")}
    assert {grant.namespace for grant in writing} == {"", "research"}
    assert {grant for grant in writing if not (grant.namespace or grant.name)} == set()
    assert not [grant for grant in writing if grant.resource == "namespaces" and grant.verb == "create"]


def test_only_an_administrator_creates_the_namespaces_of_a_stack() -> None:
    """The file creates the namespaces that the stack does not adopt, with the level that the stack declares."""
    namespaces = (
        Namespace(name="research", labels={"pod-security.kubernetes.io/enforce": "baseline"}),
        Namespace(name="theirs", adopt=True),
    )
    rights = rights_of(
        StackObjects(
            make_settings(make_run(), operators=Operators(), environment=Environment(namespaces=namespaces)), Inputs()
        )
    )
    (created,) = rights.namespaces
    assert (created["metadata"]["name"], created["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]) == (
        "research",
        "baseline",
    )
    assert restricted_objects(rights.policies) == {("", "namespaces", "research"), ("", "namespaces", "theirs")}


def test_a_probe_is_granted_by_its_name_and_never_stored() -> None:
    """The right to probe an operator's webhooks allows no other object of those kinds, and no stored one."""
    settings = make_settings(
        make_run(), operators=Operators(kueue=make_kueue(), training_operator=make_training_operator())
    )
    probe_grants = {
        grant for grant in researcher_rights(settings, ()) if grant.verb in ("create", "patch") and grant.name
    }
    assert probe_grants == {
        *grants("kueue.x-k8s.io", "resourceflavors", ("create", "patch"), names=[probes.NAME]),
        *grants("kubeflow.org", "pytorchjobs", ("create", "patch"), "default", [probes.NAME]),
    }
    kinds = {(grant.group, grant.resource) for grant in probe_grants}
    assert restricted_objects(admission_policies("test", (), kinds)) == {(*kind, probes.NAME) for kind in kinds}
    assert find_escalations(probe_grants, {}, restricted_objects(admission_policies("test", (), kinds))) == []


def test_who_uses_an_environment_writes_in_its_namespaces_alone() -> None:
    """A researcher reads cluster-wide lists that explain an admission, and never secrets or a node's API."""
    settings = make_settings(make_run(), operators=Operators())
    granted = researcher_rights(settings, ())
    assert {grant.namespace for grant in granted if grant.verb not in ("list", "get")} == {"research"}
    assert {grant.verb for grant in granted if not grant.namespace} == {"list", "get"}
    assert not {grant.resource for grant in granted} & {"secrets", "nodes/proxy", "roles"}


def test_the_roles_are_named_after_the_environment() -> None:
    """Each of the two roles has one name in all places."""
    roles = rights_of(StackObjects(make_settings(make_run(), operators=Operators()), Inputs())).roles
    assert [(role["kind"], role["metadata"]["name"]) for role in roles] == [
        ("ClusterRole", "trainstack-test-deployer"),
        ("Role", "trainstack-test-deployer"),
        ("ClusterRole", "trainstack-test-researcher"),
        ("Role", "trainstack-test-researcher"),
    ]
