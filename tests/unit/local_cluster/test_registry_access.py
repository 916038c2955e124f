"""Access to the local cluster's registry: only those who can read the client's key have it."""

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from trainstack.local_cluster import certificates
from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.images.registry import Registry
from trainstack.local_cluster.network import Slot
from trainstack.local_cluster.registry_access import RegistryAccess
from trainstack.local_cluster.state_folder import Layout
from trainstack.runs.images.references import mirror_reference


class RegistryHandler(BaseHTTPRequestHandler):
    """A registry that has every image."""

    def do_HEAD(self) -> None:
        """Answer with a digest."""
        self.send_response(200)
        self.send_header("Docker-Content-Digest", "sha256:1")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class QuietServer(HTTPServer):
    """A server that does not print refused handshakes."""

    def handle_error(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Create a cluster's certificates, and those of a registry at 127.0.0.1."""
    state_layout = Layout.of(tmp_path / "state")
    state_layout.make_folders()
    certificates.issue_certificates(state_layout, Slot(0))
    certificates.issue_registry_certificates(state_layout.certs, "127.0.0.1")
    return state_layout


@pytest.fixture
def access(layout: Layout) -> Iterator[RegistryAccess]:
    """Run a server with the registry's certificate that demands one of its authority, as `clientcas` does."""
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(layout.certs / "registry.crt", layout.certs / "registry.key")
    server_side.load_verify_locations(layout.certs / "registry-ca.crt")
    server_side.verify_mode = ssl.CERT_REQUIRED
    with QuietServer(("127.0.0.1", 0), RegistryHandler) as server:
        server.socket = server_side.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield RegistryAccess(f"127.0.0.1:{server.server_port}", layout.certs)
        server.shutdown()
        thread.join()


def refused(access: RegistryAccess, pair: tuple[Path, Path] | None) -> bool:
    """Return whether a client with this certificate and key, or without, gets no answer."""
    context = ssl.create_default_context(cafile=str(access.authority))
    if pair is not None:
        context.load_cert_chain(*pair)
    try:
        with urlopen(Request(f"https://{access.address}/v2/", method="HEAD"), context=context, timeout=10):
            return False
    except OSError:
        return True


def test_the_holder_of_the_key_is_served_and_others_are_refused(access: RegistryAccess, tmp_path: Path) -> None:
    """No certificate, the administrator's certificate, and one of an earlier start are all refused."""
    assert Registry(access).digest(mirror_reference("busybox")) == "sha256:1"
    assert not refused(access, access.client_pair)
    assert refused(access, None)
    assert refused(access, (access.certs / "admin.crt", access.certs / "admin.key"))
    earlier = tmp_path / "earlier"
    earlier.mkdir()
    certificates.issue_registry_certificates(earlier, "127.0.0.1")
    assert refused(access, (earlier / "registry-client.crt", earlier / "registry-client.key"))


def test_the_keys_are_the_owners_alone(layout: Layout) -> None:
    """The folder is closed for others; the authority's key is not stored."""
    keys = sorted(path.name for path in layout.certs.glob("registry*.key"))
    assert keys == ["registry-client.key", "registry.key"]
    assert {(layout.certs / key).stat().st_mode & 0o777 for key in keys} == {0o600}
    assert layout.certs.stat().st_mode & 0o777 == 0o700


def test_another_start_has_other_keys(layout: Layout) -> None:
    """Copies of an earlier start's key are useless."""
    before = [(layout.certs / name).read_bytes() for name in ("registry-ca.crt", "registry-client.key")]
    certificates.issue_certificates(layout, Slot(0))
    after = [(layout.certs / name).read_bytes() for name in ("registry-ca.crt", "registry-client.key")]
    assert not {*before} & {*after}


def test_a_cluster_of_an_earlier_version_is_to_be_restarted(tmp_path: Path) -> None:
    """Its registry is open, and it has no credentials."""
    with pytest.raises(LocalClusterError, match=r"cluster down`, then `trainstack cluster up"):
        Registry(RegistryAccess("127.0.0.1:1", tmp_path)).digest(mirror_reference("busybox"))


def test_an_account_that_may_not_read_the_key_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the missing right and the owner."""

    def denied(**_: object) -> ssl.SSLContext:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(ssl, "create_default_context", denied)
    with pytest.raises(LocalClusterError, match="restricted to the cluster's owner"):
        RegistryAccess("127.0.0.1:1", tmp_path).tls()
