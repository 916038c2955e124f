"""The few calls of the Kubernetes API that the start of a cluster needs. Standard library only."""

import http.client
import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trainstack.local_cluster.errors import LocalClusterError

Manifest = dict[str, Any]
FIELD_MANAGER = "trainstack-local-cluster"
PLURALS = {"EndpointSlice": "endpointslices"}
"""Plurals of kinds that are not the lower-case name and an s."""
CLUSTER_SCOPED = frozenset({"Namespace", "Node", "ClusterRole", "ClusterRoleBinding"})


class ApiError(LocalClusterError):
    """A failed request. `status` is the HTTP code, or 0 if the API server could not be reached."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def object_path(manifest: Manifest) -> str:
    """Return the API server's path of an object."""
    version, kind, metadata = manifest["apiVersion"], manifest["kind"], manifest["metadata"]
    group = f"/apis/{version}" if "/" in version else f"/api/{version}"
    plural = PLURALS.get(kind, kind.lower() + "s")
    if kind in CLUSTER_SCOPED:
        return f"{group}/{plural}/{metadata['name']}"
    return f"{group}/namespaces/{metadata['namespace']}/{plural}/{metadata['name']}"


@dataclass(frozen=True)
class ApiClient:
    """A client of an API server, with the administrator's certificate."""

    server: str
    certs: Path
    """Folder of the administrator's certificates."""
    timeout_seconds: float = 5.0

    def request(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        """Return the decoded response, or its text if it is not JSON. Raises ApiError."""
        address = urlsplit(self.server)
        try:
            tls = ssl.create_default_context(cafile=str(self.certs / "ca.crt"))
            tls.load_cert_chain(self.certs / "admin.crt", self.certs / "admin.key")
            connection = http.client.HTTPSConnection(
                address.hostname or "", address.port, timeout=self.timeout_seconds, context=tls
            )
            try:
                data = None if body is None else json.dumps(body)
                connection.request(method, path, data, {"Content-Type": content_type, "Accept": "application/json"})
                response = connection.getresponse()
                text = response.read().decode(errors="replace")
            finally:
                connection.close()
        except (OSError, http.client.HTTPException) as error:
            raise ApiError(0, f"The API server {self.server} cannot be reached: {error}") from error
        try:
            decoded = json.loads(text)
        except ValueError:
            decoded = text
        if response.status >= 300:
            reason = decoded.get("message", text) if isinstance(decoded, dict) else text
            raise ApiError(response.status, f"{method} {path} failed with HTTP {response.status}: {reason}")
        return decoded

    def apply(self, manifest: Manifest) -> None:
        """Apply an object server-side, and take over the fields of other managers."""
        path = f"{object_path(manifest)}?fieldManager={FIELD_MANAGER}&force=true"
        self.request("PATCH", path, manifest, "application/apply-patch+yaml")

    def merge(self, path: str, patch: Manifest) -> None:
        """Send a JSON merge patch."""
        self.request("PATCH", path, patch, "application/merge-patch+json")

    def find(self, path: str) -> Any:
        """Return an object, or None if it does not exist."""
        try:
            return self.request("GET", path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise
