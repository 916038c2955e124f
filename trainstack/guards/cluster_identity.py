"""Refusals of a change on another cluster than the one that the stack was created on. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainstack.objects.labels import LOCAL_CLUSTER
from trainstack.settings.errors import Place

CA = "CA"
"""The key of the sha256 of the kubeconfig's certificate authority. No namespace has a name with capital letters."""

FACTS_RESOURCE_TYPE = "pulumi:index:Stash"
"""The type of the resource that stores the cluster's facts in the engine's state, as its `output`."""


@dataclass(frozen=True)
class ClusterIdentity:
    """The facts that identify a cluster, and its entry in the kubeconfig."""

    facts: Mapping[str, str]
    """The UIDs of namespaces by name, as far as the user may read them, and the sha256 of the CA by `CA`."""
    context: str
    """The name of the kubeconfig's context."""
    server: str
    """The URL of the API server."""

    @property
    def namespace(self) -> str | None:
        """A namespace that identifies the cluster; None for a tenant who may not read one."""
        return min((key for key in self.facts if key != CA), default=None)


def namespace_identity(namespace: Mapping[str, Any]) -> str:
    """Return the namespace's UID, or the identity of a local cluster, which replaces it."""
    return str((namespace.get("annotations") or {}).get(LOCAL_CLUSTER) or namespace["uid"])


def facts_resource_name(profile: str) -> str:
    """Return the resource's Pulumi name. It depends on the profile, since the facts that a user may read do."""
    return f"cluster-of-{profile}"


def unexpected_cluster_refusal(
    live: ClusterIdentity, stack: str, expected: str | None, setting_place: Place | None
) -> str:
    """Return a refusal if `cluster.identity` is another cluster, or an empty string.

    `expected`: the value of `cluster.identity`; None if it is not set. `setting_place`: its place in the settings.
    """
    if expected is None or expected in live.facts.values():
        return ""
    prefix = f"{setting_place}: " if setting_place else ""
    readable_facts = (
        ", ".join(_format_fact(key, value) for key, value in sorted(live.facts.items()))
        or "its identity is not readable"
    )
    return (
        f"{prefix}cluster.identity: stack {stack!r} is for cluster {expected}, and {_format_context(live)} leads to "
        f"another one ({readable_facts}). Nothing was changed; {_REMEDY}, or correct the entry"
    )


def other_cluster_refusal(stored_facts: Mapping[str, str], live: ClusterIdentity, stack: str) -> str:
    """Return a refusal if the stack was created on another cluster, or an empty string.

    `stored_facts`: the facts in the engine's state. A namespace's UID never changes, so namespaces in both decide. A CA
    may be renewed, so it decides only if the facts have no namespace in common.
    """
    namespaces = sorted(key for key in stored_facts.keys() & live.facts.keys() if key != CA)
    compared_keys = namespaces or sorted({CA} & stored_facts.keys() & live.facts.keys())
    for key in compared_keys:
        old, new = stored_facts[key], live.facts[key]
        if old != new:
            return (
                f"stack {stack!r} was created on another cluster ({_format_fact(key, old)}) than the one that "
                f"{_format_context(live)} leads to ({_format_fact(key, new)}). Nothing was changed; {_REMEDY}. If the "
                "stack's own cluster no longer exists, move the stack to this one: set `trainstack:cluster: "
                f"{{identity: {new}}}` in Pulumi.{stack}.yaml, and run `trainstack up -s {stack}` (or `pulumi up "
                "--refresh`)"
            )
    return ""


def provider_cluster_refusal(live: ClusterIdentity, provider_fact: str) -> str:
    """Return a refusal if the provider uses another cluster than the program, or an empty string.

    `provider_fact`: the fact of `live.namespace` that the provider has read.
    """
    name = live.namespace
    if name is None or live.facts[name] == provider_fact:
        return ""
    return (
        f"the Kubernetes provider reached another cluster ({_format_fact(name, provider_fact)}) than the one that was "
        f"checked ({_format_fact(name, live.facts[name])}, {_format_context(live)}): the kubeconfig changed in "
        "between. Nothing was changed; run the command again with the kubeconfig and the context of the stack's own "
        "cluster"
    )


def _format_fact(key: str, value: str) -> str:
    return f"sha256 of its CA: {value}" if key == CA else f"UID of namespace {key}: {value}"


def _format_context(cluster: ClusterIdentity) -> str:
    return f"the kubeconfig's context {cluster.context!r} ({cluster.server})"


_REMEDY = "use the kubeconfig or the context of the stack's own cluster (KUBECONFIG, `trainstack:cluster: context`)"
