"""Downloads of release manifests, from servers and through proxies on the loopback interface."""

import datetime as dt
import hashlib
import ipaddress
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.unit.make import make_manifest, make_settings
from trainstack.live import releases
from trainstack.platform.operators.release import (
    ChecksumMismatchError,
    DownloadError,
    RefusedDownloadError,
    ReleaseError,
    read_release,
)
from trainstack.settings.sections.operators import Install, Kueue, Operators
from trainstack.toolchain.places import cache_root

CONTENT = b"# A release.\n" * 5000 + b"{apiVersion: v1, kind: Namespace, metadata: {name: kueue-system}}\n"
DIGEST = hashlib.sha256(CONTENT).hexdigest()
CUT = 20_000
"""The number of bytes of an interrupted answer."""


@dataclass
class Server:
    """An HTTP server that answers by path, and records the requests."""

    answers: dict[str, Callable[[BaseHTTPRequestHandler], None]] = field(default_factory=dict)
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    """Method, path and Range of each request."""
    address: str = ""

    def url(self, path: str) -> str:
        return f"http://{self.address}{path}"

    def ranges(self) -> list[str]:
        return [wanted for _, _, wanted in self.requests]


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide an empty cache, and no proxy."""
    for name in os.environ:
        if name.lower().endswith("_proxy") or name == "SSL_CERT_FILE":
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "trainstack" / "releases"


def serve(server: Server, context: ssl.SSLContext | None = None) -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Print nothing."""

        def do_GET(self) -> None:
            server.requests.append((self.command, self.path, self.headers.get("Range", "")))
            server.answers.get(self.path, status(404))(self)

        do_CONNECT = do_GET  # noqa: N815 (the name in the standard library)

    http_server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        http_server.socket = context.wrap_socket(http_server.socket, server_side=True)
    server.address = f"127.0.0.1:{http_server.server_port}"
    thread = threading.Thread(target=http_server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        http_server.shutdown()
        thread.join()
        http_server.server_close()


@pytest.fixture
def server(environment: Path) -> Iterator[Server]:
    yield from serve(Server())


@pytest.fixture
def proxy(environment: Path) -> Iterator[Server]:
    yield from serve(Server())


@pytest.fixture
def tls_server(environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Run a server with TLS, whose certificate the environment trusts."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "server.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    yield from serve(Server(), context)


def respond(handler: BaseHTTPRequestHandler, code: int, body: bytes = b"", **headers: str) -> None:
    handler.send_response(code)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


def status(code: int, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    return lambda handler: respond(handler, code, b"", **headers)


def complete(content: bytes = CONTENT) -> Callable[[BaseHTTPRequestHandler], None]:
    """Answer as a server that does not resume."""
    return lambda handler: respond(handler, 200, content)


def resuming(content: bytes = CONTENT) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        start = int(handler.headers.get("Range", "bytes=0-").removeprefix("bytes=").removesuffix("-"))
        if start >= len(content):
            respond(handler, 416)
        elif start:
            part = f"bytes {start}-{len(content) - 1}/{len(content)}"
            respond(handler, 206, content[start:], Content_Range=part)
        else:
            respond(handler, 200, content)

    return answer


def interrupted(handler: BaseHTTPRequestHandler) -> None:
    """Answer with the beginning of the file, then close the connection."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(CONTENT)))
    handler.end_headers()
    handler.wfile.write(CONTENT[:CUT])
    handler.close_connection = True


def make_operators(url: str, sha256: str = DIGEST) -> Operators:
    return Operators(kueue=Kueue(manifest=make_manifest(version="v0.15.2", url=url, sha256=sha256)))


def downloaded(url: str, sha256: str = DIGEST) -> Path:
    """Return the file of the release."""
    operators, errors = releases.fetch(make_operators(url, sha256))
    assert errors == {}
    assert operators.kueue is not None
    assert operators.kueue.manifest.url is None
    return Path(operators.kueue.manifest.path or "")


def refused(url: str, sha256: str = DIGEST) -> DownloadError:
    operators, errors = releases.fetch(make_operators(url, sha256))
    assert operators == make_operators(url, sha256)
    return errors["kueue"]


def closed_port() -> int:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir() if file.name != ".lock")


def test_a_release_is_downloaded_once(server: Server, environment: Path) -> None:
    """Its file has its digest as name, and `read_release` accepts it."""
    server.answers["/kueue.yaml"] = complete()
    for _ in range(2):
        file = downloaded(server.url("/kueue.yaml"))
    assert file == environment / f"{DIGEST}.yaml"
    assert read_release(file, DIGEST)[0]["metadata"] == {"name": "kueue-system"}
    assert names(environment) == [file.name]
    assert server.requests == [("GET", "/kueue.yaml", "")]


def test_a_release_without_a_known_digest_is_pinned(server: Server, environment: Path) -> None:
    """The file is in the cache then, also if an earlier download was interrupted."""
    server.answers["/kueue.yaml"] = interrupted
    with pytest.raises(DownloadError):
        releases.fetch_unpinned("Kueue", server.url("/kueue.yaml"))
    server.answers["/kueue.yaml"] = resuming()
    assert releases.fetch_unpinned("Kueue", server.url("/kueue.yaml")) == DIGEST
    assert names(environment) == [f"{DIGEST}.yaml"]
    requests = len(server.requests)
    assert downloaded(server.url("/kueue.yaml")).read_bytes() == CONTENT
    assert len(server.requests) == requests


def test_a_page_in_the_place_of_a_release_is_not_pinned(server: Server, environment: Path) -> None:
    """A proxy answers with a page of its own."""
    server.answers["/kueue.yaml"] = complete(b"<html>Log in</html>")
    with pytest.raises(ReleaseError, match="not a Kubernetes object"):
        releases.fetch_unpinned("Kueue", server.url("/kueue.yaml"))
    assert names(environment) == []


def test_the_cache_is_the_toolchains(environment: Path) -> None:
    """The layers may not import each other, so the rule is in both."""
    assert releases.download_folder() == cache_root() / "releases" == environment


def test_a_relative_cache_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The XDG base directory specification requires it."""
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert releases.download_folder() == cache_root() / "releases" == tmp_path / ".cache" / "trainstack" / "releases"


def test_a_changed_file_in_the_cache_is_downloaded_again(server: Server, environment: Path) -> None:
    """The pinned bytes replace it."""
    server.answers["/kueue.yaml"] = complete()
    environment.mkdir(parents=True)
    (environment / f"{DIGEST}.yaml").write_bytes(b"else")
    assert downloaded(server.url("/kueue.yaml")).read_bytes() == CONTENT


@pytest.mark.parametrize("answer", [resuming(), complete()], ids=["resumes", "does not resume"])
def test_an_interrupted_download_is_kept_and_resumed(
    server: Server, environment: Path, answer: Callable[[BaseHTTPRequestHandler], None]
) -> None:
    """The message reports it; no part of the incomplete file can be used."""
    server.answers["/kueue.yaml"] = interrupted
    error = refused(server.url("/kueue.yaml"))
    assert type(error) is DownloadError
    assert f"the download from {server.address} was interrupted (" in error.message
    assert error.message.endswith(f") after {CUT} bytes; {CUT} bytes are kept")
    assert error.remedy == "run the command again: it resumes"
    assert error.path == "operators.kueue.manifest.url"
    assert names(environment) == [f"{DIGEST}.part"]
    server.answers["/kueue.yaml"] = answer
    assert downloaded(server.url("/kueue.yaml")).read_bytes() == CONTENT
    assert server.ranges() == ["", f"bytes={CUT}-"]
    assert names(environment) == [f"{DIGEST}.yaml"]


@pytest.mark.parametrize("part", [b"x" * CUT, b"x" * len(CONTENT)], ids=["shorter", "as long"])
def test_the_beginning_of_another_file_is_not_kept(server: Server, environment: Path, part: bytes) -> None:
    """The same command downloads it again from its start."""
    server.answers["/kueue.yaml"] = resuming()
    environment.mkdir(parents=True)
    (environment / f"{DIGEST}.part").write_bytes(part)
    assert downloaded(server.url("/kueue.yaml")).read_bytes() == CONTENT
    assert server.ranges() == [f"bytes={len(part)}-", ""]


def test_a_range_that_was_not_requested_is_not_appended(server: Server, environment: Path) -> None:
    """A server may answer with another part of the file."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        if "Range" in handler.headers:
            respond(handler, 206, CONTENT[10:], Content_Range=f"bytes 10-{len(CONTENT) - 1}/{len(CONTENT)}")
        else:
            respond(handler, 200, CONTENT)

    server.answers["/kueue.yaml"] = answer
    environment.mkdir(parents=True)
    (environment / f"{DIGEST}.part").write_bytes(CONTENT[:CUT])
    assert downloaded(server.url("/kueue.yaml")).read_bytes() == CONTENT


@pytest.mark.parametrize("part", [b"", CONTENT[:CUT]], ids=["from the start", "resumed"])
@pytest.mark.parametrize("named", ["", "bytes 7-9/10"])
def test_a_server_that_always_answers_with_a_part(server: Server, environment: Path, part: bytes, named: str) -> None:
    """The download is not resumed, and the sha256 decides."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        respond(handler, 206, CONTENT, **({"Content_Range": named} if named else {}))

    server.answers["/kueue.yaml"] = answer
    if part:
        environment.mkdir(parents=True)
        (environment / f"{DIGEST}.part").write_bytes(part)
    assert downloaded(server.url("/kueue.yaml")).read_bytes() == CONTENT
    server.answers["/kueue.yaml"] = lambda handler: respond(handler, 206, b"else", Content_Range="bytes 7-9/10")
    other = hashlib.sha256(b"another").hexdigest()
    assert type(refused(server.url("/kueue.yaml"), other)) is ChecksumMismatchError


@pytest.mark.parametrize("code", [200, 302, 403, 404, 503])
def test_errors_have_no_secret_of_an_address(server: Server, environment: Path, code: int) -> None:
    """Release servers redirect to signed addresses, and an error may be in the logs of CI."""
    signed = f"http://user:secret@{server.address}/file?signature=secret"
    server.answers["/kueue.yaml?token=secret"] = status(302, Location=signed)
    server.answers["/file?signature=secret"] = (
        status(302, Location="http://example.org/?signature=secret") if code == 302 else status(code)
    )
    error = refused(f"http://{server.address}/kueue.yaml?token=secret")
    assert "secret" not in str(error)
    assert server.address.partition(":")[0] in error.message


def test_a_complete_part_of_a_killed_command_is_used(server: Server, environment: Path) -> None:
    """The server has no byte after it."""
    server.answers["/kueue.yaml"] = resuming()
    environment.mkdir(parents=True)
    (environment / f"{DIGEST}.part").write_bytes(CONTENT)
    assert downloaded(server.url("/kueue.yaml")).read_bytes() == CONTENT
    assert server.ranges() == [f"bytes={len(CONTENT)}-"]


def test_wrong_bytes_are_not_used(server: Server, environment: Path) -> None:
    """The error has both digests, and no byte of the file is kept."""
    server.answers["/kueue.yaml"] = complete(b"other")
    error = refused(server.url("/kueue.yaml"))
    assert type(error) is ChecksumMismatchError
    actual = hashlib.sha256(b"other").hexdigest()
    url = server.url("/kueue.yaml")
    assert error.message == f"the file at {url} has sha256 {actual}, but {DIGEST} is pinned; nothing of it was used"
    assert error.remedy.endswith("pin the one that was found only if you trust the file")
    assert error.path == "operators.kueue.manifest.sha256"
    assert names(environment) == []


def test_a_file_of_another_size_is_refused(server: Server, environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server may report its length or not."""
    monkeypatch.setattr(releases, "MAX_BYTES", 1000)

    def unannounced(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.wfile.write(CONTENT)

    for answer in (complete(), unannounced):
        server.answers["/kueue.yaml"] = answer
        error = refused(server.url("/kueue.yaml"))
        assert type(error) is RefusedDownloadError
        assert "is not a release manifest" in error.message
        assert names(environment) == []


def test_redirects_between_loopback_addresses_are_followed(server: Server) -> None:
    """Relative ones are followed too, with the range."""
    server.answers |= {
        "/latest": status(302, Location="/v0.15.2"),
        "/v0.15.2": status(307, Location=server.url("/kueue.yaml")),
        "/kueue.yaml": complete(),
    }
    assert downloaded(server.url("/latest")).read_bytes() == CONTENT


def test_a_redirect_to_a_name_without_tls_is_refused(server: Server, environment: Path) -> None:
    """No request is sent to it."""
    server.answers["/kueue.yaml"] = status(302, Location="http://example.org/kueue.yaml")
    error = refused(server.url("/kueue.yaml"))
    assert type(error) is RefusedDownloadError
    assert "redirects to http://example.org/kueue.yaml, which is not https, so it was not followed" in error.message
    assert "name the file's final https address" in error.remedy
    assert names(environment) == []


def test_a_redirect_from_tls_to_none_is_refused(tls_server: Server, server: Server) -> None:
    """This includes a loopback address: the file's address promised TLS."""
    url = f"https://{tls_server.address}/kueue.yaml"
    tls_server.answers["/kueue.yaml"] = status(301, Location=server.url("/kueue.yaml"))
    server.answers["/kueue.yaml"] = complete()
    assert f"redirects to {server.url('/kueue.yaml')}, which is not https" in refused(url).message
    assert server.requests == []
    tls_server.answers |= {
        "/kueue.yaml": status(301, Location=f"https://{tls_server.address}/other.yaml"),
        "/other.yaml": complete(),
    }
    assert downloaded(url).read_bytes() == CONTENT


def test_redirects_end(server: Server) -> None:
    """The number of redirects is limited."""
    server.answers["/kueue.yaml"] = status(302, Location="/kueue.yaml")
    assert "more than 5 redirects" in refused(server.url("/kueue.yaml")).message
    assert len(server.requests) == 6


def test_a_certificate_that_is_not_trusted_is_reported(tls_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the variable that names other certificates, as needed for a proxy that inspects TLS."""
    monkeypatch.delenv("SSL_CERT_FILE")
    error = refused(f"https://{tls_server.address}/kueue.yaml")
    assert type(error) is DownloadError
    assert "the certificate of 127.0.0.1 is not trusted" in error.message
    assert error.remedy.startswith("set SSL_CERT_FILE")


@pytest.mark.parametrize(
    ("code", "kind", "message", "remedy"),
    [
        (404, RefusedDownloadError, "does not exist: 127.0.0.1 answered 404 Not Found", "correct the version"),
        (401, RefusedDownloadError, "needs credentials, and none are sent: 127.0.0.1 answered 401", "a public address"),
        (403, RefusedDownloadError, "needs credentials, and none are sent: 127.0.0.1 answered 403", "a public address"),
        (400, RefusedDownloadError, "was not downloaded: 127.0.0.1 answered 400", "correct the URL"),
        (503, DownloadError, "was not downloaded: 127.0.0.1 answered 503", "run the command again later"),
        (429, DownloadError, "was not downloaded: 127.0.0.1 answered 429", "run the command again later"),
    ],
)
def test_other_answers_are_reported_with_their_remedy(
    server: Server, environment: Path, code: int, kind: type[DownloadError], message: str, remedy: str
) -> None:
    """Each error has the way without a download."""
    server.answers["/kueue.yaml"] = status(code)
    error = refused(server.url("/kueue.yaml"))
    assert type(error) is kind
    assert message in error.message
    assert remedy in error.remedy
    assert "name it with `path` instead of `url`" in error.remedy
    assert names(environment) == []


def test_a_server_that_does_not_listen_is_reported(environment: Path) -> None:
    """A machine without a network has the same error."""
    error = refused(f"http://127.0.0.1:{closed_port()}/kueue.yaml")
    assert type(error) is DownloadError
    assert error.message.startswith("127.0.0.1 cannot be reached (")
    assert "Connection refused" in error.message
    for remedy in ("set HTTPS_PROXY", "download the file elsewhere", "the release that `trainstack up` builds"):
        assert remedy in error.remedy


def test_a_name_that_is_not_known_is_reported(environment: Path) -> None:
    """The top-level domain `invalid` has no names (RFC 2606)."""
    error = refused("https://releases.invalid/kueue.yaml")
    assert type(error) is DownloadError
    assert error.message.startswith("releases.invalid cannot be reached (")


def test_the_proxy_of_the_environment_is_used(proxy: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host gets no request, and may be unknown on this machine."""
    monkeypatch.setenv("HTTP_PROXY", f"http://{proxy.address}")
    proxy.answers["http://localhost:9/kueue.yaml"] = complete()
    assert downloaded("http://localhost:9/kueue.yaml").read_bytes() == CONTENT


def test_no_proxy_is_respected(proxy: Server, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host gets the request directly."""
    monkeypatch.setenv("HTTP_PROXY", f"http://{proxy.address}")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server.answers["/kueue.yaml"] = complete()
    assert downloaded(server.url("/kueue.yaml")).read_bytes() == CONTENT
    assert proxy.requests == []


@pytest.mark.parametrize("code", [403, 407])
def test_a_proxy_that_refuses_is_reported(proxy: Server, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """The error has its address, without the credentials of the variable."""
    monkeypatch.setenv("HTTPS_PROXY", f"http://user:secret@{proxy.address}")
    proxy.answers["example.org:443"] = status(code)
    error = refused("https://example.org/kueue.yaml")
    assert type(error) is DownloadError
    assert error.message.startswith(f"the proxy {proxy.address} refused the connection to example.org ({code} ")
    assert "secret" not in str(error)
    assert "NO_PROXY" in error.remedy
    assert [(method, path) for method, path, _ in proxy.requests] == [("CONNECT", "example.org:443")]


def test_a_proxy_that_requires_credentials_is_reported(proxy: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same holds for an address without TLS, where its answer looks like the server's."""
    monkeypatch.setenv("HTTP_PROXY", f"http://{proxy.address}")
    proxy.answers["http://localhost:9/kueue.yaml"] = status(407)
    assert f"the proxy {proxy.address} refused the connection" in refused("http://localhost:9/kueue.yaml").message


def test_a_proxy_that_does_not_listen_is_reported(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error does not blame the server."""
    port = closed_port()
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
    error = refused("https://example.org/kueue.yaml")
    assert error.message.startswith(f"the proxy 127.0.0.1:{port} does not respond (")
    assert error.remedy.startswith("correct HTTPS_PROXY or NO_PROXY")


@pytest.mark.parametrize("proxy", ["gopher://127.0.0.1:70", "http://127.0.0.1:port"])
def test_a_proxy_that_is_no_proxy_is_reported(environment: Path, monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    """The error blames the environment, not this program or the URL."""
    monkeypatch.setenv("ALL_PROXY", proxy)
    error = refused("https://example.org/kueue.yaml")
    assert error.message.startswith("the proxy or the certificates of the environment cannot be used (")
    assert error.remedy.startswith("correct HTTPS_PROXY, ALL_PROXY or SSL_CERT_FILE")


def test_a_cache_that_cannot_be_written_is_reported(environment: Path, server: Server) -> None:
    """The error has its path."""
    environment.parent.mkdir()
    environment.write_text("a file")
    error = refused(server.url("/kueue.yaml"))
    assert str(environment) in error.message
    assert error.remedy.startswith("make the folder writable")


def test_two_downloads_at_once_are_one(server: Server, environment: Path) -> None:
    """The second one waits for the first, and sends no request."""
    requested, go_on = threading.Event(), threading.Event()

    def slowly(handler: BaseHTTPRequestHandler) -> None:
        requested.set()
        assert go_on.wait(10)
        respond(handler, 200, CONTENT)

    server.answers["/kueue.yaml"] = slowly
    threads = [threading.Thread(target=downloaded, args=(server.url("/kueue.yaml"),)) for _ in range(2)]
    threads[0].start()
    assert requested.wait(10)
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join()
    assert len(server.requests) == 1
    assert names(environment) == [f"{DIGEST}.yaml"]


def test_a_long_download_reports_its_progress(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short one prints nothing."""
    lines: list[str] = []
    server.answers["/kueue.yaml"] = complete()
    releases.fetch(make_operators(server.url("/kueue.yaml")), lines.append)
    assert lines == []
    monkeypatch.setattr(releases, "_REPORT_AFTER_SECONDS", 0.0)
    other = b"a: b\n" * 500_000
    server.answers["/other.yaml"] = complete(other)
    releases.fetch(make_operators(server.url("/other.yaml"), hashlib.sha256(other).hexdigest()), lines.append)
    assert len(lines) == 1
    assert lines[0].startswith("downloading kueue v0.15.2: ")
    assert lines[0].endswith(" of 2.5 MB")


def test_every_error_of_an_environment_is_reported(server: Server) -> None:
    """Releases that could be downloaded are kept for the next time."""
    server.answers["/kueue.yaml"] = complete()
    operators = Operators(
        kueue=Kueue(manifest=make_manifest(url=server.url("/kueue.yaml"), sha256=DIGEST)),
        jobset=Install(manifest=make_manifest(url=server.url("/jobset.yaml"))),
        trainer=Install(manifest=make_manifest(url=server.url("/trainer.yaml"))),
    )
    with pytest.raises(ReleaseError) as caught:
        releases.with_downloads(make_settings(operators=operators))
    first, second = str(caught.value).splitlines()
    assert first.startswith(f"operators.jobset.manifest.url: {server.url('/jobset.yaml')} does not exist: ")
    assert second.startswith("operators.trainer.manifest.url: ")
    assert (releases.download_folder() / f"{DIGEST}.yaml").is_file()


def test_releases_by_path_are_left_alone(environment: Path) -> None:
    """Nothing is downloaded, and no folder is created."""
    operators = Operators(kueue=Kueue(manifest=make_manifest(url=None, path="kueue.yaml")))
    assert releases.fetch(operators) == (operators, {})
    assert not environment.exists()
