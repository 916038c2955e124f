"""What a registry has under an image's name, asked by the OCI distribution API.

Source: https://github.com/opencontainers/distribution-spec/blob/main/spec.md and, for the token that registries want
first, https://distribution.github.io/distribution/spec/auth/token/
"""

import base64
import hashlib
import re
import ssl
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.request import parse_http_list, parse_keqv_list

import httpx

from trainstack.dev.cluster.images.registry import DEFAULT_HOST, host, target
from trainstack.live.registry_credentials import API_OF_DEFAULT_HOST, Credentials, RegistryError, credentials_for, trust

_INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_ACCEPTED = (*_INDEXES, *_MANIFESTS)
"""The list of an image for each kind of machine comes first: its digest serves nodes of every kind."""
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_TIMEOUT_SECONDS = 30.0


class ImageMissingError(RegistryError):
    """The registry answers, and does not have the image."""


@dataclass(frozen=True)
class ServedImage:
    """An image as its registry has it."""

    digest: str
    size_bytes: int | None
    """Of the compressed layers; None for an image of several platforms."""
    platforms: tuple[str, ...]
    """Such as `linux/amd64`."""
    created: datetime | None
    """None where the image does not have it, and for an image of several platforms."""


class Registries:
    """The registries that serve a cluster."""

    def __init__(
        self,
        credentials: Credentials,
        mirror: str | None = None,
        transport: httpx.BaseTransport | None = None,
        tls: ssl.SSLContext | None = None,
        timeout_seconds: float = _TIMEOUT_SECONDS,
    ) -> None:
        """Ask each image's own registry over https; or `mirror`, an address with scheme, for all of them.

        `tls` is what the mirror demands: its own authority, a certificate of the client. Other registries are trusted
        as the image tools trust them.
        """
        self.mirror = mirror
        self.credentials = credentials
        self.transport = transport
        self.tls = tls
        self.timeout_seconds = timeout_seconds
        self.clients: dict[str, httpx.Client] = {}

    def digest(self, reference: str) -> str:
        """The digest, `sha256:…`, of what the reference names now. Raises RegistryError."""
        answer = self._ask("HEAD", reference, "manifests")
        if "Docker-Content-Digest" not in answer.headers:
            answer = self._ask("GET", reference, "manifests")
        return _digest(reference, answer)

    def describe(self, reference: str) -> ServedImage:
        """What the registry has under the reference. Raises RegistryError."""
        answer = self._ask("GET", reference, "manifests")
        digest, body = _digest(reference, answer), _json(reference, answer)
        if "manifests" in body:
            # Attestations are listed too, for a platform that is none.
            entries = [one for one in body["manifests"] if one.get("platform", {}).get("os") not in (None, "unknown")]
            if len(entries) != 1:
                return ServedImage(digest, None, tuple(sorted(_platform(one["platform"]) for one in entries)), None)
            body = _json(reference, self._ask("GET", reference, "manifests", entries[0]["digest"]))
        config = _json(reference, self._ask("GET", reference, "blobs", body["config"]["digest"]))
        created = config.get("created")
        return ServedImage(
            digest,
            sum(layer["size"] for layer in body["layers"]),
            (_platform(config),) if "os" in config else (),
            # More digits than Python reads are cut.
            datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", created)) if created else None,
        )

    def _ask(self, method: str, reference: str, kind: str, digest: str | None = None) -> httpx.Response:
        """The answer about what the reference names, or about a part of that image by its digest."""
        name, _, own_digest = reference.partition("@")
        place, registry = target(name), host(name)
        api = API_OF_DEFAULT_HOST if registry == DEFAULT_HOST else registry
        url = f"{self.mirror or f'https://{api}'}/v2/{place.repository}/{kind}/{digest or own_digest or place.tag}"
        # A mirror is not whom the credentials were given for.
        given = None if self.mirror else credentials_for(self.credentials, registry, place.repository)
        try:
            answer = self._client(api).request(method, url, auth=_Challenged(given))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise RegistryError(
                f"{reference}: {self.mirror or registry} does not answer ({error}); is it the right registry?"
            ) from None
        _raise_for(answer.status_code, reference, self.mirror or registry, given[0] if given else "")
        return answer

    def _client(self, registry: str) -> httpx.Client:
        if registry not in self.clients:
            tls = self.tls or trust(registry)
            self.clients[registry] = httpx.Client(
                transport=self.transport or httpx.HTTPTransport(retries=2, verify=tls),
                timeout=self.timeout_seconds,
                follow_redirects=True,
                headers={"Accept": ", ".join(_ACCEPTED)},
            )
        return self.clients[registry]


def _digest(reference: str, answer: httpx.Response) -> str:
    found = str(answer.headers.get("Docker-Content-Digest") or f"sha256:{hashlib.sha256(answer.content).hexdigest()}")
    if not _DIGEST.fullmatch(found):
        raise RegistryError(
            f"{reference}: {answer.url.host} calls it {found!r}, which is no sha256 digest; ask its owner"
        )
    return found


def _json(reference: str, answer: httpx.Response) -> dict[str, Any]:
    try:
        return dict(answer.json())
    except (ValueError, TypeError):
        raise RegistryError(f"{reference}: {answer.url.host} answers what is no JSON; is it a registry?") from None


def _platform(body: Mapping[str, Any]) -> str:
    return "/".join(str(body[key]) for key in ("os", "architecture", "variant") if body.get(key))


def _raise_for(status: int, reference: str, registry: str, user: str) -> None:
    if status == httpx.codes.NOT_FOUND:
        raise ImageMissingError(f"{reference}: {registry} has no such image; push it, or correct the name")
    if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        raise RegistryError(
            f"{reference}: {registry} does not let {user or 'you'} read it, if it has it; log in with `buildah login`, "
            f"`podman login` or `docker login {registry}`, where no credential helper keeps the password"
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
