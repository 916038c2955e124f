"""Credentials are kept until they expire, then renewed, and renewed once if the server refuses them."""

import asyncio
import json
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.unit.live.conftest import Use
from tests.unit.live.fake_cluster import FakeCluster
from tests.unit.live.plugins import make_output, make_user, printing, runs, set_output, write_plugin
from trainstack.live import credentials
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
from trainstack.live.credential_plugin import UserCredential
from trainstack.live.credentials import _CachedCredential

NODES = "/api/v1/nodes"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Replace the clock of credentials; `ahead` is its lead over the real one in seconds."""
    fake = SimpleNamespace(ahead=0.0)
    fake.time = lambda: time.time() + fake.ahead
    fake.monotonic = lambda: time.monotonic() + fake.ahead
    monkeypatch.setattr(credentials, "time", fake)
    return fake


@pytest.mark.parametrize("expires_in", [None, 3600])
def test_all_connections_of_a_process_share_a_credential(use: Use, tmp_path: Path, expires_in: float | None) -> None:
    """Each read has an event loop of its own, hooks have threads; a login that takes seconds is done once."""
    use(make_user(printing(tmp_path, make_output(expires_in=expires_in))))
    clients, all_started = SharedClients(), threading.Barrier(16)

    async def request() -> bool:
        return (await get(await connect(None), NODES)).is_success

    def work(number: int) -> bool:
        all_started.wait(10)
        return clients.run(request()) if number % 2 else read([NODES], None)[NODES].is_success

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(work, range(16)))
    with shared_clients():
        reach(None)
    clients.close()
    assert runs(tmp_path) == 1


def test_an_expiring_credential_is_renewed_in_every_kind_of_connection(
    cluster: FakeCluster, use: Use, tmp_path: Path, clock: SimpleNamespace
) -> None:
    """Also in one that is open for hours: a login lasts an hour."""
    use(make_user(printing(tmp_path, make_output("first", 3600))))
    with shared_clients():
        read([NODES], None)
        clock.ahead = 3000
        read([NODES], None)
        assert runs(tmp_path) == 1
        set_output(tmp_path, make_output("second", 7200))
        clock.ahead = 3595  # the margin is 10 s
        read([NODES], None)
    read([NODES], None)
    assert runs(tmp_path) == 2
    assert cluster.tokens == ["first", "first", "first", "second", "second", "second"]
    assert cluster.requests.count("GET /version") == 2


def test_a_short_credential_does_not_run_the_plugin_for_each_request(
    use: Use, tmp_path: Path, clock: SimpleNamespace
) -> None:
    """A credential that has already expired, by this clock, is used for ten seconds."""
    use(make_user(printing(tmp_path, make_output(expires_in=-5))))
    for ahead, expected in ((0, 1), (5, 1), (11, 2), (15, 2)):
        clock.ahead = ahead
        reach(None)
        assert runs(tmp_path) == expected


def test_a_refused_credential_is_renewed_once_and_the_request_repeated(
    cluster: FakeCluster, use: Use, tmp_path: Path
) -> None:
    """A server may revoke a token before it expires. Concurrent requests renew it together."""
    use(make_user(printing(tmp_path, make_output("first"))))
    with shared_clients():
        read([NODES], None)
        cluster.accepts = lambda token: token == "second"
        set_output(tmp_path, make_output("second"))
        answers = read([f"{NODES}?limit={number}" for number in range(16)], None)
        assert all(answer.is_success for answer in answers.values())
    assert runs(tmp_path) == 2


def test_a_refused_plugin_does_not_run_for_each_request(
    cluster: FakeCluster, use: Use, tmp_path: Path, clock: SimpleNamespace
) -> None:
    """A wait that goes on after the error tries it again after a minute."""
    use(
        make_user(
            write_plugin(
                tmp_path,
                f"printf '%s' '{make_output('@')}' | sed \"s/@/$(wc -l < {tmp_path}/runs)/\"",
            )
        )
    )
    cluster.accepts = lambda _: False
    for _ in range(5):
        with pytest.raises(PermanentError, match="does not accept the credentials; log in again, and check that"):
            reach(None)
    assert runs(tmp_path) == 2
    clock.ahead = 61
    with pytest.raises(PermanentError):
        reach(None)
    assert runs(tmp_path) == 3
    cluster.accepts = lambda _: True
    reach(None)


def test_a_refused_credential_that_the_plugin_repeats(cluster: FakeCluster, use: Use, tmp_path: Path) -> None:
    """The plugin has a cache of its own; the request is not repeated in vain."""
    use(make_user(printing(tmp_path, make_output("first"))))
    cluster.accepts = lambda _: False
    for _ in range(3):
        with pytest.raises(PermanentError, match="does not accept the credentials"):
            reach(None)
    assert (runs(tmp_path), cluster.requests) == (2, ["GET /version"] * 3)


def test_a_plugin_that_fails_at_the_renewal(use: Use, cluster: FakeCluster, tmp_path: Path) -> None:
    """The error has its reason; after a login, the connection goes on."""
    file = printing(tmp_path, make_output("first"))
    use(make_user(file))
    with shared_clients():
        reach(None)
        cluster.accepts = lambda token: token == "second"
        set_output(tmp_path, "")
        with pytest.raises(PermanentError, match=f"`{file}` of context x, .* printed nothing; log in again"):
            read([NODES], None)
        set_output(tmp_path, make_output("second"))
        assert read([NODES], None)[NODES].is_success


def test_threads_that_wait_for_a_plugin_share_its_failure() -> None:
    """Hundreds of hooks would otherwise each wait for a login that times out."""
    kept, waiting, calls = _CachedCredential(), threading.Semaphore(0), list[int]()

    def run() -> UserCredential:
        calls.append(1)
        for _ in range(8):
            waiting.acquire(timeout=10)
        raise PermanentError("no login")

    def work(_: int) -> bool:
        waiting.release()
        with pytest.raises(PermanentError, match="no login"):
            kept.renew(run)
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    assert len(calls) == 1
    waiting.release(8)
    with pytest.raises(PermanentError):
        kept.renew(run)
    assert len(calls) == 2


def test_a_stream_is_opened_with_renewed_credentials(cluster: FakeCluster, use: Use, tmp_path: Path) -> None:
    """`logs --follow` opens it again and again."""
    use(make_user(printing(tmp_path, make_output("first"))))

    async def work() -> bytes:
        api = await connect(None)
        cluster.accepts = lambda token: token == "second"
        set_output(tmp_path, make_output("second"))
        async with api.request("GET", "/api/v1/namespaces/lab/pods/p1/log") as response:
            return await response.aread()

    assert b"epoch 1/2" in asyncio.run(work())


def test_a_token_file_is_read_for_each_request(cluster: FakeCluster, use: Use, tmp_path: Path) -> None:
    """A program renews it."""
    file = tmp_path / "token"
    file.write_text("first\n")
    use({"tokenFile": "token"})
    with shared_clients():
        reach(None)
        file.write_text("second\n")
        read([NODES], None)
    assert cluster.tokens == ["first", "second"]


@pytest.mark.parametrize(
    ("user", "reason"),
    [
        ({"tokenFile": "missing"}, "tokenFile: .*/missing: No such file or directory"),
        ({"tokenFile": "empty"}, "tokenFile .*/empty is empty"),
        ({"tokenFile": "."}, "tokenFile: .* is not a file"),
        ({"tokenFile": "binary"}, "tokenFile: .*/binary is not a text"),
        ({"tokenFile": "lines"}, "the token in .*/lines has a line break"),
        ({"token": "a\nb"}, "its token has a line break"),
        ({"token": "é"}, "its token has a line break, a space or another character"),
        ({"token": 7}, r"user u: token: Input should be a valid string"),
        ({"username": "a", "password": "b"}, "Kubernetes has not accepted username and password"),
        ({"auth-provider": {"name": "gcp"}}, "auth-provider gcp was removed from Kubernetes' clients"),
        ({"auth-provider": {"name": "oidc"}}, "auth-provider oidc has no id-token; log in again"),
        ({"auth-provider": {}}, "user u: auth-provider.name: Field required"),
        ({"client-certificate": "missing", "client-key": "missing"}, "client-certificate: .*/missing: No such file"),
        ({"client-certificate-data": "%", "client-key-data": "%"}, "client-certificate-data is not base64"),
        ({"client-certificate-data": "-----a"}, "the user has a client certificate or its key, and not both"),
        ({"client-certificate-data": "-----a", "client-key-data": "-----a"}, "its certificates cannot be used"),
        ({"client-certificate-data": "YQ==", "client-key-data": "YQ=="}, "its certificates cannot be used"),
        ({"client-certificate-data": "-----a", "client-key-data": "-----ENCRYPTED"}, "client-key is encrypted"),
        ({"exec": {}}, "user u: exec.apiVersion: Field required"),
        ({"exec": []}, "user u: exec: Input should be a valid dictionary"),
        ({"exec": {"apiVersion": "v1", "command": ["a/b"]}}, "user u: exec.command: Input should be a valid string"),
        ({"exec": {"apiVersion": "v1", "command": "a", "args": [1]}}, r"user u: exec.args.0: Input should be a valid"),
    ],
)
def test_credentials_of_the_kubeconfig_that_cannot_be_used(
    use: Use, tmp_path: Path, user: dict[str, object], reason: str
) -> None:
    """The error names the field, and no value of it."""
    (tmp_path / "empty").write_text(" \n")
    (tmp_path / "binary").write_bytes(b"\xff")
    (tmp_path / "lines").write_text("a\nb\n")
    use(user)
    with pytest.raises(PermanentError, match=f"{tmp_path}/kubeconfig is not a usable kubeconfig .{reason}") as caught:
        reach(None)
    assert caught.value.exit_code == 5


@pytest.mark.parametrize(
    "fields",
    [
        {"proxy-url": "socks5://127.0.0.1:1"},
        {"proxy-url": "nonsense"},
        {"proxy-url": "http://[::1"},
        {"server": "https://127.0.0.1:port"},
        {"server": "127.0.0.1"},
        {"server": ""},
        {"server": 7},
        {"certificate-authority": "missing"},
        {"certificate-authority-data": "%"},
        {"certificate-authority-data": "YQ=="},
        {"insecure-skip-tls-verify": "yes"},
    ],
)
def test_a_cluster_of_the_kubeconfig_that_cannot_be_reached(use: Use, fields: dict[str, object]) -> None:
    """Proxies that httpx does not support, and addresses that are none."""
    use({"token": "t"}, **fields)
    with pytest.raises(ClusterError) as caught:
        reach(None)
    assert caught.value.exit_code == 5
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"), [("ALL_PROXY", "socks5://127.0.0.1:1"), ("HTTP_PROXY", "foo://x"), ("NO_PROXY", "::1/128,[x")]
)
def test_variables_that_name_no_usable_proxy(use: Use, monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    use({"token": "t"})
    monkeypatch.setenv(name, value)
    with pytest.raises(PermanentError, match=r"correct .* the variables HTTPS_PROXY, ALL_PROXY and NO_PROXY"):
        reach(None)


def make_pair(name: str) -> tuple[str, str]:
    """Return a self-signed certificate of 127.0.0.1 and its key, in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return certificate.public_bytes(pem).decode(), secret.decode()


@pytest.fixture
def tls(cluster: FakeCluster, tmp_path: Path) -> list[str]:
    """Serve TLS, and answer 401 to all client certificates but those whose names are in the list."""
    certificate, key = make_pair("server")
    (tmp_path / "server.pem").write_text(certificate + key)
    (tmp_path / "clients.pem").write_text("")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    context.verify_mode = ssl.CERT_OPTIONAL
    cluster.tls = context
    return cluster.accepted_names


def test_a_client_certificate_of_a_plugin_is_renewed(
    cluster: FakeCluster, tls: list[str], use: Use, tmp_path: Path
) -> None:
    """The connection is opened again with the new one, and no key stays in a file."""
    pairs = {name: make_pair(name) for name in ("first", "second")}
    for certificate, _ in pairs.values():
        assert cluster.tls is not None
        cluster.tls.load_verify_locations(cadata=certificate)

    def output(name: str) -> str:
        status = {"clientCertificateData": pairs[name][0], "clientKeyData": pairs[name][1]}
        return make_output(status=status)

    server = f"https://127.0.0.1:{cluster.server_port}"
    use(make_user(printing(tmp_path, output("first"))), server=server)
    tls.append("first")
    with shared_clients():
        assert read([NODES], None)[NODES].is_success
        tls[:] = ["second"]
        set_output(tmp_path, output("second"))
        assert read([NODES], None)[NODES].is_success
    assert runs(tmp_path) == 2
    assert "PRIVATE KEY" not in json.dumps(cluster.requests)
