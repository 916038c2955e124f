"""Refusals of a change on another cluster than the one that the stack was created on. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainstack.objects.labels import LOCAL_CLUSTER
from trainstack.settings.errors import Place

CA = "CA"
"""The key of the sha256 of the kubeconfig's certificate authority. No namespace has a name with capital letters."""

MEMORY = "pulumi:index:Stash"
"""The type of the resource that stores the cluster's facts in the engine's state, as its `output`."""


@dataclass(frozen=True)
class Cluster:
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


def fact_of(namespace: Mapping[str, Any]) -> str:
    """Return the namespace's UID, or the identity of a local cluster, which replaces it."""
    return str((namespace.get("annotations") or {}).get(LOCAL_CLUSTER) or namespace["uid"])


def memory_name(profile: str) -> str:
    """Return the resource's Pulumi name. It depends on the profile, since the facts that a user may read do."""
    return f"cluster-of-{profile}"


def unexpected(live: Cluster, stack: str, expected: str | None, where: Place | None) -> str:
    """Return a refusal if `cluster.identity` is another cluster, or an empty string.

    `expected`: the value of `cluster.identity`; None if it is not set. `setting_place`: its place in the settings.
    """
    if expected is None or expected in live.facts.values():
        return ""
    place = f"{where}: " if where else ""
    known = ", ".join(_fact(key, value) for key, value in sorted(live.facts.items())) or "its identity is not readable"
    return (
        f"{place}cluster.identity: stack {stack!r} is for cluster {expected}, and {_entry(live)} leads to another one "
        f"({known}). Nothing was changed; {_REMEDY}, or correct the entry"
    )


def another(remembered: Mapping[str, str], live: Cluster, stack: str) -> str:
    """Return a refusal if the stack was created on another cluster, or an empty string.

    `stored_facts`: the facts in the engine's state. A namespace's UID never changes, so namespaces in both decide. A CA
    may be renewed, so it decides only if the facts have no namespace in common.
    """
    namespaces = sorted(key for key in remembered.keys() & live.facts.keys() if key != CA)
    compared = namespaces or sorted({CA} & remembered.keys() & live.facts.keys())
    for key in compared:
        old, new = remembered[key], live.facts[key]
        if old != new:
            return (
                f"stack {stack!r} was created on another cluster ({_fact(key, old)}) than the one that {_entry(live)} "
                f"leads to ({_fact(key, new)}). Nothing was changed; {_REMEDY}. If the stack's own cluster no longer "
                f"exists, move the stack to this one: set `trainstack:cluster: {{identity: {new}}}` in "
                f"Pulumi.{stack}.yaml, and run `trainstack up -s {stack}` (or `pulumi up --refresh`)"
            )
    return ""


def elsewhere(live: Cluster, found: str) -> str:
    """Return a refusal if the provider uses another cluster than the program, or an empty string.

    `provider_fact`: the fact of `live.namespace` that the provider has read.
    """
    name = live.namespace
    if name is None or live.facts[name] == found:
        return ""
    return (
        f"the Kubernetes provider reached another cluster ({_fact(name, found)}) than the one that was checked "
        f"({_fact(name, live.facts[name])}, {_entry(live)}): the kubeconfig changed in between. Nothing was changed; "
        "run the command again with the kubeconfig and the context of the stack's own cluster"
    )


def _fact(key: str, value: str) -> str:
    return f"sha256 of its CA: {value}" if key == CA else f"UID of namespace {key}: {value}"


def _entry(cluster: Cluster) -> str:
    return f"the kubeconfig's context {cluster.context!r} ({cluster.server})"


_REMEDY = "use the kubeconfig or the context of the stack's own cluster (KUBECONFIG, `trainstack:cluster: context`)"
