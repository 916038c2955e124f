"""Credentials and certificates for registries, from the configuration of buildah, podman and docker.

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

from trainstack.errors import TrainstackError
from trainstack.runs.images.references import DEFAULT_HOST

Credentials = Mapping[str, tuple[str, str]]
"""User and password by the registry's host, or by host and prefix of the repository."""

API_OF_DEFAULT_HOST = "registry-1.docker.io"
_KEYS_OF_DEFAULT_HOST = ("index.docker.io", API_OF_DEFAULT_HOST)
"""The names of Docker Hub in credential files."""
_VERSIONS = ("/v1", "/v2")
"""Suffixes of the keys that old versions of Docker wrote."""


class RegistryError(TrainstackError):
    """An image cannot be read from its registry. The message gives the image, the reason and the remedy."""


def read_credentials() -> Credentials:
    """Read the credentials that `buildah login`, `podman login` and `docker login` stored without a credential helper.

    The first file with an entry for a registry applies. Raises RegistryError.
    """
    found: dict[str, tuple[str, str]] = {}
    for file in credential_files():
        found = dict(_entries(file)) | found
    return found


def credential_files() -> list[Path]:
    """Return the credential files in the order of buildah and podman. Docker reads only the last one."""
    if file := os.environ.get("REGISTRY_AUTH_FILE"):
        return [Path(file)]
    runtime, home = os.environ.get("XDG_RUNTIME_DIR"), Path.home()
    return [
        Path(runtime, "containers") / "auth.json" if runtime else Path(f"/run/containers/{os.getuid()}/auth.json"),
        Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "containers" / "auth.json",
        Path(os.environ.get("DOCKER_CONFIG") or home / ".docker") / "config.json",
    ]


def credentials_for(credentials: Credentials, registry: str, repository: str) -> tuple[str, str] | None:
    """Return the most specific credentials: of the repository, of a prefix, or of the registry; None without any."""
    parts = [registry, *repository.split("/")]
    keys = ("/".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((credentials[key] for key in keys if key in credentials), None)


def trust(registry: str) -> ssl.SSLContext:
    """Return a TLS context with public authorities, this machine's, and those of the registry's `certs.d` folder.

    Raises RegistryError if a certificate cannot be read.
    """
    context = httpx.create_ssl_context()
    context.load_default_certs()
    folders = [folder / registry for folder in certificate_folders()]
    # Unlike os.path.isdir, Path.is_dir raises if a parent folder cannot be read.
    folder = next((folder for folder in folders if os.path.isdir(folder)), None)  # noqa: PTH112
    try:
        for file in sorted(folder.iterdir()) if folder else ():
            if file.suffix == ".crt":
                context.load_verify_locations(file)
            if file.suffix == ".cert":
                context.load_cert_chain(file, file.with_suffix(".key"))
    except (OSError, ssl.SSLError) as error:
        raise RegistryError(f"{folder}: cannot read a certificate ({error}); correct or delete it") from None
    return context


def certificate_folders() -> list[Path]:
    """Return the `certs.d` folders that buildah and podman read. Docker reads only the last one."""
    return [
        Path.home() / ".config" / "containers" / "certs.d",
        Path("/etc/containers/certs.d"),
        Path("/etc/docker/certs.d"),
    ]


def _entries(file: Path) -> Iterator[tuple[str, tuple[str, str]]]:
    try:
        auths: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")).get("auths", {})
        # Entries with a token instead of a password are for docker only.
        entries = [_entry(key, entry) for key, entry in auths.items() if "auth" in entry or "password" in entry]
    except FileNotFoundError:
        return
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise RegistryError(
            f"{file}: cannot read the credentials ({error}); correct the file, or log in again"
        ) from None
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
