"""Rights as small as they come, and roles made of them; what the training half and the day's commands need.

Which verbs the engine's provider uses was read in its source and is held to an API server's audit log by a test. Source
of the rules: https://kubernetes.io/docs/reference/access-authn-authz/rbac/
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from trainstack.objects.labels import MANAGED_BY, OWNER, Manifest
from trainstack.objects.launch_kinds import LAUNCHES

API = "rbac.authorization.k8s.io"
RUNTIMES = ("trainer.kubeflow.org", "trainingruntimes")
"""What a TrainJob refers to."""
NOT_AWAITED = (LAUNCHES["Job"], LAUNCHES["Pod"])
"""Their launches bear `pulumi.com/skipAwait`, which for these kinds holds for their deletion too."""
DECLARE = ("get", "create", "patch")
"""A server-side apply of a new object needs `create` beside `patch`, in a preview too, which sends it as a dry run. A
refresh needs `get`."""
WATCH = ("list", "watch")
"""The provider waits by a list and a watch of a whole kind in a namespace: no name can narrow that."""
_VERBS = ("get", *WATCH, "create", "update", "patch", "delete", "bind", "escalate")
"""All that are granted, in the order in which roles have them."""


@dataclass(frozen=True, order=True)
class Grant:
    """One verb on one kind, in one place."""

    group: str
    """API group; "" for the core."""
    resource: str
    """The kind's plural, with a subresource after a slash."""
    verb: str
    namespace: str = ""
    """"" for everywhere: all namespaces, and what is in none."""
    name: str = ""
    """The one object; "" for any."""

    def covers(self, other: "Grant") -> bool:
        """Whether who has this right may do the other thing too."""
        same = (self.group, self.resource, self.verb) == (other.group, other.resource, other.verb)
        return same and self.namespace in ("", other.namespace) and self.name in ("", other.name)


def grants(
    group: str, resource: str, verbs: Iterable[str], namespace: str = "", names: Iterable[str] = ("",)
) -> set[Grant]:
    """Several verbs on one kind, each on each name."""
    chosen = tuple(names)
    return {Grant(group, resource, verb, namespace, name) for verb in verbs for name in chosen}


def found(everywhere: str) -> set[Grant]:
    """Finding a stack's launches, of whichever kind, and its ledgers. Before every change, and for every command."""
    return {
        *grants("", "configmaps", ("list",), everywhere),
        *(grant for kind in LAUNCHES.values() for grant in grants(*kind, ("list",), everywhere)),
    }


def guarded(namespace: str) -> set[Grant]:
    """What a change is held against before it is made, in a tenant's namespace.

    The namespace's UID tells this cluster from another, and volumes with data are looked for by their mark. In a
    namespace the right to get namespaces is one to get that one.
    """
    return {
        *grants("", "namespaces", ("get",), namespace),
        *grants("", "persistentvolumeclaims", ("list",), namespace),
    }


def deleted(group: str, resource: str, namespace: str, names: Iterable[str] = ("",)) -> set[Grant]:
    """Deleting, and waiting until it is gone, with a look at what the cluster says of it meanwhile."""
    return {
        *grants(group, resource, ("delete",), namespace, names),
        *grants(group, resource, WATCH, namespace),
        *grants("", "events", WATCH, namespace),
    }


def training(namespace: str, kinds: Collection[str], claims: Mapping[str, bool]) -> set[Grant]:
    """Declaring volumes and runs, and taking them away.

    Args:
        namespace: where they are; "" for everywhere.
        kinds: the kinds of the runs' objects, of LAUNCHES.
        claims: the names of the volume claims, "" for any; whether each goes with the stack.

    """
    owned = [("", "configmaps"), *(LAUNCHES[kind] for kind in kinds)]
    owned += [RUNTIMES] if "TrainJob" in kinds else []
    result = grants("", "persistentvolumeclaims", DECLARE, namespace, claims) if claims else set()
    if going := [name for name, goes in claims.items() if goes]:
        result |= deleted("", "persistentvolumeclaims", namespace, going)
    for kind in owned:
        result |= grants(*kind, DECLARE, namespace)
        result |= grants(*kind, ("delete",), namespace) if kind in NOT_AWAITED else deleted(*kind, namespace)
    return result


def day_two(namespace: str, kinds: Collection[str]) -> set[Grant]:
    """What `status`, `wait`, `logs`, `events`, `upload`, `ls`, `fetch` and `check --cluster` ask for in a namespace.

    Files go through a Job that is made and deleted. `check --cluster` sends the runs as a dry run, for which the API
    server wants the right to create them.
    """
    runtimes = [RUNTIMES] if "TrainJob" in kinds else []
    return {
        *grants("batch", "jobs", ("get", "list", "create", "delete"), namespace),
        *(each for kind in kinds for each in grants(*LAUNCHES[kind], ("get", "list", "create"), namespace)),
        *(each for kind in runtimes for each in grants(*kind, ("get", "create"), namespace)),
        *grants("", "persistentvolumeclaims", ("get", "list"), namespace),
        *grants("", "pods", ("get", "list"), namespace),
        *grants("", "pods/log", ("get",), namespace),
        # kubectl opens a web socket with a GET, and falls back to a POST.
        *grants("", "pods/exec", ("get", "create"), namespace),
        *grants("", "events", ("list",), namespace),
        *grants("", "limitranges", ("list",), namespace),
        *grants("kueue.x-k8s.io", "localqueues", ("get", "list"), namespace),
        *grants("kueue.x-k8s.io", "workloads", ("list",), namespace),
        # A run's place in the queue.
        *grants("visibility.kueue.x-k8s.io", "localqueues/pendingworkloads", ("get",), namespace),
    }


def for_a_team(namespace: str) -> set[Grant]:
    """What a team's people need who deploy and use its stack, whichever kinds, volumes and runs it declares."""
    declared = training(namespace, LAUNCHES, {"": True})
    return found(namespace) | guarded(namespace) | declared | day_two(namespace, LAUNCHES)


def rules(granted: Iterable[Grant]) -> list[Manifest]:
    """The rules of a role, of rights in one place: what has the same verbs stands together."""
    verbs: dict[tuple[str, str, str], set[str]] = {}
    for each in granted:
        verbs.setdefault((each.group, each.resource, each.name), set()).add(each.verb)
    names: dict[tuple[str, str, tuple[str, ...]], set[str]] = {}
    for (group, resource, name), held in verbs.items():
        # What any object may have done to it, the named ones may.
        if own := held - verbs.get((group, resource, ""), set()) if name else held:
            names.setdefault((group, resource, tuple(sorted(own, key=_VERBS.index))), set()).add(name)
    resources: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for (group, resource, held_verbs), of in sorted(names.items()):
        resources.setdefault((group, held_verbs, tuple(sorted(of - {""}))), []).append(resource)
    return [
        {
            "apiGroups": [group],
            "resources": each,
            **({"resourceNames": list(of)} if of else {}),
            "verbs": list(held_verbs),
        }
        for (group, held_verbs, of), each in sorted(resources.items(), key=lambda item: (item[0][0], item[1], item[0]))
    ]


def as_roles(name: str, granted: Collection[Grant]) -> Iterator[Manifest]:
    """A ClusterRole of what holds everywhere, and a Role in each namespace, all of one name."""
    everywhere = {each for each in granted if not each.namespace}
    for namespace in sorted({each.namespace for each in granted}):
        # What holds everywhere holds here.
        here = {each for each in granted if each.namespace == namespace}
        if namespace:
            here = {each for each in here if not any(wide.covers(each) for wide in everywhere)}
        if here:
            within = {"namespace": namespace} if namespace else {}
            yield {
                "apiVersion": f"{API}/v1",
                "kind": "Role" if namespace else "ClusterRole",
                "metadata": {"name": name, **within, "labels": {MANAGED_BY: OWNER}},
                "rules": rules(here),
            }


def granted_by(role: Manifest) -> set[Grant]:
    """The rights that a role, as a cluster has it, gives."""
    namespace = role["metadata"].get("namespace", "")
    return {
        grant
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for grant in grants(group, resource, rule["verbs"], namespace, rule.get("resourceNames") or ("",))
    }
