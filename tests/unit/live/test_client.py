"""The client that reads clusters: connections, credentials, temporary files and errors of the API server."""

import json
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.unit.make import make_settings
from trainstack.live.client import (
    ClusterError,
    PermanentError,
    SharedClients,
    connect,
    get,
    reach,
    read,
    read_server_time,
    shared_clients,
)
from trainstack.live.snapshot import read_launches, read_metadata
from trainstack.local_cluster.certificates import base64_text, kubeconfig


class Server(ThreadingHTTPServer):
    """An API server that answers every request with one status."""

    request_queue_size = 32
    """The listen backlog. A client retries a connection beyond it after a second."""
    status = 200
    open: tuple[str, ...] = ("/version",)
    """Paths that are always answered with 200."""
    throttled: tuple[int, ...] = ()
    """The Retry-After seconds of the 429 answers that precede all others."""
    date: str | None = None
    """The header of every answer; None: the right time, "": no such header."""
    connections: int = 0
    requests: tuple[str, ...] = ()
    authorization: str | None = None
    """The header of the last request."""

    @property
    def url(self) -> str:
        """Return the address of the server."""
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        """Count the connection."""
        super().setup()
        self.server.connections += 1

    def do_GET(self) -> None:
        """Answer with the version, or an error message."""
        self.server.requests = (*self.server.requests, self.path)
        self.server.authorization = self.headers["Authorization"]
        body = {"gitVersion": "v1.34.2", "message": "so it says", "items": []}
        content = json.dumps(body).encode()
        if self.server.throttled and not self.path.startswith(self.server.open):
            delay, *rest = self.server.throttled
            self.server.throttled = tuple(rest)
            self.send_response(429)
            self.send_header("Retry-After", str(delay))
        else:
            self.send_response(200 if self.path.startswith(self.server.open) else self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def send_header(self, keyword: str, value: str) -> None:
        """Replace the time."""
        if keyword == "Date" and self.server.date is not None:
            value = self.server.date
        if value:
            super().send_header(keyword, value)

    def log_message(self, *_: object) -> None:
        """Keep the test output free of request logs."""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Start a server that KUBECONFIG points to, with a key in the file, and a folder for temporary files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "someone")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with Server(("127.0.0.1", 0), Handler) as api_server:
        file = tmp_path / "kubeconfig"
        user = {"client-certificate-data": base64_text(pem), "client-key-data": base64_text(secret)}
        file.write_text(kubeconfig(api_server.url, pem, user))
        (tmp_path / "temporary").mkdir()
        monkeypatch.setenv("KUBECONFIG", str(file))
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
        threading.Thread(target=api_server.serve_forever, args=(0.01,), daemon=True).start()
        yield api_server
        api_server.shutdown()


def test_reads_of_a_block_share_a_connection(server: Server) -> None:
    """Without a block each read opens a connection and reads the server's version."""
    with shared_clients():
        for path in ("/api/v1/nodes", "/api/v1/pods"):
            assert read([path], None)[path].is_success
    assert (server.connections, server.requests) == (1, ("/version/", "/api/v1/nodes", "/api/v1/pods"))
    reach(None)
    assert (server.connections, server.requests[3:]) == (2, ("/version/",))


def test_threads_share_a_connection_and_its_loop(server: Server) -> None:
    """Hundreds of hooks may start at the same time, and otherwise each thread would start a loop."""
    clients, all_started = SharedClients(), threading.Barrier(32)

    async def request() -> bool:
        return (await get(await connect(None), "/api/v1/nodes")).is_success

    def work(_: int) -> bool:
        all_started.wait(10)
        return clients.run(request())

    with ThreadPoolExecutor(32) as pool:
        assert all(pool.map(work, range(32)))
    clients.close()
    assert server.requests.count("/version/") == 1


def test_a_failed_connection_is_retried(server: Server) -> None:
    """The next request that shares the client connects again."""
    server.status, server.open = 503, ()
    with shared_clients():
        with pytest.raises(ClusterError):
            reach(None)
        server.status = 200
        reach(None)


def test_no_key_stays_in_a_temporary_file(server: Server, tmp_path: Path) -> None:
    """The key is removed after a successful connection and after a refused one."""
    assert read(["/api/v1/nodes"], None)["/api/v1/nodes"].is_success
    server.status, server.open = 401, ()
    with pytest.raises(ClusterError):
        reach(None)
    assert tempfile.gettempdir() == str(tmp_path / "temporary")
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_token_is_read_from_its_file_by_each_client(server: Server, tmp_path: Path) -> None:
    """As in kubectl, the path is relative to the kubeconfig, and the file overrides a token: a program renews it."""
    file = tmp_path / "kubeconfig"
    content = json.loads(file.read_text())
    content["users"][0]["user"] = {"token": "old", "tokenFile": "token"}
    file.write_text(json.dumps(content))
    for token in ("first", "second"):
        (tmp_path / "token").write_text(f"{token}\n")
        reach(None)
        assert server.authorization == f"Bearer {token}"
    (tmp_path / "token").write_text("\n")
    with pytest.raises(PermanentError, match=f"not a usable kubeconfig .tokenFile {tmp_path}/token is empty"):
        reach(None)
    (tmp_path / "token").unlink()
    with pytest.raises(PermanentError, match=f"not a usable kubeconfig .*tokenFile: {tmp_path}/token: No such file"):
        reach(None)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, "does not accept the credentials"),
        (403, "so it says"),
        (429, "answered 429 to /version"),
        (503, "answered 503 to /version"),
    ],
)
def test_an_error_of_the_server_has_its_address_and_reason(server: Server, status: int, message: str) -> None:
    """The error is permanent if a retry cannot help."""
    server.status, server.open = status, ()
    with pytest.raises(ClusterError, match=message) as error:
        reach(None)
    assert isinstance(error.value, PermanentError) == (status in (401, 403))
    assert f"127.0.0.1:{server.server_port}" in str(error.value)


@pytest.mark.parametrize(
    ("content", "context"), [(None, None), ("", None), ("clusters: [", None), ("[]", None), (..., "unknown")]
)
def test_an_invalid_kubeconfig_is_a_permanent_error(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: object, context: str | None
) -> None:
    """An unknown context is one too."""
    file = tmp_path / "other"
    if isinstance(content, str):
        file.write_text(content)
    if content is not ...:
        monkeypatch.setenv("KUBECONFIG", str(file))
    with pytest.raises(PermanentError, match="kubeconfig"):
        reach(context)


@pytest.mark.parametrize("status", [403, 410, 429, 500])
def test_unreadable_objects_do_not_count_as_absent(server: Server, status: int) -> None:
    """A change would launch a run twice, or overwrite objects of other owners."""
    server.status = status
    with pytest.raises(ClusterError, match=str(status)):
        read_launches(make_settings(), ["research"])
    with pytest.raises(ClusterError, match=str(status)):
        read_metadata([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "research"}}], None)


def test_a_throttled_read_is_repeated_after_the_delay(server: Server) -> None:
    """The API server throttles reads of a kind whose CRD it has just accepted."""
    server.throttled = (0, 0)
    assert read(["/api/v1/nodes"], None)["/api/v1/nodes"].is_success
    assert list(server.throttled) == []


def test_a_delay_beyond_the_timeout_is_an_error_at_once(server: Server) -> None:
    server.throttled = (3600, 0)
    with pytest.raises(ClusterError, match="answered 429 to /api/v1/nodes"):
        read(["/api/v1/nodes"], None)
    assert list(server.throttled) == [0]


def test_missing_kinds_and_objects_count_as_absent(server: Server) -> None:
    server.status = 404
    assert read_launches(make_settings(), ["research"]) == []
    assert read_metadata([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "research"}}], None) == {}


@pytest.mark.parametrize("status", [200, 403, 404])
@pytest.mark.parametrize(
    ("date", "time"),
    [
        ("Fri, 02 Jan 2026 03:04:05 GMT", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("Fri, 02 Jan 2026 03:04:05 +0900", datetime(2026, 1, 1, 18, 4, 5, tzinfo=UTC)),
        ("", None),
        ("yesterday", None),
    ],
)
def test_the_time_of_the_api_server(server: Server, status: int, date: str, time: datetime | None) -> None:
    """Every answer has it. A proxy may remove it, or change it to what is not a time."""
    server.status, server.date = status, date
    assert read_server_time(None) == time


def test_without_an_answer_there_is_no_time(server: Server) -> None:
    """That is an error, as for other reads."""
    server.server_close()
    server.shutdown()
    with pytest.raises(ClusterError):
        read_server_time(None)
