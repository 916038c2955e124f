"""Push one image of one layer to a registry by its HTTP API, without any image tool."""

import hashlib
import json
import ssl
import urllib.request
from collections.abc import Mapping

from trainstack.local_cluster.image_archive import Symlink, layer
from trainstack.local_cluster.registry_access import RegistryAccess

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"


def _call(tls: ssl.SSLContext, method: str, url: str, data: bytes, content_type: str) -> str:
    request = urllib.request.Request(url, data, {"Content-Type": content_type}, method=method)
    with urllib.request.urlopen(request, timeout=10, context=tls) as answer:
        return str(answer.headers.get("Location", ""))


def _blob(tls: ssl.SSLContext, base: str, content: bytes, media_type: str) -> dict[str, str | int]:
    digest = "sha256:" + hashlib.sha256(content).hexdigest()
    place = _call(tls, "POST", f"{base}/blobs/uploads/", b"", "application/octet-stream")
    joint = "&" if "?" in place else "?"
    _call(tls, "PUT", f"{place}{joint}digest={digest}", content, "application/octet-stream")
    return {"mediaType": media_type, "digest": digest, "size": len(content)}


def push(registry: RegistryAccess, repository: str, tag: str, files: Mapping[str, bytes | Symlink]) -> None:
    """Push an image made of some files."""
    base, tls = f"https://{registry.address}/v2/{repository}", registry.tls()
    content = layer(files)
    diff = "sha256:" + hashlib.sha256(content).hexdigest()
    config = {"architecture": "amd64", "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": [diff]}}
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _blob(tls, base, json.dumps(config).encode(), CONFIG),
        "layers": [_blob(tls, base, content, LAYER)],
    }
    _call(tls, "PUT", f"{base}/manifests/{tag}", json.dumps(manifest).encode(), MANIFEST)
