"""What a team may do: a Role in its namespace, bound to its people and, where it has one, to its ServiceAccount.

Nothing here is cluster-wide. Source: https://kubernetes.io/docs/reference/access-authn-authz/rbac/
"""

from manifests.labels import Manifest, metadata
from settings.tenants import Team

TENANT = "tenant-"
"""What the names of teams' roles and bindings begin with."""
_API = "rbac.authorization.k8s.io"
_READ = ("get", "list", "watch")
_OWN = (*_READ, "create", "update", "patch", "delete")
"""What the engine does with an object: a server-side apply of a new one needs both `create` and `patch`."""

_RULES: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    # Claims, ledgers and wrappers; pods that are launched by themselves.
    ("", ("configmaps", "persistentvolumeclaims", "pods"), _OWN),
    ("", ("pods/log",), ("get",)),
    # Files through a data loader. kubectl opens a web socket with a GET, and falls back to a POST.
    ("", ("pods/exec",), ("get", "create")),
    ("", ("events",), _READ),
    # The namespace itself: its UID tells the cluster from another.
    ("", ("namespaces",), ("get",)),
    ("batch", ("jobs",), _OWN),
    ("jobset.x-k8s.io", ("jobsets",), _OWN),
    ("kubeflow.org", ("pytorchjobs",), _OWN),
    # Why a run waits, and its place in the queue.
    ("kueue.x-k8s.io", ("localqueues", "workloads"), _READ),
    ("trainer.kubeflow.org", ("trainingruntimes", "trainjobs"), _OWN),
    ("visibility.kueue.x-k8s.io", ("localqueues/pendingworkloads",), ("get",)),
)
"""API group, resources, verbs: each is there for a command of ours. A kind that the cluster lacks does no harm."""


def rights(team: Team, stack: str) -> list[Manifest]:
    """A team's Role and RoleBinding, and before them the ServiceAccount where it has one."""
    name = f"{TENANT}{team.name}"

    def of_team(api_version: str, kind: str, name: str) -> Manifest:
        meta = metadata(name, stack, namespace=team.namespace)
        return {"apiVersion": api_version, "kind": kind, "metadata": meta}

    accounts = [team.service_account] if team.service_account else []
    return [
        *(of_team("v1", "ServiceAccount", account) for account in accounts),
        {
            **of_team(f"{_API}/v1", "Role", name),
            "rules": [
                {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
                for group, resources, verbs in _RULES
            ],
        },
        {
            **of_team(f"{_API}/v1", "RoleBinding", name),
            "roleRef": {"apiGroup": _API, "kind": "Role", "name": name},
            "subjects": [
                *({"apiGroup": _API, "kind": "Group", "name": group} for group in team.groups),
                *({"apiGroup": _API, "kind": "User", "name": user} for user in team.users),
                *({"kind": "ServiceAccount", "name": account, "namespace": team.namespace} for account in accounts),
            ],
        },
    ]
