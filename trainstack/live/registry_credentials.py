"""What this account may ask a registry with: the credentials and certificates that the image tools have.

Source: https://github.com/containers/image/blob/main/docs/containers-auth.json.5.md and
https://github.com/containers/image/blob/main/docs/containers-certs.d.5.md
"""

import base64
import json
import os
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from trainstack.dev.cluster.images.registry import DEFAULT_HOST

Credentials = Mapping[str, tuple[str, str]]
"""User and password by the registry's host, or by host and the beginning of a repository."""

API_OF_DEFAULT_HOST = "registry-1.docker.io"
_KEYS_OF_DEFAULT_HOST = ("index.docker.io", API_OF_DEFAULT_HOST)
"""What Docker calls its registry in the file of credentials."""
_VERSIONS = ("/v1", "/v2")
"""What old keys of Docker end with."""


class RegistryError(Exception):
    """An image that a registry does not give. The message has the image, the reason and the remedy."""


def read_credentials() -> Credentials:
    """What `buildah login`, `podman login` and `docker login` have written, where no credential helper keeps it.

    The first file with an entry for a registry counts. Raises RegistryError.
    """
    found: dict[str, tuple[str, str]] = {}
    for file in credential_files():
        found = dict(_entries(file)) | found
    return found


def credential_files() -> list[Path]:
    """The files with credentials in the order in which buildah and podman read them; docker reads the last alone."""
    if given := os.environ.get("REGISTRY_AUTH_FILE"):
        return [Path(given)]
    runtime, home = os.environ.get("XDG_RUNTIME_DIR"), Path.home()
    return [
        Path(runtime, "containers") / "auth.json" if runtime else Path(f"/run/containers/{os.getuid()}/auth.json"),
        Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "containers" / "auth.json",
        Path(os.environ.get("DOCKER_CONFIG") or home / ".docker") / "config.json",
    ]


def credentials_for(credentials: Credentials, registry: str, repository: str) -> tuple[str, str] | None:
    """The most specific ones: of the repository, of what it begins with, or of the whole registry."""
    parts = [registry, *repository.split("/")]
    keys = ("/".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((credentials[key] for key in keys if key in credentials), None)


def trust(registry: str) -> ssl.SSLContext:
    """TLS settings of a client of the registry: public authorities, this machine's, and those of its `certs.d` folder.

    Raises RegistryError where a certificate cannot be read.
    """
    context = httpx.create_ssl_context()
    context.load_default_certs()
    folders = [folder / registry for folder in certificate_folders()]
    # Not Path.is_dir, which raises where a folder above it may not be read.
    folder = next((folder for folder in folders if os.path.isdir(folder)), None)  # noqa: PTH112
    try:
        for file in sorted(folder.iterdir()) if folder else ():
            if file.suffix == ".crt":
                context.load_verify_locations(file)
            if file.suffix == ".cert":
                context.load_cert_chain(file, file.with_suffix(".key"))
    except (OSError, ssl.SSLError) as error:
        raise RegistryError(f"{folder}: a certificate cannot be read ({error}); correct or remove it") from None
    return context


def certificate_folders() -> list[Path]:
    """Where buildah and podman look for a registry's certificates, by its host; docker in the last alone."""
    return [
        Path.home() / ".config" / "containers" / "certs.d",
        Path("/etc/containers/certs.d"),
        Path("/etc/docker/certs.d"),
    ]


def _entries(file: Path) -> Iterator[tuple[str, tuple[str, str]]]:
    try:
        auths: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")).get("auths", {})
        # An entry with a token in place of a password is docker's own affair.
        entries = [_entry(key, entry) for key, entry in auths.items() if "auth" in entry or "password" in entry]
    except FileNotFoundError:
        return
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise RegistryError(f"{file}: cannot be read ({error}); correct it, or log in again") from None
    yield from entries


def _entry(key: str, entry: Mapping[str, str]) -> tuple[str, tuple[str, str]]:
    name = key.removeprefix("https://").removeprefix("http://").rstrip("/")
    for version in _VERSIONS:
        name = name.removesuffix(version)
    if "auth" in entry:
        user, _, password = base64.b64decode(entry["auth"], validate=True).decode().partition(":")
    else:
        user, password = entry.get("username", ""), entry["password"]
    return DEFAULT_HOST if name in _KEYS_OF_DEFAULT_HOST else name, (user, password)
