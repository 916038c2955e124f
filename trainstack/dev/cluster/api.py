"""The few calls of the Kubernetes API that starting a cluster needs, with the standard library alone."""

import http.client
import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trainstack.dev.cluster.errors import ClusterError

Manifest = dict[str, Any]
FIELD_MANAGER = "trainstack-devcluster"
PLURALS = {"EndpointSlice": "endpointslices"}
"""Plural of each kind whose name does not simply take an s."""
CLUSTER_SCOPED = frozenset({"Namespace", "Node", "ClusterRole", "ClusterRoleBinding"})


class ApiError(ClusterError):
    """The API server refused; `status` is its HTTP code, 0 if it could not be reached."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def path_of(manifest: Manifest) -> str:
    """URL path of an object."""
    version, kind, metadata = manifest["apiVersion"], manifest["kind"], manifest["metadata"]
    group = f"/apis/{version}" if "/" in version else f"/api/{version}"
    plural = PLURALS.get(kind, kind.lower() + "s")
    if kind in CLUSTER_SCOPED:
        return f"{group}/{plural}/{metadata['name']}"
    return f"{group}/namespaces/{metadata['namespace']}/{plural}/{metadata['name']}"


@dataclass(frozen=True)
class Api:
    """An API server and the administrator's certificate for it."""

    server: str
    certs: Path
    timeout_seconds: float = 5.0

    def request(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        """The decoded answer; text where the answer is no JSON."""
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
                answer = connection.getresponse()
                text = answer.read().decode(errors="replace")
            finally:
                connection.close()
        except (OSError, http.client.HTTPException) as error:
            raise ApiError(0, f"The API server {self.server} cannot be reached: {error}") from error
        try:
            decoded = json.loads(text)
        except ValueError:
            decoded = text
        if answer.status >= 300:
            reason = decoded.get("message", text) if isinstance(decoded, dict) else text
            raise ApiError(answer.status, f"{method} {path} was refused with HTTP {answer.status}: {reason}")
        return decoded

    def apply(self, manifest: Manifest) -> None:
        """Server-side apply."""
        path = f"{path_of(manifest)}?fieldManager={FIELD_MANAGER}&force=true"
        self.request("PATCH", path, manifest, "application/apply-patch+yaml")

    def merge(self, path: str, patch: Manifest) -> None:
        """JSON merge patch."""
        self.request("PATCH", path, patch, "application/merge-patch+json")

    def find(self, path: str) -> Any:
        """GET; None if there is no such object."""
        try:
            return self.request("GET", path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def ready(self) -> bool:
        """Whether the API server answers and is ready."""
        try:
            return bool(self.request("GET", "/readyz") == "ok")
        except ApiError:
            return False
