"""The local cluster's registry, which serves that cluster every image."""

from trainstack.cli.session import Session
from trainstack.dev.cluster import cluster
from trainstack.dev.cluster.registry_access import RegistryAccess
from trainstack.live.registry import Registries


def local_registry(session: Session) -> RegistryAccess | None:
    """The registry of the local cluster that the kubeconfig names; None where it names another, or that one is down."""
    running = cluster.status(session.kubeconfig.parent).cluster
    return running.registry if running is not None and running.kubeconfig == session.kubeconfig else None


def asking(access: RegistryAccess) -> Registries:
    """A client that asks this registry for every image. Raises ClusterError where its certificates cannot be read."""
    return Registries({}, mirror=f"https://{access.address}", tls=access.tls())
