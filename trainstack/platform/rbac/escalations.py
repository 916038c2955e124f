"""Privilege escalations: known patterns in which a role's grants exceed its purpose.

Sources: https://kubernetes.io/docs/concepts/security/rbac-good-practices/,
https://kubernetes.io/docs/concepts/security/pod-security-standards/
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from trainstack.objects.launch_kinds import ALL_LAUNCHES
from trainstack.platform.rbac.rights import API, Grant

_ADMISSION, _CERTIFICATES = "admissionregistration.k8s.io", "certificates.k8s.io"
_PHASES = ("mutating", "validating")
_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_SETS = frozenset({"create", "update", "patch"})
_SIGNS = _SETS | {"approve", "sign"}
_READS = frozenset({"get", "list", "watch"})
_SAFE_LEVELS = ("baseline", "restricted")
"""The Pod Security levels that refuse privileged pods, host namespaces and hostPath volumes."""
_POD_MAKERS = {
    *ALL_LAUNCHES.values(),
    *(("apps", kind) for kind in ("daemonsets", "deployments", "replicasets", "statefulsets")),
    ("", "replicationcontrollers"),
    ("batch", "cronjobs"),
    # Kinds that a workload of kind Object may have.
    *(("kubeflow.org", f"{kind}jobs") for kind in ("jax", "paddle", "tf", "xgboost")),
    ("leaderworkerset.x-k8s.io", "leaderworkersets"),
    ("ray.io", "rayclusters"),
    ("workload.codeflare.dev", "appwrappers"),
}
_SENSITIVE = _POD_MAKERS | {("", "configmaps"), ("", "events")}
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
        return f"{self.id}{where}: {MEANINGS[self.id]} ({', '.join(_shortened(self.through))})"


MEANINGS: Mapping[str, str] = {
    "admission": "changes or drops admission policies",
    "apiservices": "serves an API group, and reads what is sent to it",
    "binding": "gives these roles to anybody",
    "certificates": "gets a client certificate of any name",
    "cluster-admin": "is an administrator of the cluster",
    "definitions": "changes a kind, and with a conversion webhook reads and changes all its objects",
    "exec": "runs commands in every pod, with that pod's mounts and ServiceAccount",
    "external-ips": "takes traffic of other IP addresses by a Service's externalIPs",
    "host-paths": "mounts any folder of a node by a volume, and so is root on nodes",
    "impersonation": "acts as another user",
    "limits": "changes quotas and limits",
    "namespace-admin": "gives itself every right in the namespace",
    "namespace-deletion": "deletes a namespace with all objects in it, also of others",
    "nodes": "changes nodes, or runs commands in every pod of a node",
    "pod-identities": "runs pods as any ServiceAccount of the namespace, and mounts any of its Secrets",
    "pod-security": "lowers the Pod Security level of a namespace",
    "priorities": "preempts the pods of others",
    "privileged-pods": "runs privileged pods, and so is root on nodes, unless the namespace enforces a level",
    "reads-all-namespaces": "reads objects of all namespaces",
    "secrets": "reads Secrets",
    "tokens": "gets tokens of ServiceAccounts",
    "webhooks": "reads and changes objects of others, Secrets too, by an admission webhook",
    "writes-all-namespaces": "writes objects of any name in all namespaces",
}
"""What a user with the escalation can do, by the id of the escalation."""


@dataclass(frozen=True)
class _Way:
    """Grants that amount to an escalation."""

    id: str
    verbs: Collection[str]
    kinds: Collection[tuple[str, str]]

    def is_met(self, grant: Grant) -> bool:
        verb = grant.verb in self.verbs or grant.verb == "*"
        return verb and any(grant.group in (group, "*") and grant.resource in (kind, "*") for group, kind in self.kinds)


def _way(name: str, verbs: Collection[str], *kinds: tuple[str, str]) -> _Way:
    return _Way(name, verbs, kinds)


_WAYS = (
    _way("exec", {"create", "get", "update", "patch"}, *(("", f"pods/{name}") for name in ("attach", "exec", "proxy"))),
    _way("exec", _SETS | {"get"}, ("", "pods/ephemeralcontainers"), ("", "pods/portforward")),
    _way("external-ips", _SETS, ("", "services")),
    _way("host-paths", _SETS, ("", "persistentvolumes")),
    _way("limits", _WRITES, ("", "limitranges"), ("", "resourcequotas")),
    _way("namespace-deletion", {"delete", "deletecollection"}, ("", "namespaces")),
    _way("nodes", _WRITES, ("", "nodes"), ("", "nodes/status")),
    _way("nodes", {*_SETS, "get"}, ("", "nodes/proxy")),
    _way("pod-identities", _SETS, *_POD_MAKERS),
    _way("pod-security", _SETS, ("", "namespaces")),
    _way("secrets", _READS, ("", "secrets")),
    _way("tokens", {"create"}, ("", "serviceaccounts/token")),
    _way("impersonation", {"impersonate"}, *(("", kind) for kind in ("users", "groups", "serviceaccounts"))),
    _way("admission", _WRITES, *((_ADMISSION, f"{kind}admissionpolicies") for kind in _PHASES)),
    _way("admission", _WRITES, *((_ADMISSION, f"{kind}admissionpolicybindings") for kind in _PHASES)),
    _way("apiservices", _SETS, ("apiregistration.k8s.io", "apiservices")),
    _way(
        "certificates", _SIGNS, *((_CERTIFICATES, kind) for kind in ("certificatesigningrequests/approval", "signers"))
    ),
    _way("definitions", _WRITES, ("apiextensions.k8s.io", "customresourcedefinitions")),
    _way("priorities", _SETS, ("scheduling.k8s.io", "priorityclasses")),
    _way("webhooks", _SETS, *((_ADMISSION, f"{kind}webhookconfigurations") for kind in _PHASES)),
)


def escalations(
    granted: Collection[Grant],
    levels: Mapping[str, str],
    held: Collection[tuple[str, str, str]] = (),
) -> list[Escalation]:
    """Return the escalations of a role, sorted.

    `levels`: the enforced Pod Security levels, as far as they are known, by namespace. `restricted_objects`: the
    objects (API group, resource, name) that admission policies restrict.
    """
    found: dict[tuple[str, str], set[str]] = {}
    for grant in granted:
        for way in _found(grant, levels, held):
            through = f"{grant.resource}/{grant.name}" if grant.name else grant.resource
            found.setdefault((way, grant.namespace), set()).add(through)
    return sorted(Escalation(way, namespace, tuple(sorted(through))) for (way, namespace), through in found.items())


def _found(grant: Grant, levels: Mapping[str, str], held: Collection[tuple[str, str, str]]) -> Iterator[str]:
    is_held = (grant.group, grant.resource, grant.name) in held
    for way in _WAYS:
        if way.is_met(grant) and not (is_held and grant.verb in _SETS):
            yield way.id
            if way.id == "pod-identities" and levels.get(grant.namespace, "") not in _SAFE_LEVELS:
                yield "privileged-pods"
    if grant.group in (API, "*"):
        yield from _by_roles(grant)
    if not grant.namespace and not grant.name:
        if grant.verb in (*_WRITES, "*"):
            yield "writes-all-namespaces"
        if grant.verb in (*_READS, "*") and ((grant.group, grant.resource) in _SENSITIVE or grant.resource == "*"):
            yield "reads-all-namespaces"


def _by_roles(grant: Grant) -> Iterator[str]:
    """Yield the escalations of the verbs `escalate` and `bind`, with which users grant rights that they do not have."""
    if grant.verb in ("escalate", "*") or (grant.verb == "bind" and not grant.name):
        yield "namespace-admin" if grant.namespace else "cluster-admin"
    elif grant.verb == "bind":
        yield "binding"


def _shortened(names: tuple[str, ...], most: int = 4) -> list[str]:
    return list(names) if len(names) <= most else [*names[: most - 1], f"and {len(names) - most + 1} more"]
