"""Reads of images from registries through the OCI distribution API.

Source: https://github.com/opencontainers/distribution-spec/blob/main/spec.md and, for tokens,
https://distribution.github.io/distribution/spec/auth/token/
"""

import hashlib
import re
import socket
import ssl
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.request import parse_http_list

import httpx
from pydantic import BaseModel, ConfigDict, ValidationError

from trainstack.live.proxies import proxy_of
from trainstack.live.registry_credentials import IDENTITY_TOKEN, RegistryCredentials, create_tls_context
from trainstack.live.registry_errors import AccessDeniedError, ImageMissingError, NoAddressError, RegistryError
from trainstack.runs.images.references import DEFAULT_HOST, mirror_reference, registry_host

_ACCEPTED = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
"""Accepted media types. Indexes are first, since the digest of an index applies to nodes of any platform."""
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_API_OF_DEFAULT_HOST = "registry-1.docker.io"
_RETRY_DELAYS_SECONDS = (0.0, 0.5)
"""The pauses before a failed connection is tried again."""


class _RegistryObject(BaseModel):
    """A JSON object that a registry sends. Unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, strict=True)


Model = TypeVar("Model", bound=_RegistryObject)


class _Platform(_RegistryObject):
    os: str | None = None
    architecture: str | None = None
    variant: str | None = None

    def __str__(self) -> str:
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)


class _IndexEntry(_RegistryObject):
    digest: str
    platform: _Platform | None = None


class _Index(_RegistryObject):
    manifests: list[_IndexEntry]


class _ConfigReference(_RegistryObject):
    digest: str


class _Layer(_RegistryObject):
    size: int


class _Manifest(_RegistryObject):
    config: _ConfigReference
    layers: list[_Layer]


class _Config(_Platform):
    created: Any = None
    config: Any = None

    @property
    def user(self) -> str:
        """The user of the image's containers; empty if the image sets none, which means root."""
        user = self.config.get("User") if isinstance(self.config, Mapping) else None
        return user if isinstance(user, str) else ""


@dataclass(frozen=True)
class ServedImage:
    """An image in a registry."""

    digest: str
    size_bytes: int | None
    """Of the compressed layers; None for a multi-platform image."""
    platforms: tuple[str, ...]
    """Such as `linux/amd64`."""
    created: datetime | None
    """None if the image does not specify it, and for a multi-platform image."""


@dataclass
class Registries:
    """A client of image registries, with one HTTP client for each."""

    credentials: RegistryCredentials
    mirror: str | None = None
    """The URL of a registry from which all images are read; None: each image is read from its own registry."""
    transport: httpx.BaseTransport | None = None
    """None: connections to registries use the proxies of the environment, and connections to the mirror use none."""
    tls: ssl.SSLContext | None = None
    """TLS settings of the mirror. None: those of the image tools."""
    timeout_seconds: float = 30.0
    clients: dict[str, httpx.Client] = field(default_factory=dict)

    def digest(self, reference: str) -> str:
        """Return the current digest, `sha256:…`, of a reference. Raises RegistryError."""
        response = self._request("HEAD", reference, "manifests")
        if "Docker-Content-Digest" not in response.headers:
            response = self._request("GET", reference, "manifests")
        return _parse_digest(reference, response)

    def describe(self, reference: str) -> ServedImage:
        """Return the image of a reference. Raises RegistryError."""
        response = self._request("GET", reference, "manifests")
        digest = _parse_digest(reference, response)
        body = _parse_json(reference, response)
        if "manifests" in body:
            index = _validate(_Index, body, reference, response)
            digests_by_platform = [
                (str(entry.platform), entry.digest)
                for entry in index.manifests
                # Attestations are listed with an unknown platform.
                if entry.platform and entry.platform.os not in (None, "unknown")
            ]
            if len(digests_by_platform) != 1:
                return ServedImage(digest, None, tuple(sorted(platform for platform, _ in digests_by_platform)), None)
            response = self._request("GET", reference, "manifests", digests_by_platform[0][1])
        manifest, config = self._read_config(reference, response)
        return ServedImage(
            digest,
            sum(layer.size for layer in manifest.layers),
            (str(config),) if config.os else (),
            _parse_time(config.created),
        )

    def user(self, reference: str) -> str:
        """Return the user of an image, for the first Linux platform; empty if it sets none. Raises RegistryError."""
        response = self._request("GET", reference, "manifests")
        body = _parse_json(reference, response)
        if "manifests" in body:
            index = _validate(_Index, body, reference, response)
            digests = [entry.digest for entry in index.manifests if entry.platform and entry.platform.os == "linux"]
            if not digests:
                raise RegistryError(f"{reference}: the image has no platform with Linux")
            response = self._request("GET", reference, "manifests", digests[0])
        _, config = self._read_config(reference, response)
        return config.user

    def _read_config(self, reference: str, response: httpx.Response) -> tuple[_Manifest, _Config]:
        """Return a manifest, which is not an index, and its image's configuration."""
        manifest = _validate(_Manifest, _parse_json(reference, response), reference, response)
        response = self._request("GET", reference, "blobs", manifest.config.digest)
        return manifest, _validate(_Config, _parse_json(reference, response), reference, response)

    def _request(self, method: str, reference: str, kind: str, digest: str | None = None) -> httpx.Response:
        """Request a manifest or blob of the reference's repository; without a digest, the reference's own manifest."""
        name, _, reference_digest = reference.partition("@")
        image_target, registry = mirror_reference(name), registry_host(name)
        api = _API_OF_DEFAULT_HOST if registry == DEFAULT_HOST else registry
        version = digest or reference_digest or image_target.tag
        url = f"{self.mirror or f'https://{api}'}/v2/{image_target.repository}/{kind}/{version}"
        # A mirror must not receive the credentials of another registry.
        login = None if self.mirror else self.credentials.login(registry, image_target.repository)
        uses_proxy = self.mirror is None and self.transport is None and proxy_of(f"https://{api}") != ""
        try:
            response = _send(self._client(reference, registry), method, url, login)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            # Behind a proxy, the host without an address is the proxy's.
            if _has_no_address(error) and not uses_proxy:
                raise NoAddressError(f"host {self.mirror or registry} has no address ({error})") from None
            proxy_hint = ", and HTTPS_PROXY, ALL_PROXY and NO_PROXY" if uses_proxy else ""
            raise RegistryError(
                f"{reference}: {self.mirror or registry} does not respond ({error}); check the name and the network"
                f"{proxy_hint}"
            ) from None
        _ensure_success(response.status_code, reference, self.mirror or registry, login[0] if login else "")
        return response

    def _client(self, reference: str, registry: str) -> httpx.Client:
        if registry not in self.clients:
            try:
                self.clients[registry] = httpx.Client(
                    transport=self.transport,
                    verify=True if self.transport else self.tls or create_tls_context(registry),
                    # Proxies do not reach the mirror, which is the local cluster's registry.
                    trust_env=self.mirror is None,
                    timeout=self.timeout_seconds,
                    follow_redirects=True,
                    headers={"Accept": ", ".join(_ACCEPTED)},
                )
            except (ImportError, ValueError, OSError, httpx.InvalidURL) as error:
                raise RegistryError(
                    f"{reference}: the proxy or the certificates for {registry} cannot be used ({error}); correct "
                    "HTTPS_PROXY, ALL_PROXY, NO_PROXY or SSL_CERT_FILE"
                ) from None
        return self.clients[registry]


def _send(client: httpx.Client, method: str, url: str, login: tuple[str, str] | None) -> httpx.Response:
    for delay_seconds in _RETRY_DELAYS_SECONDS:
        try:
            return client.request(method, url, auth=_ChallengeAuth(login))
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            if _has_no_address(error):
                raise
            time.sleep(delay_seconds)
    return client.request(method, url, auth=_ChallengeAuth(login))


def _parse_digest(reference: str, response: httpx.Response) -> str:
    header = response.headers.get("Docker-Content-Digest")
    digest = str(header or f"sha256:{hashlib.sha256(response.content).hexdigest()}")
    if not _DIGEST.fullmatch(digest):
        raise RegistryError(
            f"{reference}: {response.url.host} returned {digest!r}, which is not a sha256 digest; report it to the "
            "registry's administrator"
        )
    return digest


def _parse_json(reference: str, response: httpx.Response) -> dict[str, Any]:
    try:
        return dict(response.json())
    except (ValueError, TypeError, RecursionError):
        raise RegistryError(
            f"{reference}: {response.url.host} did not return JSON; check that it is a registry"
        ) from None


def _validate(model: type[Model], body: Mapping[str, Any], reference: str, response: httpx.Response) -> Model:
    try:
        return model.model_validate(body)
    except ValidationError as error:
        fault = error.errors()[0]
        field_path = ".".join(str(part) for part in fault["loc"])
        reason = "its schemaVersion is 1" if body.get("schemaVersion") == 1 else f"{field_path}: {fault['msg']}"
        raise RegistryError(
            f"{reference}: {response.url.host} returned no image of a known format ({reason}); push the image again "
            "with a current version of buildah, podman or docker"
        ) from None


def _parse_time(value: object) -> datetime | None:
    try:
        created = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return created.replace(tzinfo=UTC) if created and created.tzinfo is None else created


def _ensure_success(status: int, reference: str, registry: str, user: str) -> None:
    if status == httpx.codes.NOT_FOUND:
        raise ImageMissingError(f"{reference}: {registry} has no such image; push it, or correct the name")
    if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        raise AccessDeniedError(
            f"{reference}: {registry} denies access to {user or 'anonymous users'}, or has no such image; log in with "
            f"`buildah login`, `podman login` or `docker login {registry}`"
        )
    if status != httpx.codes.OK:
        raise RegistryError(f"{reference}: {registry} returned status {status}; try again later")


def _has_no_address(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, socket.gaierror):
        error = error.__cause__ or error.__context__
    # EAI_AGAIN: the name server is unavailable, so the host may have an address.
    return error is not None and error.errno != socket.EAI_AGAIN


class _ChallengeAuth(httpx.Auth):
    """Authentication by a registry's challenge: with a token from the service in it, or with user and password."""

    def __init__(self, credentials: tuple[str, str] | None) -> None:
        user, secret = credentials or ("", "")
        self.identity_token = secret if user == IDENTITY_TOKEN else None
        self.basic = httpx.BasicAuth(user, secret) if credentials and self.identity_token is None else None

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        response = yield request
        if response.status_code != httpx.codes.UNAUTHORIZED:
            return
        challenges = dict(_parse_challenge(header) for header in response.headers.get_list("WWW-Authenticate"))
        bearer = challenges.get("bearer", {})
        # The password is sent only over https, unless the registry itself uses http.
        if "realm" in bearer and httpx.URL(bearer["realm"]).scheme in ("https", request.url.scheme):
            token = _parse_token((yield self._token_request(bearer)))
            if token is not None:
                request.headers["Authorization"] = f"Bearer {token}"
                yield request
        elif "basic" in challenges and self.basic:
            yield from self.basic.auth_flow(request)

    def _token_request(self, bearer: Mapping[str, str]) -> httpx.Request:
        parameters = {key: bearer[key] for key in ("service", "scope") if key in bearer}
        if self.identity_token is not None:
            # Source: https://distribution.github.io/distribution/spec/auth/oauth/
            grant = {"grant_type": "refresh_token", "refresh_token": self.identity_token, "client_id": "trainstack"}
            return httpx.Request("POST", bearer["realm"], data=parameters | grant)
        url = httpx.URL(bearer["realm"])
        # httpx would replace the realm's own query with `params`.
        for key, value in parameters.items():
            url = url.copy_add_param(key, value)
        request = httpx.Request("GET", url)
        return next(self.basic.auth_flow(request)) if self.basic else request

    # httpx reads the body of a token response only with this attribute.
    requires_response_body = True


def _parse_challenge(header: str) -> tuple[str, dict[str, str]]:
    scheme, _, parameters = header.partition(" ")
    # Unlike this, urllib's parse_keqv_list raises an error for an empty value.
    pairs = (item.partition("=") for item in parse_http_list(parameters))
    return scheme.lower(), {key: value.strip().removeprefix('"').removesuffix('"') for key, _, value in pairs}


def _parse_token(response: httpx.Response) -> str | None:
    """Return the token, or None if the service refuses it."""
    if response.status_code != httpx.codes.OK:
        return None
    try:
        body = response.json()
        return str(body.get("token") or body["access_token"])
    except (ValueError, KeyError, AttributeError, RecursionError):
        return None
