"""Reading which cluster this is."""

import base64
import hashlib
from pathlib import Path

import kr8s.asyncio

from trainstack.guards.cluster_identity import CA, Cluster, fact_of
from trainstack.live import paths
from trainstack.live.client import connect, get_all, run
from trainstack.live.snapshot import run_namespaces, there
from trainstack.settings.model import Settings

SYSTEM = "kube-system"
"""The namespace that every cluster has from its first to its last day."""


def read_cluster(settings: Settings) -> Cluster:
    """What tells this cluster from another: to an owner its namespace kube-system, to a tenant his own and the CA.

    What a tenant may not read is left out. Raises ClusterError where an owner may not read it, or nobody can.
    """
    return run(_read(settings))


async def _read(settings: Settings) -> Cluster:
    api = await connect(settings.cluster.context)
    tenant = settings.environment.profile == "tenant"
    names = [name for name in run_namespaces(settings) if name] if tenant else [SYSTEM]
    asked = {paths.collection("v1", "Namespace", None) + f"/{name}": name for name in names}
    answers = await get_all(api, asked, metadata_only=True)
    facts = {}
    for path, answer in answers.items():
        if answer.found or (not tenant and there(path, answer)):
            facts[asked[path]] = fact_of(answer.body["metadata"])
    if tenant and (digest := _ca(api)):
        facts[CA] = digest
    return Cluster(facts, api.auth.active_context, api.auth.server)


def _ca(api: kr8s.asyncio.Api) -> str:
    """The sha256 of the CA in the kubeconfig; empty where none is in it."""
    auth = api.auth
    entry = auth.kubeconfig.get_cluster(auth.kubeconfig.get_context(auth.active_context)["cluster"])
    if "certificate-authority-data" in entry:
        return hashlib.sha256(base64.b64decode(entry["certificate-authority-data"]).strip()).hexdigest()
    if "certificate-authority" in entry:
        return hashlib.sha256(Path(str(auth.server_ca_file)).read_bytes().strip()).hexdigest()
    return ""
