"""Least-privilege rights of runs, day-two commands and teams, and the roles that grant them.

The verbs are from the source of the engine's provider; a test compares them with an API server's audit log.
Source of the rules: https://kubernetes.io/docs/reference/access-authn-authz/rbac/
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from trainstack.objects.labels import MANAGED_BY, OWNER, Manifest
from trainstack.objects.launch_kinds import STANDARD_LAUNCH_KINDS, GroupResource

API = "rbac.authorization.k8s.io"
TRAINING_RUNTIMES = ("trainer.kubeflow.org", "trainingruntimes")
"""The kind of the runtimes that TrainJobs refer to."""
NOT_AWAITED = (STANDARD_LAUNCH_KINDS["Job"], STANDARD_LAUNCH_KINDS["Pod"])
"""Kinds of launches with `pulumi.com/skipAwait`, for which the provider does not wait for the deletion either."""
DECLARE_VERBS = ("get", "create", "patch")
"""The verbs to declare objects. A server-side apply of a new object, also as a dry run, needs `create` and `patch`; a
refresh needs `get`."""
WATCH_VERBS = ("list", "watch")
"""The verbs to wait for objects: the provider lists and watches a kind in a namespace, which RBAC cannot restrict by
name."""
_VERB_ORDER = ("get", *WATCH_VERBS, "create", "update", "patch", "delete", "bind", "escalate")
"""All granted verbs, in their order in the rules of roles."""


@dataclass(frozen=True, order=True)
class Grant:
    """The right to one verb on one kind."""

    group: str
    """The API group; "" for the core group."""
    resource: str
    """The kind's plural, optionally with a subresource after a slash."""
    verb: str
    namespace: str = ""
    """The namespace; "" for all namespaces and cluster-scoped objects."""
    name: str = ""
    """The name of the object; "" for any object."""

    def covers(self, other: "Grant") -> bool:
        is_same_right = (self.group, self.resource, self.verb) == (other.group, other.resource, other.verb)
        return is_same_right and self.namespace in ("", other.namespace) and self.name in ("", other.name)


def grants(
    group: str, resource: str, verbs: Iterable[str], namespace: str = "", names: Iterable[str] = ("",)
) -> set[Grant]:
    object_names = tuple(names)
    return {Grant(group, resource, verb, namespace, name) for verb in verbs for name in object_names}


def rights_to_find_launches(namespace: str, optional_kinds: Iterable[GroupResource] = ()) -> set[Grant]:
    """Return the rights to find a stack's launches and ledgers, which every change and every command needs.

    `namespace`: "" for all. `optional_kinds`: the kinds of launches that the stack has beyond STANDARD_LAUNCH_KINDS.
    """
    return {
        *grants("", "configmaps", ("list",), namespace),
        *(
            grant
            for kind in (*STANDARD_LAUNCH_KINDS.values(), *optional_kinds)
            for grant in grants(*kind, ("list",), namespace)
        ),
    }


def rights_to_guard(namespace: str) -> set[Grant]:
    """Return the rights that the guards need before a change in a tenant's namespace.

    The namespace's UID identifies the cluster, and labels identify volumes with data. In a Role, the right to get
    namespaces applies only to the Role's own namespace.
    """
    return {
        *grants("", "namespaces", ("get",), namespace),
        *grants("", "persistentvolumeclaims", ("list",), namespace),
    }


def rights_to_delete(group: str, resource: str, namespace: str, names: Iterable[str] = ("",)) -> set[Grant]:
    """Return the rights to delete objects, to wait for their deletion and to read their events."""
    return {
        *grants(group, resource, ("delete",), namespace, names),
        *grants(group, resource, WATCH_VERBS, namespace),
        *grants("", "events", WATCH_VERBS, namespace),
    }


def training_rights(namespace: str, kinds: Collection[GroupResource], claims: Mapping[str, bool]) -> set[Grant]:
    """Return the rights to declare and delete volumes and runs in a namespace, "" for all.

    `kinds`: the kinds of its launches. `claims`: whether a volume claim is deleted with the stack, by its name, "" for
    any.
    """
    owned_kinds = [("", "configmaps"), *kinds]
    owned_kinds += [TRAINING_RUNTIMES] if STANDARD_LAUNCH_KINDS["TrainJob"] in kinds else []
    result = grants("", "persistentvolumeclaims", DECLARE_VERBS, namespace, claims) if claims else set()
    if deletable_claims := [name for name, is_deleted in claims.items() if is_deleted]:
        result |= rights_to_delete("", "persistentvolumeclaims", namespace, deletable_claims)
    for kind in owned_kinds:
        result |= grants(*kind, DECLARE_VERBS, namespace)
        result |= grants(*kind, ("delete",), namespace) if kind in NOT_AWAITED else rights_to_delete(*kind, namespace)
    return result


def day_two_rights(namespace: str, kinds: Collection[GroupResource]) -> set[Grant]:
    """Return the rights of `status`, `wait`, `logs`, `events`, `upload`, `ls`, `fetch`, `check --cluster`.

    A temporary Job transfers files. `check --cluster` sends the runs as dry runs, which require `create`.
    """
    runtimes = [TRAINING_RUNTIMES] if STANDARD_LAUNCH_KINDS["TrainJob"] in kinds else []
    return {
        *grants("batch", "jobs", ("get", "list", "create", "delete"), namespace),
        *(grant for kind in kinds for grant in grants(*kind, ("get", "list", "create"), namespace)),
        *(grant for kind in runtimes for grant in grants(*kind, ("get", "create"), namespace)),
        *grants("", "persistentvolumeclaims", ("get", "list"), namespace),
        *grants("", "pods", ("get", "list"), namespace),
        *grants("", "pods/log", ("get",), namespace),
        # kubectl opens a WebSocket with a GET, and falls back to a POST.
        *grants("", "pods/exec", ("get", "create"), namespace),
        *grants("", "events", ("list",), namespace),
        *grants("", "limitranges", ("list",), namespace),
        *grants("", "resourcequotas", ("list",), namespace),
        *grants("kueue.x-k8s.io", "localqueues", ("get", "list"), namespace),
        *grants("kueue.x-k8s.io", "workloads", ("list",), namespace),
        # A run's position in the queue.
        *grants("visibility.kueue.x-k8s.io", "localqueues/pendingworkloads", ("get",), namespace),
    }


def team_rights(namespace: str, optional_kinds: Collection[GroupResource] = ()) -> set[Grant]:
    """Return the rights of a team's members to deploy and use its stack, with any kinds, volumes and runs.

    `optional_kinds`: the kinds of launches beyond STANDARD_LAUNCH_KINDS that the platform serves.
    """
    kinds = [*STANDARD_LAUNCH_KINDS.values(), *optional_kinds]
    deploy_rights = training_rights(namespace, kinds, {"": True})
    return (
        rights_to_find_launches(namespace, optional_kinds)
        | rights_to_guard(namespace)
        | deploy_rights
        | day_two_rights(namespace, kinds)
    )


def policy_rules(rights: Iterable[Grant]) -> list[Manifest]:
    """Return the rules of a role with these rights, as few as possible: resources with the same verbs share one."""
    verbs_by_object: dict[tuple[str, str, str], set[str]] = {}
    for grant in rights:
        verbs_by_object.setdefault((grant.group, grant.resource, grant.name), set()).add(grant.verb)
    names_by_verbs: dict[tuple[str, str, tuple[str, ...]], set[str]] = {}
    for (group, resource, name), object_verbs in verbs_by_object.items():
        # A named object needs only the verbs that are not granted on any object of its kind.
        if (
            additional_verbs := object_verbs - verbs_by_object.get((group, resource, ""), set())
            if name
            else object_verbs
        ):
            names_by_verbs.setdefault(
                (group, resource, tuple(sorted(additional_verbs, key=_VERB_ORDER.index))), set()
            ).add(name)
    resources_by_rule: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for (group, resource, rule_verbs), rule_names in sorted(names_by_verbs.items()):
        resources_by_rule.setdefault((group, rule_verbs, tuple(sorted(rule_names - {""}))), []).append(resource)
    sorted_rules = sorted(resources_by_rule.items(), key=lambda item: (item[0][0], item[1], item[0]))
    return [
        {
            "apiGroups": [group],
            "resources": rule_resources,
            **({"resourceNames": list(rule_names)} if rule_names else {}),
            "verbs": list(rule_verbs),
        }
        for (group, rule_verbs, rule_names), rule_resources in sorted_rules
    ]


def build_roles(name: str, rights: Collection[Grant]) -> Iterator[Manifest]:
    """Yield a ClusterRole with the rights in all namespaces, and a Role with the others in each namespace."""
    cluster_wide_rights = {grant for grant in rights if not grant.namespace}
    for namespace in sorted({grant.namespace for grant in rights}):
        namespace_rights = {grant for grant in rights if grant.namespace == namespace}
        if namespace:
            namespace_rights = {
                grant
                for grant in namespace_rights
                if not any(wide_grant.covers(grant) for wide_grant in cluster_wide_rights)
            }
        if namespace_rights:
            namespace_field = {"namespace": namespace} if namespace else {}
            yield {
                "apiVersion": f"{API}/v1",
                "kind": "Role" if namespace else "ClusterRole",
                "metadata": {"name": name, **namespace_field, "labels": {MANAGED_BY: OWNER}},
                "rules": policy_rules(namespace_rights),
            }


def rights_of_role(role: Manifest) -> set[Grant]:
    """Return the rights of a live role."""
    namespace = role["metadata"].get("namespace", "")
    return {
        grant
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for grant in grants(group, resource, rule["verbs"], namespace, rule.get("resourceNames") or ("",))
    }
