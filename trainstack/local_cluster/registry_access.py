"""The access of this machine and the node to a cluster's image registry: its address and certificates.

The registry serves only clients with a certificate of its own authority, which issues two: the server's and the
client's. Only the account that owns the cluster can read their keys, so the TLS handshake refuses pods and other
accounts of the machine. Standard library only.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path

from trainstack.local_cluster.errors import LocalClusterError

AUTHORITY = "registry-ca"
"""Base name of the authority's certificate. Its key signs the two others, and is never written."""
SERVER = "registry"
CLIENT = "registry-client"


@dataclass(frozen=True)
class RegistryAccess:
    """The address of an image registry, and the credentials of its clients."""

    address: str
    """`host:port`; HTTPS."""
    certs: Path
    """Folder of the authority's certificate and the client's pair."""

    @property
    def authority(self) -> Path:
        return self.certs / f"{AUTHORITY}.crt"

    @property
    def client_pair(self) -> tuple[Path, Path]:
        """Certificate and key of the client."""
        return self.certs / f"{CLIENT}.crt", self.certs / f"{CLIENT}.key"

    def tls(self) -> ssl.SSLContext:
        """Return a client's TLS settings. Raises LocalClusterError if the credentials are unreadable or missing."""
        try:
            context = ssl.create_default_context(cafile=str(self.authority))
            context.load_cert_chain(*self.client_pair)
        except PermissionError as error:
            raise LocalClusterError(
                f"The registry at {self.address} is restricted to the cluster's owner, and this account may not read "
                f"{self.certs}; run the command as the owner."
            ) from error
        except FileNotFoundError as error:
            raise LocalClusterError(
                f"The registry at {self.address} has no credentials in {self.certs}: the cluster was started by an "
                "earlier version. Restart it: run `trainstack cluster down`, then `trainstack cluster up`."
            ) from error
        return context
