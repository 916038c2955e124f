"""The registry of the local cluster, which serves all its images."""

from trainstack.cli.session import Session
from trainstack.live.registry import Registries
from trainstack.live.registry_credentials import RegistryCredentials
from trainstack.local_cluster import drivers
from trainstack.local_cluster.registry_access import RegistryAccess


def local_registry(session: Session) -> RegistryAccess | None:
    """Return the registry if the kubeconfig refers to the local cluster and it is running."""
    cluster = drivers.status(session.kubeconfig.parent).cluster
    return cluster.registry if cluster is not None and cluster.kubeconfig == session.kubeconfig else None


def registry_client(access: RegistryAccess) -> Registries:
    """Return a client that reads every image from this registry. Raises ClusterError if a certificate is unreadable."""
    return Registries(RegistryCredentials(), mirror=f"https://{access.address}", tls=access.tls())
