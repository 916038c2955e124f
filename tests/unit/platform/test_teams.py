"""The rights of a team in its namespace."""

from typing import Any

import pytest
from pydantic import ValidationError

from trainstack.live.paths import object_path
from trainstack.platform.teams import team_manifests
from trainstack.settings.sections.tenants import Team

API = "rbac.authorization.k8s.io"


def make_metadata(name: str) -> dict[str, Any]:
    """Return metadata of one of our objects in the team's namespace."""
    labels = {"app.kubernetes.io/managed-by": "trainstack", "trainstack.dev/stack": "lab"}
    return {"name": name, "namespace": "vision-ns", "labels": labels}


def test_a_team_of_people_gets_a_role_and_its_binding() -> None:
    """The binding has groups, users and the ServiceAccount of a pipeline; no object is outside of the namespace."""
    team = Team(name="vision", namespace="vision-ns", groups=("ml",), users=("oidc:ann",), service_account="ci")
    account, role, binding = team_manifests(team, "lab")
    assert account == {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": make_metadata("ci")}
    assert (role["apiVersion"], role["kind"], role["metadata"]) == (f"{API}/v1", "Role", make_metadata("tenant-vision"))
    assert binding == {
        "apiVersion": f"{API}/v1",
        "kind": "RoleBinding",
        "metadata": make_metadata("tenant-vision"),
        "roleRef": {"apiGroup": API, "kind": "Role", "name": "tenant-vision"},
        "subjects": [
            {"apiGroup": API, "kind": "Group", "name": "ml"},
            {"apiGroup": API, "kind": "User", "name": "oidc:ann"},
            {"kind": "ServiceAccount", "name": "ci", "namespace": "vision-ns"},
        ],
    }
    assert {
        object_path(right).partition("/namespaces/")[2].partition("/")[0] for right in team_manifests(team, "lab")
    } == {"vision-ns"}


def test_the_role_is_what_the_commands_need() -> None:
    """It has all verbs on declared kinds, and read access to what explains a run; other rights are absent."""
    (role, _) = team_manifests(Team(name="vision", namespace="vision", groups=("ml",)), "lab")
    own = ["get", "list", "watch", "create", "patch", "delete"]
    unwatched = [verb for verb in own if verb != "watch"]
    assert [(rule["apiGroups"], rule["resources"], rule["verbs"]) for rule in role["rules"]] == [
        ([""], ["configmaps", "persistentvolumeclaims"], own),
        ([""], ["events"], ["list", "watch"]),
        ([""], ["limitranges", "resourcequotas"], ["list"]),
        ([""], ["namespaces", "pods/log"], ["get"]),
        ([""], ["pods"], unwatched),
        ([""], ["pods/exec"], ["get", "create"]),
        (["batch"], ["jobs"], unwatched),
        (["jobset.x-k8s.io"], ["jobsets"], own),
        (["kubeflow.org"], ["pytorchjobs"], own),
        (["kueue.x-k8s.io"], ["localqueues"], ["get", "list"]),
        (["kueue.x-k8s.io"], ["workloads"], ["list"]),
        (["trainer.kubeflow.org"], ["trainingruntimes", "trainjobs"], own),
        (["visibility.kueue.x-k8s.io"], ["localqueues/pendingworkloads"], ["get"]),
    ]


def test_rights_without_members_are_refused() -> None:
    """A team without members is a mistake."""
    with pytest.raises(ValidationError, match="set groups, users or serviceAccount"):
        Team(name="vision", namespace="vision")
