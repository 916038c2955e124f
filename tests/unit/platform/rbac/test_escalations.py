"""Grants that allow more than their purpose."""

import pytest

from trainstack.platform.rbac.escalations import MEANINGS, Escalation, find_escalations
from trainstack.platform.rbac.rights import API, Grant, grants, team_rights


def ids(granted: set[Grant], level: str = "") -> list[tuple[str, str]]:
    """Return id and namespace of the escalations, with this level in the namespace `lab`."""
    return [(escalation.id, escalation.namespace) for escalation in find_escalations(granted, {"lab": level})]


@pytest.mark.parametrize(
    ("grant", "expected"),
    [
        (Grant("", "secrets", "list", "lab"), [("secrets", "lab")]),
        (Grant("", "pods/exec", "create", "lab"), [("exec", "lab")]),
        (Grant("", "pods/ephemeralcontainers", "patch", "lab"), [("exec", "lab")]),
        (Grant("", "nodes/proxy", "get"), [("nodes", "")]),
        (Grant("", "*/exec", "create", "lab"), [("exec", "lab")]),
        (Grant("", "serviceaccounts/token", "create", "lab"), [("tokens", "lab")]),
        (Grant("", "users", "impersonate"), [("impersonation", "")]),
        (Grant("", "namespaces", "patch", name="lab"), [("pod-security", "")]),
        (Grant("", "namespaces", "delete", name="lab"), [("namespace-deletion", "")]),
        (Grant("", "persistentvolumes", "create", name="data"), [("host-paths", "")]),
        (Grant("", "services", "patch", "lab", "web"), [("external-ips", "lab")]),
        (Grant("", "resourcequotas", "delete", "lab", "all"), [("limits", "lab")]),
        (Grant("", "configmaps", "list"), [("reads-all-namespaces", "")]),
        (Grant("", "configmaps", "patch"), [("writes-all-namespaces", "")]),
        (Grant(API, "clusterroles", "escalate", name="manager"), [("cluster-admin", "")]),
        (Grant(API, "clusterroles", "bind"), [("cluster-admin", "")]),
        (Grant(API, "clusterroles", "bind", name="manager"), [("binding", "")]),
        (Grant(API, "roles", "escalate", "lab", "team"), [("namespace-admin", "lab")]),
        (Grant("scheduling.k8s.io", "priorityclasses", "create", name="high"), [("priorities", "")]),
        (Grant("apiextensions.k8s.io", "customresourcedefinitions", "update", name="a.b"), [("definitions", "")]),
        (Grant("apiregistration.k8s.io", "apiservices", "patch", name="v1.b"), [("apiservices", "")]),
        (
            Grant("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "patch", name="a"),
            [("webhooks", "")],
        ),
        (
            Grant("admissionregistration.k8s.io", "validatingadmissionpolicybindings", "delete", name="a"),
            [("admission", "")],
        ),
        (
            Grant("certificates.k8s.io", "certificatesigningrequests/approval", "update", name="a"),
            [("certificates", "")],
        ),
        # Objects that are read or written for their purpose.
        (Grant("", "configmaps", "patch", "lab"), []),
        (Grant("", "persistentvolumes", "list"), []),
        (Grant(API, "clusterroles", "patch", name="manager"), []),
    ],
)
def test_a_grant_by_what_it_could_be_used_for(grant: Grant, expected: list[tuple[str, str]]) -> None:
    """Each known escalation is found alone."""
    assert ids({grant}) == expected


@pytest.mark.parametrize("level", ["", "privileged", "baseline", "restricted"])
@pytest.mark.parametrize("kind", [("", "pods"), ("apps", "deployments"), ("kubeflow.org", "pytorchjobs")])
def test_who_creates_pods_is_root_on_nodes_unless_their_namespace_forbids_it(kind: tuple[str, str], level: str) -> None:
    """A controller's right counts too; the pods act as the ServiceAccounts of the namespace, whatever it enforces."""
    found = [("pod-identities", "lab")]
    if level in ("", "privileged"):
        found.append(("privileged-pods", "lab"))
    assert ids({Grant(*kind, "create", "lab")}, level) == found


def test_an_object_that_a_policy_holds_cannot_be_turned_to_another_purpose() -> None:
    """It can be deleted, and other objects of its kind are not protected."""
    granted = grants("", "namespaces", ("patch", "delete"), names=["lab", "other"])
    held = [("", "namespaces", "lab")]
    assert find_escalations(granted, {}, held) == [
        Escalation("namespace-deletion", "", ("namespaces/lab", "namespaces/other")),
        Escalation("pod-security", "", ("namespaces/other",)),
    ]


def test_every_right_is_every_escalation() -> None:
    """A wildcard includes all of them."""
    assert {meaning for meaning, _ in ids({Grant("*", "*", "*")})} == {*MEANINGS} - {"binding", "namespace-admin"}


def test_a_team_reaches_nothing_outside_of_its_namespace() -> None:
    """In its namespace it acts as the ServiceAccounts there."""
    assert ids(team_rights("lab"), "restricted") == [("exec", "lab"), ("pod-identities", "lab")]
    (first, _) = find_escalations(team_rights("lab"), {"lab": "restricted"})
    assert first.text == f"exec in namespace lab: {MEANINGS['exec']} (pods/exec)"
