"""Asking a registry: whom, with which credentials, and what is said when there is no answer."""

import base64
import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import httpx
import pytest

from trainstack.live.registry import ImageMissingError, Registries, ServedImage
from trainstack.live.registry_credentials import RegistryError, credentials_for, read_credentials, trust

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
    with pytest.raises(RegistryError, match=r"other\.example\.org denies access to anonymous users"):
        registries.digest("other.example.org/a:1")


def test_no_password_is_told_without_encryption() -> None:
    """A registry that sends us to a plain address gets nothing."""
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.scheme)
        return httpx.Response(401, headers={"WWW-Authenticate": 'Bearer realm="http://auth.example.org/token"'})

    with pytest.raises(RegistryError, match="denies access to ann"):
        make_registries(answer).digest("registry.example.org/a:1")
    assert asked == ["https"]


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
def test_what_is_wrong_is_said_with_the_remedy(answer: httpx.Response, words: str) -> None:
    """The image, the registry, the cause."""
    with pytest.raises(RegistryError) as caught:
        make_registries(lambda _: answer).digest("a:1")
    assert words in str(caught.value)


def test_a_registry_that_is_not_there_is_named() -> None:
    """No stack trace."""

    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no route")

    with pytest.raises(RegistryError, match=r"r\.example\.org does not respond \(no route\)"):
        make_registries(answer).digest("r.example.org/a:1")


def own_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have docker's file in this folder, and no other."""
    monkeypatch.delenv("REGISTRY_AUTH_FILE", raising=False)
    for variable in ("XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "DOCKER_CONFIG"):
        monkeypatch.setenv(variable, str(folder))


def test_credentials_are_those_of_docker_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By host, whatever the key looks like; what a credential helper keeps is left out."""
    own_files(tmp_path, monkeypatch)
    assert read_credentials() == {}
    auth = base64.b64encode(b"ann:a:b").decode()
    auths = {
        "https://index.docker.io/v1/": {"auth": auth},
        "r.example.org:5000": {"username": "bob", "password": "x"},
        "helped.example.org": {},
    }
    (tmp_path / "config.json").write_text(json.dumps({"auths": auths, "credsStore": "desktop"}))
    assert read_credentials() == {"docker.io": ("ann", "a:b"), "r.example.org:5000": ("bob", "x")}


def test_credentials_of_buildah_and_podman_come_before_docker_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those tools read their files; REGISTRY_AUTH_FILE is read alone."""
    files = {
        "XDG_RUNTIME_DIR": ("run", "run/containers/auth.json"),
        "XDG_CONFIG_HOME": ("config", "config/containers/auth.json"),
        "DOCKER_CONFIG": ("docker", "docker/config.json"),
        "REGISTRY_AUTH_FILE": ("given.json", "given.json"),
    }
    for variable, (_, name) in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        auths = {key: {"username": variable, "password": "x"} for key in ("r.example.org", variable)}
        file.write_text(json.dumps({"auths": auths}))
        monkeypatch.delenv(variable, raising=False)
    for variable in ("DOCKER_CONFIG", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / files[variable][0]))
        assert read_credentials()["r.example.org"] == (variable, "x")
    assert read_credentials().keys() == {"r.example.org", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "DOCKER_CONFIG"}
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "given.json"))
    assert read_credentials().keys() == {"r.example.org", "REGISTRY_AUTH_FILE"}


def test_the_credentials_of_a_repository_come_before_those_of_its_registry() -> None:
    """`podman login r.example.org/team` is for that part of the registry alone."""
    credentials = {"r.example.org": ("all", "1"), "r.example.org/team": ("team", "2"), "r.example.org/te": ("no", "3")}
    users = [
        credentials_for(credentials, *words)
        for words in (("r.example.org", "team/a"), ("r.example.org", "a"), ("other.example.org", "team/a"))
    ]
    assert users == [("team", "2"), ("all", "1"), None]


def manifest(name: str) -> str:
    """The address of a manifest or a blob."""
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
    """Compressed size, platforms, time of its build; of an image for several platforms only these."""
    bodies = {manifest(name): body for name, body in {**served, f"blobs/{PART['digest']}": CONFIG}.items()}

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=bodies[str(request.url)], headers={"Docker-Content-Digest": DIGEST})

    found = make_registries(answer).describe("r.example.org/a:1")
    assert found == ServedImage(DIGEST, expected[0], expected[1], found.created)
    assert (found.created.isoformat() if found.created else "None") == expected[2]


def test_an_image_by_digest_is_asked_for_by_it() -> None:
    """Whatever its tag names."""
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        return found(request)

    assert make_registries(answer).digest(f"r.example.org/a:1@{DIGEST}") == DIGEST
    assert asked == [manifest(f"manifests/{DIGEST}")]


def test_a_missing_image_is_not_taken_for_a_silent_registry() -> None:
    """What is missing can be pushed; who does not answer may have it."""
    with pytest.raises(ImageMissingError):
        make_registries(lambda _: httpx.Response(404)).digest("r.example.org/a:1")
    with pytest.raises(RegistryError) as caught:
        make_registries(lambda _: httpx.Response(401)).digest("r.example.org/a:1")
    assert not isinstance(caught.value, ImageMissingError)


def test_a_certificate_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".config" / "containers" / "certs.d" / "r.example.org"
    folder.mkdir(parents=True)
    (folder / "ca.crt").write_text("no certificate")
    with pytest.raises(RegistryError, match=f"{folder}: cannot read a certificate"):
        trust("r.example.org")


def test_credentials_that_cannot_be_read_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the file."""
    own_files(tmp_path, monkeypatch)
    (tmp_path / "config.json").write_text('{"auths": {"r": {"auth": "%"}}}')
    with pytest.raises(RegistryError, match=r"config\.json: cannot read the credentials"):
        read_credentials()
