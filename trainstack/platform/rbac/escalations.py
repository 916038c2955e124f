"""Privilege escalations: known patterns in which a role's grants exceed its purpose.

Sources: https://kubernetes.io/docs/concepts/security/rbac-good-practices/,
https://kubernetes.io/docs/concepts/security/pod-security-standards/
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from trainstack.objects.launch_kinds import ALL_LAUNCH_KINDS
from trainstack.platform.rbac.rights import API, Grant

_ADMISSION, _CERTIFICATES = "admissionregistration.k8s.io", "certificates.k8s.io"
_PHASES = ("mutating", "validating")
_WRITE_VERBS = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_SET_VERBS = frozenset({"create", "update", "patch"})
_SIGN_VERBS = _SET_VERBS | {"approve", "sign"}
_READ_VERBS = frozenset({"get", "list", "watch"})
_SAFE_LEVELS = ("baseline", "restricted")
"""The Pod Security levels that refuse privileged pods, host namespaces and hostPath volumes."""
_POD_CREATING_KINDS = {
    *ALL_LAUNCH_KINDS.values(),
    *(("apps", kind) for kind in ("daemonsets", "deployments", "replicasets", "statefulsets")),
    ("", "replicationcontrollers"),
    ("batch", "cronjobs"),
    # Kinds that a workload of kind Object may have.
    *(("kubeflow.org", f"{kind}jobs") for kind in ("jax", "paddle", "tf", "xgboost")),
    ("leaderworkerset.x-k8s.io", "leaderworkersets"),
    ("ray.io", "rayclusters"),
    ("workload.codeflare.dev", "appwrappers"),
}
_SENSITIVE_KINDS = _POD_CREATING_KINDS | {("", "configmaps"), ("", "events")}
"""Kinds whose objects contain configuration, arguments or environment variables."""


@dataclass(frozen=True, order=True)
class Escalation:
    """One privilege escalation of a role."""

    id: str
    """A key of MEANINGS."""
    namespace: str
    """The namespace; "" for the cluster."""
    through: tuple[str, ...]
    """The granted resources, with `/<name>` if the role lists names."""

    @property
    def text(self) -> str:
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.id}{where}: {MEANINGS[self.id]} ({', '.join(_shorten(self.through))})"


MEANINGS: Mapping[str, str] = {
    "admission": "changes or deletes admission policies",
    "apiservices": "serves an API group, and reads the requests for it",
    "binding": "binds these roles to any user",
    "certificates": "obtains a client certificate for any user name",
    "cluster-admin": "has the rights of a cluster administrator",
    "definitions": "changes CRDs, and through a conversion webhook reads and changes all objects of their kinds",
    "exec": "runs commands in any pod, with the mounts and the ServiceAccount of that pod",
    "external-ips": "intercepts traffic to other IP addresses through the externalIPs of a Service",
    "host-paths": "mounts any folder of a node through a volume, with root access to the node",
    "impersonation": "impersonates other users",
    "limits": "changes quotas and limits",
    "namespace-admin": "grants itself all rights in the namespace",
    "namespace-deletion": "deletes a namespace and all objects in it, including those of other owners",
    "nodes": "changes nodes, or runs commands in any pod of a node",
    "pod-identities": "runs pods as any ServiceAccount of the namespace, and mounts any of its Secrets",
    "pod-security": "lowers the Pod Security level of a namespace",
    "priorities": "preempts pods of other owners",
    "privileged-pods": "runs privileged pods, with root access to nodes, unless the namespace enforces a level",
    "reads-all-namespaces": "reads objects of all namespaces",
    "secrets": "reads Secrets",
    "tokens": "creates tokens of ServiceAccounts",
    "webhooks": "reads and changes objects of other owners, including Secrets, through an admission webhook",
    "writes-all-namespaces": "writes objects of any name in all namespaces",
}
"""What a user with the escalation can do, by the id of the escalation."""


@dataclass(frozen=True)
class _Pattern:
    """Grants that amount to an escalation."""

    id: str
    verbs: Collection[str]
    kinds: Collection[tuple[str, str]]

    def matches(self, grant: Grant) -> bool:
        is_verb_matched = grant.verb in self.verbs or grant.verb == "*"
        return is_verb_matched and any(
            grant.group in (group, "*") and _is_resource_matched(grant.resource, kind) for group, kind in self.kinds
        )


def _is_resource_matched(granted: str, kind: str) -> bool:
    """Return whether a granted resource includes a kind. `*/exec` includes the subresource `exec` of all kinds."""
    subresource = kind.partition("/")[2]
    return granted in (kind, "*") or (subresource != "" and granted == f"*/{subresource}")


def _pattern(name: str, verbs: Collection[str], *kinds: tuple[str, str]) -> _Pattern:
    return _Pattern(name, verbs, kinds)


_PATTERNS = (
    _pattern(
        "exec", {"create", "get", "update", "patch"}, *(("", f"pods/{name}") for name in ("attach", "exec", "proxy"))
    ),
    _pattern("exec", _SET_VERBS | {"get"}, ("", "pods/ephemeralcontainers"), ("", "pods/portforward")),
    _pattern("external-ips", _SET_VERBS, ("", "services")),
    _pattern("host-paths", _SET_VERBS, ("", "persistentvolumes")),
    _pattern("limits", _WRITE_VERBS, ("", "limitranges"), ("", "resourcequotas")),
    _pattern("namespace-deletion", {"delete", "deletecollection"}, ("", "namespaces")),
    _pattern("nodes", _WRITE_VERBS, ("", "nodes"), ("", "nodes/status")),
    _pattern("nodes", {*_SET_VERBS, "get"}, ("", "nodes/proxy")),
    _pattern("pod-identities", _SET_VERBS, *_POD_CREATING_KINDS),
    _pattern("pod-security", _SET_VERBS, ("", "namespaces")),
    _pattern("secrets", _READ_VERBS, ("", "secrets")),
    _pattern("tokens", {"create"}, ("", "serviceaccounts/token")),
    _pattern("impersonation", {"impersonate"}, *(("", kind) for kind in ("users", "groups", "serviceaccounts"))),
    _pattern("admission", _WRITE_VERBS, *((_ADMISSION, f"{kind}admissionpolicies") for kind in _PHASES)),
    _pattern("admission", _WRITE_VERBS, *((_ADMISSION, f"{kind}admissionpolicybindings") for kind in _PHASES)),
    _pattern("apiservices", _SET_VERBS, ("apiregistration.k8s.io", "apiservices")),
    _pattern(
        "certificates",
        _SIGN_VERBS,
        *((_CERTIFICATES, kind) for kind in ("certificatesigningrequests/approval", "signers")),
    ),
    _pattern("definitions", _WRITE_VERBS, ("apiextensions.k8s.io", "customresourcedefinitions")),
    _pattern("priorities", _SET_VERBS, ("scheduling.k8s.io", "priorityclasses")),
    _pattern("webhooks", _SET_VERBS, *((_ADMISSION, f"{kind}webhookconfigurations") for kind in _PHASES)),
)


def find_escalations(
    rights: Collection[Grant],
    levels: Mapping[str, str],
    restricted_objects: Collection[tuple[str, str, str]] = (),
) -> list[Escalation]:
    """Return the escalations of a role, sorted.

    `levels`: the enforced Pod Security levels, as far as they are known, by namespace. `restricted_objects`: the
    objects (API group, resource, name) that admission policies restrict.
    """
    resources_by_escalation: dict[tuple[str, str], set[str]] = {}
    for grant in rights:
        for escalation_id in _escalation_ids(grant, levels, restricted_objects):
            through = f"{grant.resource}/{grant.name}" if grant.name else grant.resource
            resources_by_escalation.setdefault((escalation_id, grant.namespace), set()).add(through)
    return sorted(
        Escalation(escalation_id, namespace, tuple(sorted(through)))
        for (escalation_id, namespace), through in resources_by_escalation.items()
    )


def _escalation_ids(
    grant: Grant, levels: Mapping[str, str], restricted_objects: Collection[tuple[str, str, str]]
) -> Iterator[str]:
    is_restricted = (grant.group, grant.resource, grant.name) in restricted_objects
    for pattern in _PATTERNS:
        if pattern.matches(grant) and not (is_restricted and grant.verb in _SET_VERBS):
            yield pattern.id
            if pattern.id == "pod-identities" and levels.get(grant.namespace, "") not in _SAFE_LEVELS:
                yield "privileged-pods"
    if grant.group in (API, "*"):
        yield from _role_escalation_ids(grant)
    if not grant.namespace and not grant.name:
        if grant.verb in (*_WRITE_VERBS, "*"):
            yield "writes-all-namespaces"
        if grant.verb in (*_READ_VERBS, "*") and (
            (grant.group, grant.resource) in _SENSITIVE_KINDS or grant.resource == "*"
        ):
            yield "reads-all-namespaces"


def _role_escalation_ids(grant: Grant) -> Iterator[str]:
    """Yield the escalations of the verbs `escalate` and `bind`, with which users grant rights that they do not have."""
    if grant.verb in ("escalate", "*") or (grant.verb == "bind" and not grant.name):
        yield "namespace-admin" if grant.namespace else "cluster-admin"
    elif grant.verb == "bind":
        yield "binding"


def _shorten(names: tuple[str, ...], limit: int = 4) -> list[str]:
    return list(names) if len(names) <= limit else [*names[: limit - 1], f"and {len(names) - limit + 1} more"]
