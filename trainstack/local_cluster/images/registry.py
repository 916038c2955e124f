"""The client that pushes images of the layout to a registry, without the blobs that it has.

Source: https://github.com/opencontainers/distribution-spec/blob/main/spec.md
"""

import http.client
import ssl
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.images import oci_layout
from trainstack.local_cluster.images.oci_layout import Blob
from trainstack.local_cluster.registry_access import RegistryAccess
from trainstack.runs.images.references import MirrorReference, mirror_reference

TIMEOUT_SECONDS = 120.0
"""Timeout of a request. A registry hashes 300 MB in a few seconds."""
_MANIFEST_TYPES = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"


@dataclass(frozen=True)
class Registry:
    """A client of an image registry. Its methods raise LocalClusterError."""

    access: RegistryAccess

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return self.access.tls()

    def digest(self, destination: MirrorReference) -> str | None:
        """Return the digest of a manifest in the registry; None if it does not exist."""
        response = self._request(
            "HEAD", f"/v2/{destination.repository}/manifests/{destination.tag}", {"Accept": _MANIFEST_TYPES}
        )
        return response.headers["Docker-Content-Digest"] if response.status == 200 else None

    def has_image(self, folder: Path, image: str, name: str) -> bool:
        """Return whether the registry has exactly this image of the layout under a name."""
        return self.digest(mirror_reference(name)) == oci_layout.require_image(folder, image).manifest.digest

    def push(self, folder: Path, image: str, name: str) -> bool:
        """Push an image of the layout under a name; return False if the registry had it. Safe to repeat."""
        stored, destination = oci_layout.require_image(folder, image), mirror_reference(name)
        if self.has_image(folder, image, name):
            return False
        source_repository = mirror_reference(image).repository
        for blob in stored.blobs:
            self._push_blob(folder, blob, destination.repository, source_repository)
        self._request(
            "PUT",
            f"/v2/{destination.repository}/manifests/{destination.tag}",
            {"Content-Type": stored.manifest.media_type},
            body=oci_layout.blob_path(folder, stored.manifest),
            expected_statuses=(201,),
        )
        return True

    def _push_blob(self, folder: Path, blob: Blob, repository: str, source_repository: str) -> None:
        if self._request("HEAD", f"/v2/{repository}/blobs/{blob.digest}", {}).status == 200:
            return
        # The registry links a blob that it has in another repository instead of receiving it again.
        mount = urllib.parse.urlencode({"mount": blob.digest, "from": source_repository})
        upload = self._request("POST", f"/v2/{repository}/blobs/uploads/?{mount}", {}, expected_statuses=(201, 202))
        if upload.status == 201:
            return
        location = urllib.parse.urlsplit(upload.headers["Location"])
        query = "&".join(part for part in (location.query, urllib.parse.urlencode({"digest": blob.digest})) if part)
        headers = {"Content-Type": "application/octet-stream"}
        self._request(
            "PUT",
            f"{location.path}?{query}",
            headers,
            body=oci_layout.blob_path(folder, blob),
            expected_statuses=(201,),
        )

    def _request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        *,
        body: Path | None = None,
        expected_statuses: tuple[int, ...] = (200, 404),
    ) -> http.client.HTTPResponse:
        connection = http.client.HTTPSConnection(self.access.address, timeout=TIMEOUT_SECONDS, context=self._tls)
        try:
            if body is None:
                connection.request(method, path, headers=dict(headers))
            else:
                with body.open("rb") as file:
                    length = {"Content-Length": str(body.stat().st_size)}
                    connection.request(method, path, body=file, headers={**headers, **length})
            response = connection.getresponse()
            text = response.read().decode(errors="replace")
        except OSError as error:
            raise LocalClusterError(
                f"The registry at {self.access.address} does not respond ({error}); check with `trainstack cluster "
                "status` that the cluster is running."
            ) from error
        finally:
            connection.close()
        if response.status not in expected_statuses:
            raise LocalClusterError(
                f"registry {self.access.address}: {method} {path} returned {response.status}: {text.strip()}"
            )
        return response
