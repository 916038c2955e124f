"""Rights as roles."""

from trainstack.objects.launch_kinds import ALL_LAUNCH_KINDS, STANDARD_LAUNCH_KINDS
from trainstack.platform.rbac.rights import (
    Grant,
    build_roles,
    grants,
    policy_rules,
    rights_of_role,
    team_rights,
    training_rights,
)
from trainstack.runs.status.launch_kinds import KINDS


def test_the_shortest_form_of_rules_means_the_same() -> None:
    """Kinds with the same verbs share a rule, a name has no verb that any name has, and nothing is added."""
    granted = {
        *grants("", "pods", ("list", "get"), "lab"),
        *grants("", "events", ("list", "get"), "lab"),
        *grants("", "configmaps", ("list",), "lab"),
        *grants("", "configmaps", ("get", "list"), "lab", ("a", "b")),
        *grants("batch", "jobs", ("delete", "patch", "create"), "lab"),
    }
    assert policy_rules(granted) == [
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a", "b"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["events", "pods"], "verbs": ["get", "list"]},
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "patch", "delete"]},
    ]
    (role,) = build_roles("r", granted)
    expanded = rights_of_role(role)
    assert expanded <= granted
    assert all(any(other.covers(grant) for other in expanded) for grant in granted)


def test_each_place_has_its_role_and_nothing_is_repeated() -> None:
    """The role of a namespace omits the rights that apply everywhere."""
    granted = {*grants("", "pods", ("list",)), *grants("", "pods", ("list", "get"), "lab")}
    cluster_wide, narrow = build_roles("r", granted)
    assert (cluster_wide["kind"], cluster_wide["metadata"]["name"], "namespace" in cluster_wide["metadata"]) == (
        "ClusterRole",
        "r",
        False,
    )
    assert (narrow["kind"], narrow["metadata"]["namespace"]) == ("Role", "lab")
    assert (rights_of_role(cluster_wide), rights_of_role(narrow)) == (
        grants("", "pods", ("list",)),
        grants("", "pods", ("get",), "lab"),
    )


def test_a_right_covers_what_is_narrower() -> None:
    """Any name covers one name, and everywhere covers each namespace; the reverse is false."""
    cluster_wide, in_namespace, named = (
        Grant("", "pods", "get", *place) for place in (("", ""), ("lab", ""), ("lab", "a"))
    )
    assert cluster_wide.covers(in_namespace)
    assert in_namespace.covers(named)
    assert not named.covers(in_namespace)
    assert not in_namespace.covers(cluster_wide)
    assert not cluster_wide.covers(Grant("", "pods/log", "get"))


def test_every_kind_of_launch_is_known() -> None:
    """Each has the API group in which it is searched."""
    assert {kind: group for kind, (group, _) in ALL_LAUNCH_KINDS.items()} == {
        kind: facts.api_version.rpartition("/")[0] for kind, facts in KINDS.items()
    }


def test_a_volume_that_stays_cannot_be_deleted() -> None:
    """A deployer cannot delete it; a claim that can be deleted is listed by name."""
    granted = training_rights("lab", [STANDARD_LAUNCH_KINDS["Job"]], {"kept": False, "scratch": True})
    deleting = {grant_ for grant_ in granted if (grant_.resource, grant_.verb) == ("persistentvolumeclaims", "delete")}
    assert deleting == grants("", "persistentvolumeclaims", ("delete",), "lab", ["scratch"])
    assert (
        training_rights("lab", [STANDARD_LAUNCH_KINDS["Job"]], {})
        & grants("", "persistentvolumeclaims", ("get", "list"), "lab")
        == set()
    )


def test_a_team_has_no_right_beyond_its_namespace() -> None:
    """It has no right on secrets, roles or tokens there either."""
    granted = team_rights("lab")
    assert {grant_.namespace for grant_ in granted} == {"lab"}
    assert {grant_.resource for grant_ in granted if grant_.verb in ("create", "patch", "update", "delete")} == {
        "configmaps",
        "jobs",
        "jobsets",
        "persistentvolumeclaims",
        "pods",
        "pods/exec",
        "pytorchjobs",
        "trainingruntimes",
        "trainjobs",
    }
