"""Requests to a registry: the host, the credentials, and the error without an answer."""

import base64
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import httpx
import pytest

from trainstack.live import registry
from trainstack.live.registry import Registries, ServedImage
from trainstack.live.registry_credentials import IDENTITY_TOKEN, RegistryCredentials
from trainstack.live.registry_errors import ImageMissingError, NoAddressError, RegistryError

DIGEST = f"sha256:{'1' * 64}"
BASIC = "Basic " + base64.b64encode(b"ann:secret").decode()
Handler = Callable[[httpx.Request], httpx.Response]


@dataclass(frozen=True)
class Logins(RegistryCredentials):
    """Logins by the registry's host."""

    logins: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def login(self, registry: str, repository: str) -> tuple[str, str] | None:
        """Return the login of the registry."""
        return self.logins.get(registry)


def make_registries(answer: Handler, mirror: str | None = None) -> Registries:
    """Return registries with this answer, and Ann's credentials for one of them."""
    credentials = Logins(logins={"registry.example.org": ("ann", "secret")})
    return Registries(credentials, mirror, httpx.MockTransport(answer))


def serve_all(_: httpx.Request) -> httpx.Response:
    """Answer as a registry that has every image."""
    return httpx.Response(200, headers={"Docker-Content-Digest": DIGEST})


@pytest.mark.parametrize(
    ("reference", "mirror", "url"),
    [
        ("busybox", None, "https://registry-1.docker.io/v2/library/busybox/manifests/latest"),
        ("alpine/git:2", None, "https://registry-1.docker.io/v2/alpine/git/manifests/2"),
        ("r.example.org:5000/a/b:1", None, "https://r.example.org:5000/v2/a/b/manifests/1"),
        ("registry.k8s.io/kueue/kueue:v1", "http://10.0.0.1:5000", "http://10.0.0.1:5000/v2/kueue/kueue/manifests/v1"),
    ],
)
def test_the_request_is_sent_to_the_registry_of_the_image(reference: str, mirror: str | None, url: str) -> None:
    """The request is sent to the registry of the image over https, or to the mirror of all registries."""
    requests: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return serve_all(request)

    assert make_registries(answer, mirror).digest(reference) == DIGEST
    assert [(request.method, str(request.url)) for request in requests] == [("HEAD", url)]
    assert "image.index" in requests[0].headers["Accept"]


def test_the_manifest_is_read_from_a_registry_that_sends_no_digest() -> None:
    """The sha256 of the manifest is the digest."""

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=b"{}" if request.method == "GET" else b"")

    assert make_registries(answer).digest("busybox:1") == f"sha256:{sha256(b'{}').hexdigest()}"


def test_a_token_is_fetched_where_the_registry_requires_one() -> None:
    """The registry names the token server, which gets this registry's credentials; only the registry gets the token."""
    requests: list[tuple[str, str | None]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        header = request.headers.get("Authorization")
        requests.append((str(request.url), header))
        if request.url.host == "auth.example.org":
            return httpx.Response(200, json={"token": "T"})
        if header == "Bearer T":
            return serve_all(request)
        challenge = 'Bearer realm="https://auth.example.org/token",service="r",scope="repository:a:pull"'
        return httpx.Response(401, headers={"WWW-Authenticate": challenge})

    image = "https://registry.example.org/v2/a/manifests/1"
    token = "https://auth.example.org/token?service=r&scope=repository%3Aa%3Apull"
    assert make_registries(answer).digest("registry.example.org/a:1") == DIGEST
    assert requests == [(image, None), (token, BASIC), (image, "Bearer T")]


def test_user_and_password_are_sent_to_a_registry_that_requires_them() -> None:
    """They are sent after a request for them, and to no other registry."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.headers.get("Authorization") == BASIC:
            return serve_all(request)
        return httpx.Response(401, headers={"WWW-Authenticate": 'Basic realm="r"'})

    registries = make_registries(answer)
    assert registries.digest("registry.example.org/a:1") == DIGEST
    with pytest.raises(RegistryError, match=r"other\.example\.org denies access to anonymous users"):
        registries.digest("other.example.org/a:1")


def test_no_password_is_sent_without_encryption() -> None:
    """A redirect to a plain address gets no credentials."""
    requests: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request.url.scheme)
        return httpx.Response(401, headers={"WWW-Authenticate": 'Bearer realm="http://auth.example.org/token"'})

    with pytest.raises(RegistryError, match="denies access to ann"):
        make_registries(answer).digest("registry.example.org/a:1")
    assert requests == ["https"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (httpx.Response(404), "a:1: docker.io has no such image; push it, or correct the name"),
        (httpx.Response(500), "a:1: docker.io returned status 500; try again later"),
        (
            httpx.Response(200, headers={"Docker-Content-Digest": "md5:1"}),
            "returned 'md5:1', which is not a sha256 digest",
        ),
    ],
)
def test_an_error_has_the_cause_and_the_remedy(answer: httpx.Response, words: str) -> None:
    """The error has the image, the registry and the cause."""
    with pytest.raises(RegistryError) as caught:
        make_registries(lambda _: answer).digest("a:1")
    assert words in str(caught.value)


def test_a_registry_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has no traceback; it follows two more attempts."""
    monkeypatch.setattr(registry, "_RETRY_DELAYS_SECONDS", (0.0, 0.0))
    requests: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        raise httpx.ConnectError("no route")

    with pytest.raises(RegistryError, match=r"r\.example\.org does not respond \(no route\)"):
        make_registries(answer).digest("r.example.org/a:1")
    assert len(requests) == 3


def test_a_failed_connection_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry may have been restarted."""
    monkeypatch.setattr(registry, "_RETRY_DELAYS_SECONDS", (0.0, 0.0))
    failures: list[httpx.HTTPError] = [httpx.ConnectError("refused"), httpx.ConnectTimeout("timed out")]

    def answer(request: httpx.Request) -> httpx.Response:
        if failures:
            raise failures.pop()
        return serve_all(request)

    assert make_registries(answer).digest("r.example.org/a:1") == DIGEST


class Server(BaseHTTPRequestHandler):
    """A proxy that refuses all tunnels, and a registry that has every image."""

    lines: list[str]

    def do_CONNECT(self) -> None:
        """Refuse a tunnel."""
        self.lines.append(self.requestline)
        self.send_error(403)

    def do_HEAD(self) -> None:
        """Answer as a registry."""
        self.send_response(200)
        self.send_header("Docker-Content-Digest", DIGEST)
        self.end_headers()

    def log_message(self, *words: object) -> None:
        """Print nothing."""


@contextmanager
def running_server() -> Iterator[tuple[str, list[str]]]:
    """Yield the address of a server, and the request lines that it receives as a proxy."""
    lines: list[str] = []
    with HTTPServer(("127.0.0.1", 0), type("RunningServer", (Server,), {"lines": lines})) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"127.0.0.1:{server.server_port}", lines
        server.shutdown()


def set_proxies(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    """Set these variables, and no other variable of a proxy."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name, value in values.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def unused_address() -> str:
    """Return an address at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "ALL_PROXY"])
def test_registries_are_reached_through_the_proxy(
    monkeypatch: pytest.MonkeyPatch, unused_address: str, variable: str
) -> None:
    """A registry in NO_PROXY is reached without it."""
    monkeypatch.setattr(registry, "_RETRY_DELAYS_SECONDS", ())
    with running_server() as (proxy, lines):
        set_proxies(monkeypatch, **{variable: f"http://{proxy}"})
        with pytest.raises(RegistryError, match=r"does not respond \(403 Forbidden\).*NO_PROXY"):
            Registries(RegistryCredentials()).digest(f"{unused_address}/a:1")
        assert lines == [f"CONNECT {unused_address} HTTP/1.1"]
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        with pytest.raises(RegistryError, match="refused"):
            Registries(RegistryCredentials()).digest(f"{unused_address}/a:1")
        assert len(lines) == 1


def test_the_mirror_is_reached_without_a_proxy(monkeypatch: pytest.MonkeyPatch, unused_address: str) -> None:
    """A proxy does not reach the local cluster's registry."""
    set_proxies(monkeypatch, HTTP_PROXY=f"http://{unused_address}", ALL_PROXY=f"http://{unused_address}")
    with running_server() as (mirror, _):
        assert Registries(RegistryCredentials(), mirror=f"http://{mirror}").digest("r.example.org/a:1") == DIGEST


def test_a_proxy_that_cannot_be_used_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the variables."""
    set_proxies(monkeypatch, ALL_PROXY="ftp://proxy.example.org")
    with pytest.raises(
        RegistryError, match=r"r\.example\.org/a:1: the proxy .* cannot be used .*; correct HTTPS_PROXY"
    ):
        Registries(RegistryCredentials()).digest("r.example.org/a:1")


def test_a_proxy_without_an_address_is_not_taken_for_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the registry's name would be reported as wrong."""

    def fail(*_: object, **__: object) -> None:
        raise httpx.ConnectError("unknown") from socket.gaierror(socket.EAI_NONAME, "unknown")

    monkeypatch.setattr(registry, "_send", fail)
    set_proxies(monkeypatch, HTTPS_PROXY="http://proxy.invalid")
    with pytest.raises(RegistryError, match="does not respond") as error:
        Registries(RegistryCredentials()).digest("r.example.org/a:1")
    assert not isinstance(error.value, NoAddressError)


def test_certificates_of_docker_hub_are_in_the_folder_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is `docker.io`, although another host serves the images."""
    names: list[str] = []

    def create_context(name: str) -> ssl.SSLContext:
        names.append(name)
        return ssl.create_default_context()

    def answer(*_: object) -> httpx.Response:
        return serve_all(httpx.Request("HEAD", "https://registry-1.docker.io"))

    monkeypatch.setattr(registry, "create_tls_context", create_context)
    monkeypatch.setattr(httpx.Client, "request", lambda *_, **__: answer())
    assert Registries(RegistryCredentials()).digest("busybox:1") == DIGEST
    assert names == ["docker.io"]


@pytest.mark.parametrize("challenge", ['Bearer realm=,service="x"', "Basic realm=", "Bearer realm", "Basic", "="])
def test_an_incomplete_challenge_is_a_refusal(challenge: str) -> None:
    """The error has the image, the host and the remedy."""
    with pytest.raises(RegistryError, match=r"r\.example\.org/a:1: r\.example\.org denies access .*; log in with"):
        make_registries(lambda _: httpx.Response(401, headers={"WWW-Authenticate": challenge})).digest(
            "r.example.org/a:1"
        )


def test_a_password_is_sent_after_a_challenge_without_a_realm() -> None:
    """The realm does not matter for a password."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.headers.get("Authorization") == BASIC:
            return serve_all(request)
        return httpx.Response(401, headers={"WWW-Authenticate": "Basic realm="})

    assert make_registries(answer).digest("registry.example.org/a:1") == DIGEST


def test_the_query_of_a_realm_is_kept() -> None:
    """The parameters of the challenge follow it."""
    requests: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(str(request.url))
        if request.url.host == "auth.example.org":
            return httpx.Response(200, json={"token": "T"})
        if "Authorization" in request.headers:
            return serve_all(request)
        challenge = 'Bearer realm="https://auth.example.org/token?account=a&service=own",service="r",scope="s"'
        return httpx.Response(401, headers={"WWW-Authenticate": challenge})

    make_registries(answer).digest("r.example.org/a:1")
    assert requests[1] == "https://auth.example.org/token?account=a&service=own&service=r&scope=s"


def manifest(name: str) -> str:
    """Return the address of a manifest or a blob."""
    return f"https://r.example.org/v2/a/{name}"


PART = {"digest": f"sha256:{'c' * 64}", "size": 7}
ONE = {"config": PART, "layers": [{"size": 100}, {"size": 23}]}
CONFIG = {"os": "linux", "architecture": "arm64", "variant": "v8", "created": "2026-02-03T04:05:06.123456789Z"}
ATTESTED = {"digest": "sha256:b", "platform": {"os": "unknown", "architecture": "unknown"}}
AMD, ARM = ({"digest": f"sha256:{name}", "platform": {"os": "linux", "architecture": name}} for name in ("amd", "arm"))


@pytest.mark.parametrize(
    ("served", "expected"),
    [
        ({"manifests/1": ONE}, (123, ("linux/arm64/v8",), "2026-02-03T04:05:06.123456+00:00")),
        (
            {"manifests/1": {"manifests": [AMD, ATTESTED]}, "manifests/sha256:amd": ONE},
            (123, ("linux/arm64/v8",), "2026-02-03T04:05:06.123456+00:00"),
        ),
        ({"manifests/1": {"manifests": [ARM, AMD]}}, (None, ("linux/amd", "linux/arm"), "None")),
        (
            {"manifests/1": {"manifests": [ARM, AMD, {**AMD, "platform": None}]}},
            (None, ("linux/amd", "linux/arm"), "None"),
        ),
    ],
)
def test_an_image_is_described(served: dict[str, object], expected: tuple[int | None, tuple[str, ...], str]) -> None:
    """The description has the compressed size, the platforms and the build time; an index has only the platforms."""
    bodies = {manifest(name): body for name, body in {**served, f"blobs/{PART['digest']}": CONFIG}.items()}

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=bodies[str(request.url)], headers={"Docker-Content-Digest": DIGEST})

    image = make_registries(answer).describe("r.example.org/a:1")
    assert image == ServedImage(DIGEST, expected[0], expected[1], image.created)
    assert (image.created.isoformat() if image.created else "None") == expected[2]


@pytest.mark.parametrize(
    ("config", "expected"),
    [({"User": "1000:1000"}, "1000:1000"), ({"User": ""}, ""), ({}, ""), (None, ""), ({"User": 7}, ""), ("x", "")],
)
@pytest.mark.parametrize(
    "served",
    [
        {"manifests/1": ONE},
        {"manifests/1": {"manifests": [ATTESTED, ARM, AMD]}, "manifests/sha256:arm": ONE},
    ],
)
def test_the_user_of_an_image_is_read(served: dict[str, object], config: object, expected: str) -> None:
    """Of several platforms, that of the first one with Linux. An unreadable user counts as none."""
    blob = {f"blobs/{PART['digest']}": {**CONFIG, "config": config}}
    bodies = {manifest(name): body for name, body in {**served, **blob}.items()}
    registries = make_registries(lambda request: httpx.Response(200, json=bodies[str(request.url)]))
    assert registries.user("r.example.org/a:1") == expected


@pytest.mark.parametrize(
    ("created", "expected"),
    [
        ("yesterday", "None"),
        (None, "None"),
        (7, "None"),
        ("2026-02-03T04:05:06", "2026-02-03 04:05:06+00:00"),
    ],
)
def test_a_time_that_cannot_be_read_is_none(created: object, expected: str) -> None:
    """A time without a zone is UTC."""
    bodies = {manifest("manifests/1"): ONE, manifest(f"blobs/{PART['digest']}"): {**CONFIG, "created": created}}
    registries = make_registries(lambda request: httpx.Response(200, json=bodies[str(request.url)]))
    assert str(registries.describe("r.example.org/a:1").created) == expected


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"schemaVersion": 1, "fsLayers": []}, "its schemaVersion is 1"),
        ({"manifests": None}, "manifests: Input should be a valid list"),
        ({"manifests": [None]}, "manifests.0: "),
        ({"manifests": [{"platform": AMD["platform"]}]}, "manifests.0.digest: Field required"),
        ({"config": PART}, "layers: Field required"),
        ({"layers": []}, "config: Field required"),
        ({"config": None, "layers": None}, "config: "),
        ({"config": PART, "layers": [{"size": "x"}]}, "layers.0.size: "),
    ],
)
def test_a_manifest_of_another_form_is_reported(body: object, reason: str) -> None:
    """The error has the image, the host, the cause and the remedy."""
    with pytest.raises(RegistryError) as caught:
        make_registries(lambda _: httpx.Response(200, json=body)).describe("r.example.org/a:1")
    assert f"r.example.org/a:1: r.example.org returned no image of a known format ({reason}" in str(caught.value)
    assert "; push the image again" in str(caught.value)


def test_an_image_by_digest_is_requested_by_it() -> None:
    """Its tag does not matter."""
    requests: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(str(request.url))
        return serve_all(request)

    assert make_registries(answer).digest(f"r.example.org/a:1@{DIGEST}") == DIGEST
    assert requests == [manifest(f"manifests/{DIGEST}")]


def test_a_missing_image_is_not_taken_for_a_silent_registry() -> None:
    """A missing image can be pushed; a registry without an answer may have it."""
    with pytest.raises(ImageMissingError):
        make_registries(lambda _: httpx.Response(404)).digest("r.example.org/a:1")
    with pytest.raises(RegistryError) as caught:
        make_registries(lambda _: httpx.Response(401)).digest("r.example.org/a:1")
    assert not isinstance(caught.value, ImageMissingError)


def test_an_identity_token_is_exchanged_for_a_token_of_the_request() -> None:
    """Azure's registry issues such a login; its token service accepts no password."""
    requests: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        if request.url.path == "/oauth2/token":
            return httpx.Response(200, json={"access_token": "t"})
        if request.headers.get("Authorization") == "Bearer t":
            return serve_all(request)
        challenge = (
            'Bearer realm="https://r.example.org/oauth2/token",service="r.example.org",scope="repository:a:pull"'
        )
        return httpx.Response(401, headers={"WWW-Authenticate": challenge})

    credentials = Logins(logins={"r.example.org": (IDENTITY_TOKEN, "refresh")})
    assert Registries(credentials, transport=httpx.MockTransport(answer)).digest("r.example.org/a:1") == DIGEST
    token_request = requests[1]
    assert token_request.method == "POST"
    assert "Authorization" not in token_request.headers
    assert dict(httpx.QueryParams(token_request.content.decode())) == {
        "client_id": "trainstack",
        "grant_type": "refresh_token",
        "refresh_token": "refresh",
        "scope": "repository:a:pull",
        "service": "r.example.org",
    }
