"""Rights as roles."""

from trainstack.objects.launch_kinds import ALL_LAUNCHES, LAUNCHES
from trainstack.platform.rbac.rights import Grant, as_roles, for_a_team, granted_by, grants, rules, training
from trainstack.runs.status.kinds import KINDS


def test_what_is_said_shortest_means_the_same() -> None:
    """Kinds with the same verbs share a rule, a name needs no verb that any name has, and nothing is added."""
    granted = {
        *grants("", "pods", ("list", "get"), "lab"),
        *grants("", "events", ("list", "get"), "lab"),
        *grants("", "configmaps", ("list",), "lab"),
        *grants("", "configmaps", ("get", "list"), "lab", ("a", "b")),
        *grants("batch", "jobs", ("delete", "patch", "create"), "lab"),
    }
    assert rules(granted) == [
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a", "b"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["events", "pods"], "verbs": ["get", "list"]},
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "patch", "delete"]},
    ]
    (role,) = as_roles("r", granted)
    back = granted_by(role)
    assert back <= granted
    assert all(any(each.covers(grant) for each in back) for grant in granted)


def test_each_place_has_its_role_and_nothing_stands_twice() -> None:
    """What holds everywhere is left out of the role of a namespace."""
    granted = {*grants("", "pods", ("list",)), *grants("", "pods", ("list", "get"), "lab")}
    wide, narrow = as_roles("r", granted)
    assert (wide["kind"], wide["metadata"]["name"], "namespace" in wide["metadata"]) == ("ClusterRole", "r", False)
    assert (narrow["kind"], narrow["metadata"]["namespace"]) == ("Role", "lab")
    assert (granted_by(wide), granted_by(narrow)) == (
        grants("", "pods", ("list",)),
        grants("", "pods", ("get",), "lab"),
    )


def test_a_right_covers_what_is_narrower() -> None:
    """Any name covers one, and everywhere covers each namespace; never the other way round."""
    wide, there, one = (Grant("", "pods", "get", *place) for place in (("", ""), ("lab", ""), ("lab", "a")))
    assert wide.covers(there)
    assert there.covers(one)
    assert not one.covers(there)
    assert not there.covers(wide)
    assert not wide.covers(Grant("", "pods/log", "get"))


def test_every_kind_of_launch_is_known() -> None:
    """With the API group by which it is looked for."""
    assert {kind: group for kind, (group, _) in ALL_LAUNCHES.items()} == {
        kind: facts.api_version.rpartition("/")[0] for kind, facts in KINDS.items()
    }


def test_a_volume_that_stays_cannot_be_deleted() -> None:
    """By whoever deploys; and a claim that goes is known by its name."""
    granted = training("lab", [LAUNCHES["Job"]], {"kept": False, "scratch": True})
    deleting = {each for each in granted if (each.resource, each.verb) == ("persistentvolumeclaims", "delete")}
    assert deleting == grants("", "persistentvolumeclaims", ("delete",), "lab", ["scratch"])
    assert (
        training("lab", [LAUNCHES["Job"]], {}) & grants("", "persistentvolumeclaims", ("get", "list"), "lab") == set()
    )


def test_a_team_has_no_right_beyond_its_namespace() -> None:
    """Nor any on secrets, roles or tokens in it."""
    granted = for_a_team("lab")
    assert {each.namespace for each in granted} == {"lab"}
    assert {each.resource for each in granted if each.verb in ("create", "patch", "update", "delete")} == {
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
