"""Reads of the facts that identify a cluster."""

import hashlib

from trainstack.guards.cluster_identity import CA, ClusterIdentity, namespace_identity
from trainstack.live import paths
from trainstack.live.client import Api, connect, get_all, run
from trainstack.live.snapshot import exists, run_namespaces
from trainstack.settings.model import Settings

SYSTEM_NAMESPACE = "kube-system"
"""A namespace that every cluster has, and that nobody deletes."""


def read_cluster_identity(settings: Settings) -> ClusterIdentity:
    """Return the facts that identify the cluster: for an owner kube-system, for a tenant its namespaces and the CA.

    Facts that a tenant may not read are left out. Raises ClusterError if an owner may not read them, or if the cluster
    cannot be reached.
    """
    return run(_read(settings))


async def _read(settings: Settings) -> ClusterIdentity:
    api = await connect(settings.cluster.context)
    is_tenant = settings.environment.profile == "tenant"
    names = [name for name in run_namespaces(settings) if name] if is_tenant else [SYSTEM_NAMESPACE]
    name_by_path = {paths.collection_path("v1", "Namespace", None) + f"/{name}": name for name in names}
    facts = {}
    for path, answer in (await get_all(api, name_by_path, metadata_only=True)).items():
        if answer.is_success or (not is_tenant and exists(path, answer)):
            facts[name_by_path[path]] = namespace_identity(answer.body["metadata"])
    if is_tenant and (digest := _ca_digest(api)):
        facts[CA] = digest
    return ClusterIdentity(facts, api.access.name, api.access.cluster.server)


def _ca_digest(api: Api) -> str:
    """Return the sha256 of the kubeconfig's CA, or an empty string if it has none."""
    authority = api.access.read_authority().encode("latin-1").strip()
    return hashlib.sha256(authority).hexdigest() if authority else ""
