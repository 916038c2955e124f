"""The client that reads clusters: what it leaves on the disk, and what it says when an API server refuses."""

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
from trainstack.dev.cluster.certificates import embedded, kubeconfig
from trainstack.live import client
from trainstack.live.client import (
    ClusterError,
    PermanentError,
    SharedClients,
    connect,
    get,
    reach,
    read,
    shared_clients,
)
from trainstack.live.snapshot import read_launches, read_metadata


class Server(ThreadingHTTPServer):
    """An API server that answers every request with one status."""

    status = 200
    open: tuple[str, ...] = ("/version",)
    """What it answers whatever its status is."""
    throttled: tuple[int, ...] = ()
    """The Retry-After seconds of the 429 answers that precede all others."""
    connections: int = 0
    requests: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """Its answers."""

    server: Server

    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        """Count the connection."""
        super().setup()
        self.server.connections += 1

    def do_GET(self) -> None:
        """Say who one is, or what is wrong."""
        self.server.requests = (*self.server.requests, self.path)
        body = {"gitVersion": "v1.34.2", "message": "so it says"}
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

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server that KUBECONFIG names, with a key in the file; temporary files go into a folder of the test."""
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
    with Server(("127.0.0.1", 0), Handler) as made:
        file = tmp_path / "kubeconfig"
        user = {"client-certificate-data": embedded(pem), "client-key-data": embedded(secret)}
        file.write_text(kubeconfig(made.url, pem, user))
        (tmp_path / "temporary").mkdir()
        monkeypatch.setenv("KUBECONFIG", str(file))
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
        threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
        yield made
        made.shutdown()


def test_reads_of_a_block_share_a_connection(server: Server) -> None:
    """Each of them otherwise connects anew, and reads the server's version."""
    with shared_clients():
        for path in ("/api/v1/nodes", "/api/v1/pods"):
            assert read([path], None)[path].found
    assert (server.connections, server.requests) == (1, ("/version/", "/api/v1/nodes", "/api/v1/pods"))
    reach(None)
    assert (server.connections, server.requests[3:]) == (2, ("/version/",))


def test_threads_share_a_connection_and_its_loop(server: Server) -> None:
    """Hundreds of hooks may start at once, and each thread would otherwise start the loop."""
    clients, all_started = SharedClients(), threading.Barrier(32)

    async def request() -> bool:
        return (await get(await connect(None), "/api/v1/nodes")).found

    def work(_: int) -> bool:
        all_started.wait(10)
        return clients.run(request())

    with ThreadPoolExecutor(32) as pool:
        assert all(pool.map(work, range(32)))
    clients.close()
    assert server.requests.count("/version/") == 1


def test_a_shared_client_is_replaced_before_its_credentials_expire(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file or a plugin may have new ones."""
    monkeypatch.setattr(client, "_CONNECTION_SECONDS", -1)
    with shared_clients():
        reach(None)
        reach(None)
    assert server.requests == ("/version/", "/version/")


def test_a_failed_connection_is_tried_again(server: Server) -> None:
    """Of the requests that share a client, the next one."""
    server.status, server.open = 503, ()
    with shared_clients():
        with pytest.raises(ClusterError):
            reach(None)
        server.status = 200
        reach(None)


def test_no_key_stays_in_a_temporary_file(server: Server, tmp_path: Path) -> None:
    """Neither of a connection that was made, nor of one that was refused."""
    assert read(["/api/v1/nodes"], None)["/api/v1/nodes"].found
    server.status, server.open = 401, ()
    with pytest.raises(ClusterError):
        reach(None)
    assert tempfile.gettempdir() == str(tmp_path / "temporary")
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "does not accept the credentials"),
        (403, "so it says"),
        (429, "answered 429 to /version"),
        (503, "answered 503 to /version"),
    ],
)
def test_a_server_that_refuses_is_named_with_the_reason(server: Server, status: int, said: str) -> None:
    """And so is the remedy, where there is one on our side."""
    server.status, server.open = status, ()
    with pytest.raises(ClusterError, match=said) as caught:
        reach(None)
    assert isinstance(caught.value, PermanentError) == (status in (401, 403))
    assert f"127.0.0.1:{server.server_port}" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "context"), [(None, None), ("", None), ("clusters: [", None), ("[]", None), (..., "unknown")]
)
def test_a_kubeconfig_that_is_none_will_not_mend_itself(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: object, context: str | None
) -> None:
    """Nor will a context that it does not have."""
    file = tmp_path / "other"
    if isinstance(content, str):
        file.write_text(content)
    if content is not ...:
        monkeypatch.setenv("KUBECONFIG", str(file))
    with pytest.raises(PermanentError, match="kubeconfig"):
        reach(context)


@pytest.mark.parametrize("status", [403, 410, 429, 500])
def test_what_may_not_be_read_is_not_taken_for_nothing(server: Server, status: int) -> None:
    """Neither launches, of which a change would start a second one, nor somebody else's objects."""
    server.status = status
    with pytest.raises(ClusterError, match=str(status)):
        read_launches(make_settings(), ["research"])
    with pytest.raises(ClusterError, match=str(status)):
        read_metadata([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "research"}}], None)


def test_a_throttled_read_is_repeated_after_the_delay(server: Server) -> None:
    """The API server throttles reads of a kind whose CRD it has just accepted."""
    server.throttled = (0, 0)
    assert read(["/api/v1/nodes"], None)["/api/v1/nodes"].found
    assert list(server.throttled) == []


def test_a_delay_beyond_the_timeout_is_an_error_at_once(server: Server) -> None:
    server.throttled = (3600, 0)
    with pytest.raises(ClusterError, match="answered 429 to /api/v1/nodes"):
        read(["/api/v1/nodes"], None)
    assert list(server.throttled) == [0]


def test_what_is_not_there_is_nothing(server: Server) -> None:
    """A kind without its definition, an object that nobody has made."""
    server.status = 404
    assert read_launches(make_settings(), ["research"]) == []
    assert read_metadata([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "research"}}], None) == {}
