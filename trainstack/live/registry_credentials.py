"""Credentials and certificates for registries, from the configuration of buildah, podman and docker.

Source: https://github.com/containers/image/blob/main/docs/containers-auth.json.5.md and
https://github.com/containers/image/blob/main/docs/containers-certs.d.5.md
"""

import base64
import json
import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from trainstack.live.credential_helper import read_login
from trainstack.live.registry_errors import RegistryError
from trainstack.runs.images.references import DEFAULT_HOST

API_OF_DEFAULT_HOST = "registry-1.docker.io"
_KEYS_OF_DEFAULT_HOST = ("index.docker.io", API_OF_DEFAULT_HOST)
"""The names of Docker Hub in credential files."""
_KEY_SUFFIXES = ("/v1", "/v2")
"""Suffixes of the keys that old versions of Docker wrote."""
_LOGIN_KEYS = frozenset({"auth", "password", "identitytoken"})
_HELPER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


IDENTITY_TOKEN = "<token>"  # noqa: S105 (a name that all helpers use, not a secret)
"""The user of an identity token, which a registry's token service exchanges for a token of each request."""


@dataclass(frozen=True)
class Helper:
    """A credential helper that a credential file names."""

    name: str
    """Of the program, without the prefix `docker-credential-`."""
    file: Path


@dataclass(frozen=True)
class RegistryCredentials:
    """The logins that are stored in files, and the credential helpers that have others."""

    stored: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """User and password by the registry's host, or by the host and a prefix of the repository."""
    helpers: Mapping[str, Helper] = field(default_factory=dict)
    """By the registry's host."""
    default_helper: Helper | None = None
    """For registries that have neither a helper of their own nor a stored login."""
    logins: dict[str, tuple[str, str] | None] = field(default_factory=dict, repr=False)
    """What helpers have printed, by the registry's host: each runs once in a command."""

    def login(self, registry: str, repository: str) -> tuple[str, str] | None:
        """Return user and password for a repository, or None. Raises RegistryError.

        The registry's credential helper precedes stored logins, and these the default helper. Of stored logins the
        most specific one applies: of the repository, of a prefix, or of the registry.
        """
        if registry in self.helpers:
            return self._login_of_helper(self.helpers[registry], registry)
        parts = [registry, *repository.split("/")]
        keys = ("/".join(parts[:count]) for count in range(len(parts), 0, -1))
        if key := next((key for key in keys if key in self.stored), None):
            return self.stored[key]
        return self._login_of_helper(self.default_helper, registry) if self.default_helper else None

    def _login_of_helper(self, helper: Helper, registry: str) -> tuple[str, str] | None:
        if registry not in self.logins:
            is_default_host = registry == DEFAULT_HOST
            self.logins[registry] = read_login(helper.name, registry, helper.file, is_default_host=is_default_host)
        return self.logins[registry]


def read_credentials() -> RegistryCredentials:
    """Read what `buildah login`, `podman login` and `docker login` have stored, and the names of credential helpers.

    The first file with an entry for a registry applies. Raises RegistryError.
    """
    stored: dict[str, tuple[str, str]] = {}
    helpers: dict[str, Helper] = {}
    default_helper = None
    for path in credential_files():
        file = _read(path)
        # A helper of a later file does not replace a login of an earlier one.
        helpers = {name: helper for name, helper in file.helpers.items() if name not in stored} | helpers
        stored = {**file.stored, **stored}
        default_helper = default_helper or file.default_helper
    return RegistryCredentials(stored, helpers, default_helper)


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


def create_tls_context(registry: str) -> ssl.SSLContext:
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


def _read(path: Path) -> RegistryCredentials:
    """Return the content of one credential file; nothing if it does not exist."""
    try:
        body: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        # Entries without a login are those whose login a helper keeps.
        stored = [
            _parse_entry(key, entry) for key, entry in body.get("auths", {}).items() if _LOGIN_KEYS & entry.keys()
        ]
        helpers = {_host(key): Helper(_helper_name(name), path) for key, name in body.get("credHelpers", {}).items()}
        default_name = body.get("credsStore")
        default_helper = Helper(_helper_name(default_name), path) if default_name else None
        return RegistryCredentials(dict(stored), helpers, default_helper)
    except FileNotFoundError:
        return RegistryCredentials()
    except (OSError, ValueError, AttributeError, TypeError, RecursionError) as error:
        raise RegistryError(
            f"{path}: cannot read the credentials ({error}); correct the file, or log in again"
        ) from None


def _helper_name(value: object) -> str:
    # A name with a slash would start a program outside of PATH.
    if not isinstance(value, str) or not _HELPER_NAME.fullmatch(value):
        raise ValueError(f"{value!r} is not the name of a credential helper")
    return value


def _host(key: str) -> str:
    name = key.removeprefix("https://").removeprefix("http://").rstrip("/")
    for version in _KEY_SUFFIXES:
        name = name.removesuffix(version)
    return DEFAULT_HOST if name in _KEYS_OF_DEFAULT_HOST else name


def _parse_entry(key: str, entry: Mapping[str, str]) -> tuple[str, tuple[str, str]]:
    if token := entry.get("identitytoken"):
        return _host(key), (IDENTITY_TOKEN, token)
    if "auth" in entry:
        user, _, password = base64.b64decode(entry["auth"], validate=True).decode().partition(":")
        return _host(key), (user, password)
    return _host(key), (entry.get("username", ""), entry["password"])
