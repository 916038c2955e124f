"""Push images of the layout to a registry: only what it lacks, and nothing where it has the image already.

Source: https://github.com/opencontainers/distribution-spec/blob/main/spec.md
"""

import http.client
import ssl
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from trainstack.dev.cluster.errors import ClusterError
from trainstack.dev.cluster.images import layout
from trainstack.dev.cluster.images.layout import Blob
from trainstack.dev.cluster.registry_access import RegistryAccess
from trainstack.runs.images.references import Target, target

TIMEOUT_SECONDS = 120.0
"""A registry that says nothing for so long hangs; it hashes 300 MB in a few seconds."""


@dataclass(frozen=True)
class Registry:
    """A local cluster's registry."""

    access: RegistryAccess

    @property
    def address(self) -> str:
        """`host:port`."""
        return self.access.address

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return self.access.tls()

    def digest(self, place: Target) -> str | None:
        """Digest of the manifest that the registry has there, or None."""
        answer = self._ask("HEAD", f"/v2/{place.repository}/manifests/{place.tag}", {"Accept": _ACCEPTED})
        return answer.header("Docker-Content-Digest") if answer.status == 200 else None

    def has(self, folder: Path, image: str, name: str) -> bool:
        """Whether the registry has exactly this image of the layout under that name."""
        return self.digest(target(name)) == layout.require(folder, image).manifest.digest

    def push(self, folder: Path, image: str, name: str) -> bool:
        """Push an image of the layout under a name; False where it was there. Safe to repeat."""
        stored, place = layout.require(folder, image), target(name)
        if self.has(folder, image, name):
            return False
        origin = target(image).repository
        for blob in stored.blobs:
            self._blob(folder, blob, place.repository, origin)
        self._ask(
            "PUT",
            f"/v2/{place.repository}/manifests/{place.tag}",
            {"Content-Type": stored.manifest.media_type},
            body=layout.path(folder, stored.manifest),
            expect=(201,),
        )
        return True

    def _blob(self, folder: Path, blob: Blob, repository: str, origin: str) -> None:
        if self._ask("HEAD", f"/v2/{repository}/blobs/{blob.digest}", {}).status == 200:
            return
        mount = urllib.parse.urlencode({"mount": blob.digest, "from": origin})
        begun = self._ask("POST", f"/v2/{repository}/blobs/uploads/?{mount}", {}, expect=(201, 202))
        if begun.status == 201:
            return
        location = urllib.parse.urlsplit(begun.header("Location"))
        query = "&".join(part for part in (location.query, urllib.parse.urlencode({"digest": blob.digest})) if part)
        headers = {"Content-Type": "application/octet-stream"}
        body = layout.path(folder, blob)
        self._ask("PUT", f"{location.path}?{query}", headers, body=body, expect=(201,))

    def _ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        *,
        body: Path | None = None,
        expect: tuple[int, ...] = (200, 404),
    ) -> "_Answer":
        connection = http.client.HTTPSConnection(self.address, timeout=TIMEOUT_SECONDS, context=self._tls)
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
            raise ClusterError(
                f"The registry at {self.address} does not answer ({error}); is the cluster up? "
                "See `trainstack cluster status`."
            ) from error
        finally:
            connection.close()
        if response.status not in expect:
            raise ClusterError(f"registry {self.address}: {method} {path} answered {response.status}: {text.strip()}")
        return _Answer(response.status, {key.lower(): value for key, value in response.getheaders()})


@dataclass(frozen=True)
class _Answer:
    status: int
    headers: Mapping[str, str]

    def header(self, name: str) -> str:
        return self.headers[name.lower()]


_ACCEPTED = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"
