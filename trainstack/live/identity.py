"""Reads of the facts that identify a cluster."""

import hashlib

from trainstack.guards.cluster_identity import CA, Cluster, fact_of
from trainstack.live import paths
from trainstack.live.client import Api, connect, get_all, run
from trainstack.live.snapshot import exists, run_namespaces
from trainstack.settings.model import Settings

SYSTEM = "kube-system"
"""A namespace that every cluster has, and that nobody deletes."""


def read_cluster(settings: Settings) -> Cluster:
    """Return the facts that identify the cluster: for an owner kube-system, for a tenant its namespaces and the CA.

    Facts that a tenant may not read are left out. Raises ClusterError if an owner may not read them, or if the cluster
    cannot be reached.
    """
    return run(_read(settings))


async def _read(settings: Settings) -> Cluster:
    api = await connect(settings.cluster.context)
    tenant = settings.environment.profile == "tenant"
    names = [name for name in run_namespaces(settings) if name] if tenant else [SYSTEM]
    by_path = {paths.collection("v1", "Namespace", None) + f"/{name}": name for name in names}
    facts = {}
    for path, answer in (await get_all(api, by_path, metadata_only=True)).items():
        if answer.found or (not tenant and exists(path, answer)):
            facts[by_path[path]] = fact_of(answer.body["metadata"])
    if tenant and (digest := _ca(api)):
        facts[CA] = digest
    return Cluster(facts, api.access.name, api.access.cluster.server)


def _ca(api: Api) -> str:
    """Return the sha256 of the kubeconfig's CA, or an empty string if it has none."""
    authority = api.access.authority().encode("latin-1").strip()
    return hashlib.sha256(authority).hexdigest() if authority else ""
