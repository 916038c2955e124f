"""Credentials and certificates for registries, from the configuration of buildah, podman and docker.

Source: https://github.com/containers/image/blob/main/docs/containers-auth.json.5.md and
https://github.com/containers/image/blob/main/docs/containers-certs.d.5.md
"""

import base64
import json
import os
import re
import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from trainstack.live.credential_helper import read_login
from trainstack.live.registry_errors import CredentialsError, RegistryError
from trainstack.runs.images.references import DEFAULT_HOST

_SERVER_OF_DEFAULT_HOST = "https://index.docker.io/v1/"
"""The name under which docker and its default helper keep the login of Docker Hub."""
_HOSTS_OF_DEFAULT_HOST = (DEFAULT_HOST, "index.docker.io", "registry-1.docker.io")
_KEYS_OF_DEFAULT_HOST = (DEFAULT_HOST, _SERVER_OF_DEFAULT_HOST, *_HOSTS_OF_DEFAULT_HOST[1:])
"""The keys of Docker Hub in credential files, in the order of use."""
_SCHEMES = ("https://", "http://")
_HELPER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


IDENTITY_TOKEN = "<token>"  # noqa: S105 (a name that all helpers use, not a secret)
"""The user of an identity token, which a registry's token service exchanges for a token of each request."""


@dataclass(frozen=True)
class RegistryCredentials:
    """The logins that are stored in credential files, and those that the files' credential helpers keep."""

    files: Sequence[Path] = ()
    """In the order of use. The default: no registry has a login."""

    def login(self, registry: str, repository: str) -> tuple[str, str] | None:
        """Return user and password for a repository from the first file that has a login, or None.

        In a file, the registry's helper precedes the default helper, and this one the stored logins. Of these the most
        specific one applies: of the repository, of a prefix, or of the registry. Raises CredentialsError.
        """
        for file in self.files:
            try:
                login = _find_login(file, registry, repository)
            except (OSError, ValueError, RecursionError) as error:
                raise CredentialsError(
                    f"{file}: cannot read the credentials of {registry} ({error}); correct the file, or log in again"
                ) from None
            if login is not None:
                return login
        return None


def user_credentials() -> RegistryCredentials:
    """Return what `buildah login`, `podman login` and `docker login` have stored. Files are read at each request."""
    return RegistryCredentials(credential_files())


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


def _find_login(file: Path, registry: str, repository: str) -> tuple[str, str] | None:
    body = _read(file)
    for helper, server in _helpers(body, registry):
        if login := read_login(helper, server, registry, file):
            return login
    logins = (_parse_entry(entry) for entry in _stored_entries(body, registry, repository))
    return next((login for login in logins if login is not None), None)


def _read(file: Path) -> Mapping[str, Any]:
    """Return the content of a credential file; nothing if it is empty or does not exist."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    body = json.loads(text) if text.strip() else {}
    if not isinstance(body, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 (the caller reports both errors of JSON alike)
    return body


def _helpers(body: Mapping[str, Any], registry: str) -> Iterator[tuple[str, str]]:
    """Yield a file's helpers for a registry, each with the server that it is asked for, in the order of use."""
    names = _section(body, "credHelpers")
    for key in _keys_of(registry, names):
        # An empty name excludes the registry from the default helper.
        if names[key] in ("", None):
            return
        yield _helper_name(names[key]), key
    if body.get("credsStore") not in ("", None):
        yield _helper_name(body["credsStore"]), _SERVER_OF_DEFAULT_HOST if registry == DEFAULT_HOST else registry


def _stored_entries(body: Mapping[str, Any], registry: str, repository: str) -> Iterator[object]:
    """Yield a file's entries for a repository, the most specific one first."""
    entries = _section(body, "auths")
    parts = [registry, *repository.split("/")]
    repository_keys = ("/".join(parts[:count]) for count in range(len(parts), 1, -1))
    yield from (entries[key] for key in repository_keys if key in entries)
    yield from (entries[key] for key in _keys_of(registry, entries))


def _keys_of(registry: str, section: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys of a registry, before those in the form of URLs, which old versions of docker wrote."""
    is_default_host = registry == DEFAULT_HOST
    exact_keys = _KEYS_OF_DEFAULT_HOST if is_default_host else (registry,)
    hosts = _HOSTS_OF_DEFAULT_HOST if is_default_host else (registry,)
    yield from (key for key in exact_keys if key in section)
    yield from (key for key in section if key not in exact_keys and _host_of_url(key) in hosts)


def _host_of_url(key: str) -> str | None:
    scheme = next((scheme for scheme in _SCHEMES if key.startswith(scheme)), None)
    return key.removeprefix(scheme).partition("/")[0] if scheme else None


def _section(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = body.get(name)
    if section is not None and not isinstance(section, dict):
        raise ValueError(f"{name} is not a JSON object")
    return section or {}


def _helper_name(value: object) -> str:
    # A name with a slash would start a program outside of PATH.
    if not isinstance(value, str) or not _HELPER_NAME.fullmatch(value):
        raise ValueError(f"{value!r} is not the name of a credential helper")
    return value


def _parse_entry(entry: object) -> tuple[str, str] | None:
    """Return the login of an entry; None if it has none, such as one whose login a helper keeps."""
    if entry is None:
        return None
    if not isinstance(entry, dict):
        raise ValueError("the registry's entry is not a JSON object")  # noqa: TRY004 (as above)
    if token := _text(entry, "identitytoken"):
        return IDENTITY_TOKEN, token
    auth = _text(entry, "auth")
    user, password = _decode_auth(auth) if auth else (entry.get("username"), entry.get("password"))
    return (user, password) if isinstance(user, str) and isinstance(password, str) and user and password else None


def _text(entry: Mapping[str, Any], field: str) -> str:
    value = entry.get(field)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{field} is not a text")
    return value or ""


def _decode_auth(auth: str) -> tuple[str, str]:
    # The errors have none of the text, which holds a password.
    try:
        user, colon, password = base64.b64decode("".join(auth.split()), validate=True).decode().partition(":")
    except ValueError:
        colon = ""
    if not colon:
        raise ValueError("auth is not user:password in base64")
    # Docker once padded passwords with NULs.
    return user, password.rstrip("\0")
