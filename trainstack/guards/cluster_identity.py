"""Is this the cluster that the stack was made on? Asked before anything is written.

Pure: from what a stack remembers of its cluster, and what is known of the one before us, to a refusal.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainstack.objects.labels import LOCAL_CLUSTER
from trainstack.settings.errors import Place

CA = "CA"
"""The fact that is no namespace: sha256 of the certificate authority in the kubeconfig. No namespace has capitals."""

MEMORY = "pulumi:index:Stash"
"""The type of the resource by which the engine's state remembers the cluster; its `output` are the facts."""


@dataclass(frozen=True)
class Cluster:
    """What tells one cluster from another, and how we came to it."""

    facts: Mapping[str, str]
    """UIDs by the name of their namespace, and the sha256 of the CA under `CA`: as far as they may be read."""
    context: str
    """The kubeconfig's context."""
    server: str
    """Its URL."""

    @property
    def namespace(self) -> str | None:
        """A namespace by which the cluster can be recognised; None for a tenant who may read none."""
        return min((key for key in self.facts if key != CA), default=None)


def fact_of(namespace: Mapping[str, Any]) -> str:
    """The identity of a cluster in a namespace's metadata: its UID, or the local cluster's substitute for it."""
    return str((namespace.get("annotations") or {}).get(LOCAL_CLUSTER) or namespace["uid"])


def memory_name(profile: str) -> str:
    """What that resource is called: an owner and a tenant tell clusters apart by different facts."""
    return f"cluster-of-{profile}"


def unexpected(here: Cluster, stack: str, expected: str | None, where: Place | None) -> str:
    """Say that the environment names another cluster (`cluster.identity`); empty where it names this one, or none.

    Args:
        here: the cluster before us.
        stack: this stack.
        expected: what the environment says.
        where: the place that says it.

    """
    if expected is None or expected in here.facts.values():
        return ""
    place = f"{where}: " if where else ""
    known = ", ".join(_fact(key, value) for key, value in sorted(here.facts.items())) or "nothing that may be read"
    return (
        f"{place}cluster.identity: stack {stack!r} is for cluster {expected}, and {_way(here)} leads to another one "
        f"({known}). Nothing is changed; {_back()}, or correct the entry"
    )


def another(remembered: Mapping[str, str], here: Cluster, stack: str) -> str:
    """Say that the stack was made on another cluster than this one; empty where nothing shows that.

    A namespace's UID belongs to one cluster for ever, so one in common decides; a CA may be renewed, and decides only
    where no UID can be compared.
    """
    namespaces = sorted(key for key in remembered.keys() & here.facts.keys() if key != CA)
    compared = namespaces or sorted({CA} & remembered.keys() & here.facts.keys())
    for key in compared:
        old, new = remembered[key], here.facts[key]
        if old != new:
            return (
                f"stack {stack!r} was made on another cluster ({_fact(key, old)}) than the one that {_way(here)} leads "
                f"to ({_fact(key, new)}). Nothing is changed; {_back()}. If the stack's own cluster is gone for good "
                f"and it is to go on here, say so in Pulumi.{stack}.yaml, `trainstack:cluster: {{identity: {new}}}`, "
                f"and run `trainstack up -s {stack}` (or `pulumi up --refresh`)"
            )
    return ""


def elsewhere(here: Cluster, found: str) -> str:
    """The error if the provider works on another cluster than the one that was read; empty if it is the same.

    Args:
        here: the cluster that was read.
        found: the fact of `here.namespace` as the provider reads it.

    """
    name = here.namespace
    if name is None or here.facts[name] == found:
        return ""
    return (
        f"the Kubernetes provider reached another cluster ({_fact(name, found)}) than the one that was checked "
        f"({_fact(name, here.facts[name])}, {_way(here)}): the kubeconfig changed in between. Nothing was changed; "
        "run the command again with the kubeconfig and the context of the stack's own cluster"
    )


def _fact(key: str, value: str) -> str:
    return f"sha256 of its CA: {value}" if key == CA else f"UID of namespace {key}: {value}"


def _way(here: Cluster) -> str:
    return f"the kubeconfig's context {here.context!r} ({here.server})"


def _back() -> str:
    return "take the kubeconfig or the context of the stack's own cluster (KUBECONFIG, `trainstack:cluster: context`)"
