"""Asking a registry: whom, with which credentials, and what is said when there is no answer."""

import base64
import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import httpx
import pytest

from cli.registry import Registries
from cli.registry_access import RegistryError, read_credentials

DIGEST = f"sha256:{'1' * 64}"
BASIC = "Basic " + base64.b64encode(b"ann:secret").decode()
Handler = Callable[[httpx.Request], httpx.Response]


def make_registries(answer: Handler, mirror: str | None = None) -> Registries:
    """Registries that answer so, and Ann's credentials for one of them."""
    return Registries({"registry.example.org": ("ann", "secret")}, mirror, httpx.MockTransport(answer))


def found(_: httpx.Request) -> httpx.Response:
    """A registry that has every image."""
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
def test_the_registry_that_serves_the_image_is_asked(reference: str, mirror: str | None, url: str) -> None:
    """Its own, over https; a mirror for all."""
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return found(request)

    assert make_registries(answer, mirror).digest(reference) == DIGEST
    assert [(each.method, str(each.url)) for each in asked] == [("HEAD", url)]
    assert "image.index" in asked[0].headers["Accept"]


def test_a_registry_that_does_not_tell_the_digest_is_asked_for_the_manifest() -> None:
    """Its sha256 is the digest."""

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=b"{}" if request.method == "GET" else b"")

    assert make_registries(answer).digest("busybox:1") == f"sha256:{sha256(b'{}').hexdigest()}"


def test_a_token_is_fetched_where_the_registry_wants_one() -> None:
    """From whom the registry names, with the credentials for this registry, and only the token goes back to it."""
    seen: list[tuple[str, str | None]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        given = request.headers.get("Authorization")
        seen.append((str(request.url), given))
        if request.url.host == "auth.example.org":
            return httpx.Response(200, json={"token": "T"})
        if given == "Bearer T":
            return found(request)
        wanted = 'Bearer realm="https://auth.example.org/token",service="r",scope="repository:a:pull"'
        return httpx.Response(401, headers={"WWW-Authenticate": wanted})

    image = "https://registry.example.org/v2/a/manifests/1"
    token = "https://auth.example.org/token?service=r&scope=repository%3Aa%3Apull"
    assert make_registries(answer).digest("registry.example.org/a:1") == DIGEST
    assert seen == [(image, None), (token, BASIC), (image, "Bearer T")]


def test_user_and_password_go_to_a_registry_that_asks_for_them() -> None:
    """Not before, and to no other registry."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.headers.get("Authorization") == BASIC:
            return found(request)
        return httpx.Response(401, headers={"WWW-Authenticate": 'Basic realm="r"'})

    registries = make_registries(answer)
    assert registries.digest("registry.example.org/a:1") == DIGEST
    with pytest.raises(RegistryError, match=r"other\.example\.org does not let you read it"):
        registries.digest("other.example.org/a:1")


def test_no_password_is_told_without_encryption() -> None:
    """A registry that sends us to a plain address gets nothing."""
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.scheme)
        return httpx.Response(401, headers={"WWW-Authenticate": 'Bearer realm="http://auth.example.org/token"'})

    with pytest.raises(RegistryError, match="does not let ann read it"):
        make_registries(answer).digest("registry.example.org/a:1")
    assert asked == ["https"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (httpx.Response(404), "a:1: docker.io has no such image; push it, or correct the name"),
        (httpx.Response(500), "a:1: docker.io answers 500; try again later"),
        (httpx.Response(200, headers={"Docker-Content-Digest": "md5:1"}), "calls it 'md5:1', which is no sha256"),
    ],
)
def test_what_is_wrong_is_said_with_the_remedy(answer: httpx.Response, words: str) -> None:
    """The image, the registry, the cause."""
    with pytest.raises(RegistryError) as caught:
        make_registries(lambda _: answer).digest("a:1")
    assert words in str(caught.value)


def test_a_registry_that_is_not_there_is_named() -> None:
    """No stack trace."""

    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no route")

    with pytest.raises(RegistryError, match=r"r\.example\.org does not answer \(no route\)"):
        make_registries(answer).digest("r.example.org/a:1")


def test_credentials_are_those_of_docker_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By host, whatever the key looks like; what a credential helper keeps is left out."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    assert read_credentials() == {}
    auth = base64.b64encode(b"ann:a:b").decode()
    auths = {
        "https://index.docker.io/v1/": {"auth": auth},
        "r.example.org:5000": {"username": "bob", "password": "x"},
        "helped.example.org": {},
    }
    (tmp_path / "config.json").write_text(json.dumps({"auths": auths, "credsStore": "desktop"}))
    assert read_credentials() == {"docker.io": ("ann", "a:b"), "r.example.org:5000": ("bob", "x")}


def test_credentials_that_cannot_be_read_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the file."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "config.json").write_text('{"auths": {"r": {"auth": "%"}}}')
    with pytest.raises(RegistryError, match=r"config\.json: cannot be read"):
        read_credentials()
