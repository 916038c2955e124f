"""Least-privilege rights of runs, day-two commands and teams, and the roles that grant them.

The verbs are from the source of the engine's provider; a test compares them with an API server's audit log.
Source of the rules: https://kubernetes.io/docs/reference/access-authn-authz/rbac/
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from trainstack.objects.labels import MANAGED_BY, OWNER, Manifest
from trainstack.objects.launch_kinds import LAUNCHES, Resource

API = "rbac.authorization.k8s.io"
RUNTIMES = ("trainer.kubeflow.org", "trainingruntimes")
"""The kind of the runtimes that TrainJobs refer to."""
NOT_AWAITED = (LAUNCHES["Job"], LAUNCHES["Pod"])
"""Kinds of launches with `pulumi.com/skipAwait`, for which the provider does not wait for the deletion either."""
DECLARE = ("get", "create", "patch")
"""The verbs to declare objects. A server-side apply of a new object, also as a dry run, needs `create` and `patch`; a
refresh needs `get`."""
WATCH = ("list", "watch")
"""The verbs to wait for objects: the provider lists and watches a kind in a namespace, which RBAC cannot restrict by
name."""
_VERBS = ("get", *WATCH, "create", "update", "patch", "delete", "bind", "escalate")
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
        same = (self.group, self.resource, self.verb) == (other.group, other.resource, other.verb)
        return same and self.namespace in ("", other.namespace) and self.name in ("", other.name)


def grants(
    group: str, resource: str, verbs: Iterable[str], namespace: str = "", names: Iterable[str] = ("",)
) -> set[Grant]:
    chosen = tuple(names)
    return {Grant(group, resource, verb, namespace, name) for verb in verbs for name in chosen}


def found(everywhere: str, optional: Iterable[Resource] = ()) -> set[Grant]:
    """Return the rights to find a stack's launches and ledgers, which every change and every command needs.

    `namespace`: "" for all. `optional_kinds`: the kinds of launches that the stack has beyond STANDARD_LAUNCH_KINDS.
    """
    return {
        *grants("", "configmaps", ("list",), everywhere),
        *(grant for kind in (*LAUNCHES.values(), *optional) for grant in grants(*kind, ("list",), everywhere)),
    }


def guarded(namespace: str) -> set[Grant]:
    """Return the rights that the guards need before a change in a tenant's namespace.

    The namespace's UID identifies the cluster, and labels identify volumes with data. In a Role, the right to get
    namespaces applies only to the Role's own namespace.
    """
    return {
        *grants("", "namespaces", ("get",), namespace),
        *grants("", "persistentvolumeclaims", ("list",), namespace),
    }


def deleted(group: str, resource: str, namespace: str, names: Iterable[str] = ("",)) -> set[Grant]:
    """Return the rights to delete objects, to wait for their deletion and to read their events."""
    return {
        *grants(group, resource, ("delete",), namespace, names),
        *grants(group, resource, WATCH, namespace),
        *grants("", "events", WATCH, namespace),
    }


def training(namespace: str, kinds: Collection[Resource], claims: Mapping[str, bool]) -> set[Grant]:
    """Return the rights to declare and delete volumes and runs in a namespace, "" for all.

    `kinds`: the kinds of its launches. `claims`: whether a volume claim is deleted with the stack, by its name, "" for
    any.
    """
    owned = [("", "configmaps"), *kinds]
    owned += [RUNTIMES] if LAUNCHES["TrainJob"] in kinds else []
    result = grants("", "persistentvolumeclaims", DECLARE, namespace, claims) if claims else set()
    if deletable := [name for name, is_deleted in claims.items() if is_deleted]:
        result |= deleted("", "persistentvolumeclaims", namespace, deletable)
    for kind in owned:
        result |= grants(*kind, DECLARE, namespace)
        result |= grants(*kind, ("delete",), namespace) if kind in NOT_AWAITED else deleted(*kind, namespace)
    return result


def day_two(namespace: str, kinds: Collection[Resource]) -> set[Grant]:
    """Return the rights of `status`, `wait`, `logs`, `events`, `upload`, `ls`, `fetch`, `check --cluster`.

    A temporary Job transfers files. `check --cluster` sends the runs as dry runs, which require `create`.
    """
    runtimes = [RUNTIMES] if LAUNCHES["TrainJob"] in kinds else []
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
        *grants("kueue.x-k8s.io", "localqueues", ("get", "list"), namespace),
        *grants("kueue.x-k8s.io", "workloads", ("list",), namespace),
        # A run's position in the queue.
        *grants("visibility.kueue.x-k8s.io", "localqueues/pendingworkloads", ("get",), namespace),
    }


def for_a_team(namespace: str, optional: Collection[Resource] = ()) -> set[Grant]:
    """Return the rights of a team's members to deploy and use its stack, with any kinds, volumes and runs.

    `optional_kinds`: the kinds of launches beyond STANDARD_LAUNCH_KINDS that the platform serves.
    """
    kinds = [*LAUNCHES.values(), *optional]
    declared = training(namespace, kinds, {"": True})
    return found(namespace, optional) | guarded(namespace) | declared | day_two(namespace, kinds)


def rules(granted: Iterable[Grant]) -> list[Manifest]:
    """Return the rules of a role with these rights, as few as possible: resources with the same verbs share one."""
    verbs: dict[tuple[str, str, str], set[str]] = {}
    for grant in granted:
        verbs.setdefault((grant.group, grant.resource, grant.name), set()).add(grant.verb)
    names: dict[tuple[str, str, tuple[str, ...]], set[str]] = {}
    for (group, resource, name), held in verbs.items():
        # A named object needs only the verbs that are not granted on any object of its kind.
        if own := held - verbs.get((group, resource, ""), set()) if name else held:
            names.setdefault((group, resource, tuple(sorted(own, key=_VERBS.index))), set()).add(name)
    resources: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for (group, resource, held_verbs), of in sorted(names.items()):
        resources.setdefault((group, held_verbs, tuple(sorted(of - {""}))), []).append(resource)
    ordered = sorted(resources.items(), key=lambda item: (item[0][0], item[1], item[0]))
    return [
        {
            "apiGroups": [group],
            "resources": listed,
            **({"resourceNames": list(of)} if of else {}),
            "verbs": list(held_verbs),
        }
        for (group, held_verbs, of), listed in ordered
    ]


def as_roles(name: str, granted: Collection[Grant]) -> Iterator[Manifest]:
    """Yield a ClusterRole with the rights in all namespaces, and a Role with the others in each namespace."""
    everywhere = {grant for grant in granted if not grant.namespace}
    for namespace in sorted({grant.namespace for grant in granted}):
        own = {grant for grant in granted if grant.namespace == namespace}
        if namespace:
            own = {grant for grant in own if not any(wide.covers(grant) for wide in everywhere)}
        if own:
            within = {"namespace": namespace} if namespace else {}
            yield {
                "apiVersion": f"{API}/v1",
                "kind": "Role" if namespace else "ClusterRole",
                "metadata": {"name": name, **within, "labels": {MANAGED_BY: OWNER}},
                "rules": rules(own),
            }


def granted_by(role: Manifest) -> set[Grant]:
    """Return the rights of a live role."""
    namespace = role["metadata"].get("namespace", "")
    return {
        grant
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for grant in grants(group, resource, rule["verbs"], namespace, rule.get("resourceNames") or ("",))
    }
