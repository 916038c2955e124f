"""Requests to a registry: the host, the credentials, and the error without an answer."""

import base64
from collections.abc import Callable
from hashlib import sha256

import httpx
import pytest

from trainstack.live.registry import Registries, ServedImage
from trainstack.live.registry_credentials import IDENTITY_TOKEN, RegistryCredentials
from trainstack.live.registry_errors import ImageMissingError, RegistryError

DIGEST = f"sha256:{'1' * 64}"
BASIC = "Basic " + base64.b64encode(b"ann:secret").decode()
Handler = Callable[[httpx.Request], httpx.Response]


def make_registries(answer: Handler, mirror: str | None = None) -> Registries:
    """Return registries with this answer, and Ann's credentials for one of them."""
    return Registries(
        RegistryCredentials({"registry.example.org": ("ann", "secret")}), mirror, httpx.MockTransport(answer)
    )


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


def test_a_registry_that_is_not_there_is_named() -> None:
    """The error has no traceback."""

    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no route")

    with pytest.raises(RegistryError, match=r"r\.example\.org does not respond \(no route\)"):
        make_registries(answer).digest("r.example.org/a:1")


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

    credentials = RegistryCredentials({"r.example.org": (IDENTITY_TOKEN, "refresh")})
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
