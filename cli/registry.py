"""What a tag names in its registry now: one question of the OCI distribution API, and who may ask it.

Source: https://github.com/opencontainers/distribution-spec/blob/main/spec.md and, for the token that registries want
first, https://distribution.github.io/distribution/spec/auth/token/
"""

import base64
import hashlib
import json
import os
import re
import ssl
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any
from urllib.request import parse_http_list, parse_keqv_list

import httpx

from devcluster.images.registry import DEFAULT_HOST, host, target

Credentials = Mapping[str, tuple[str, str]]
"""User and password by the registry's host."""

_API_OF_DEFAULT_HOST = "registry-1.docker.io"
_KEYS_OF_DEFAULT_HOST = ("index.docker.io", _API_OF_DEFAULT_HOST)
"""What Docker calls its registry in the file of credentials."""
_ACCEPTED = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
"""The list of an image for each kind of machine comes first: its digest serves nodes of every kind."""
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_TIMEOUT_SECONDS = 30.0


class RegistryError(Exception):
    """An image that no digest is known of. Says which, why, and what to do about it."""


class Registries:
    """The registries that serve a cluster."""

    def __init__(
        self,
        credentials: Credentials,
        mirror: str | None = None,
        transport: httpx.BaseTransport | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Ask each image's own registry over https; or `mirror`, an address with scheme, for all of them.

        `tls` holds what else a server demands than a certificate that this machine trusts: the mirror's own authority,
        a certificate of the client.
        """
        self.mirror = mirror
        self.credentials = credentials
        self.client = httpx.Client(
            transport=transport or httpx.HTTPTransport(retries=2, verify=tls or True),
            timeout=_TIMEOUT_SECONDS,
            follow_redirects=True,
            headers={"Accept": ", ".join(_ACCEPTED)},
        )

    def digest(self, reference: str) -> str:
        """The digest, `sha256:…`, of what the reference's tag names now. Raises RegistryError."""
        place, registry = target(reference), host(reference)
        api = _API_OF_DEFAULT_HOST if registry == DEFAULT_HOST else registry
        url = f"{self.mirror or f'https://{api}'}/v2/{place.repository}/manifests/{place.tag}"
        # A mirror is not whom the credentials were given for.
        auth = _Challenged(None if self.mirror else self.credentials.get(registry))
        try:
            answer = self.client.head(url, auth=auth)
            found = answer.headers.get("Docker-Content-Digest", "")
            if answer.status_code == httpx.codes.OK and not found:
                answer = self.client.get(url, auth=auth)
                found = f"sha256:{hashlib.sha256(answer.content).hexdigest()}"
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise RegistryError(
                f"{reference}: {self.mirror or registry} does not answer ({error}); is it the right registry?"
            ) from None
        self._raise_for(answer.status_code, reference, self.mirror or registry)
        if not _DIGEST.fullmatch(found):
            raise RegistryError(f"{reference}: {registry} calls it {found!r}, which is no sha256 digest; ask its owner")
        return str(found)

    def _raise_for(self, status: int, reference: str, registry: str) -> None:
        if status == httpx.codes.NOT_FOUND:
            raise RegistryError(f"{reference}: {registry} has no such image; push it, or correct the name")
        if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            raise RegistryError(
                f"{reference}: {registry} does not let you read it, if it has it; give user and password as auths of "
                f"{config_file()}, as `docker login {registry}` writes them where no credential helper keeps them"
            )
        if status != httpx.codes.OK:
            raise RegistryError(f"{reference}: {registry} answers {status}; try again later")


class _Challenged(httpx.Auth):
    """Answers a registry's challenge: with a token that it names the giver of, or with user and password."""

    def __init__(self, credentials: tuple[str, str] | None) -> None:
        self.basic = None if credentials is None else _basic(*credentials)

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        answer = yield request
        if answer.status_code != httpx.codes.UNAUTHORIZED:
            return
        challenges = dict(_challenge(each) for each in answer.headers.get_list("WWW-Authenticate"))
        bearer = challenges.get("bearer", {})
        # Nobody but who is asked over https, or without it from the start, is told a password.
        if "realm" in bearer and httpx.URL(bearer["realm"]).scheme in ("https", request.url.scheme):
            wanted = httpx.QueryParams({key: bearer[key] for key in ("service", "scope") if key in bearer})
            headers = {"Authorization": self.basic} if self.basic else {}
            given = yield httpx.Request("GET", bearer["realm"], params=wanted, headers=headers)
            token = _token(given)
            if token is not None:
                request.headers["Authorization"] = f"Bearer {token}"
                yield request
        elif "basic" in challenges and self.basic:
            request.headers["Authorization"] = self.basic
            yield request

    # The token is in the body of the answer.
    requires_response_body = True


def read_credentials() -> Credentials:
    """What `docker login` has written, where no credential helper keeps it. Raises RegistryError."""
    file = config_file()
    try:
        auths: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")).get("auths", {})
        return dict(_entry(key, entry) for key, entry in auths.items() if "auth" in entry or "username" in entry)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise RegistryError(f"{file}: cannot be read ({error}); mend it, or log in again") from None


def config_file() -> Path:
    """Docker's file of credentials."""
    return Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "config.json"


def _entry(key: str, entry: Mapping[str, str]) -> tuple[str, tuple[str, str]]:
    name = key.removeprefix("https://").removeprefix("http://").partition("/")[0]
    if "auth" in entry:
        user, _, password = base64.b64decode(entry["auth"], validate=True).decode().partition(":")
    else:
        user, password = entry["username"], entry["password"]
    return DEFAULT_HOST if name in _KEYS_OF_DEFAULT_HOST else name, (user, password)


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _challenge(header: str) -> tuple[str, dict[str, str]]:
    scheme, _, parameters = header.partition(" ")
    return scheme.lower(), parse_keqv_list([each for each in parse_http_list(parameters) if "=" in each])


def _token(answer: httpx.Response) -> str | None:
    """The token of an answer; None where it gives none: the registry's refusal then stands."""
    if answer.status_code != httpx.codes.OK:
        return None
    try:
        body = answer.json()
        return str(body.get("token") or body["access_token"])
    except (ValueError, KeyError, AttributeError):
        return None
