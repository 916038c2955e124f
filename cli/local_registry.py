"""The local cluster's registry, which serves that cluster every image."""

from cli.session import Session
from devcluster import cluster
from devcluster.registry_access import RegistryAccess


def local_registry(session: Session) -> RegistryAccess | None:
    """The registry of the local cluster that the kubeconfig names; None where it names another, or that one is down."""
    running = cluster.status(session.kubeconfig.parent).cluster
    return running.registry if running is not None and running.kubeconfig == session.kubeconfig else None
