"""etcd and kube-apiserver alone, as the local cluster runs them: real admission, validation and storage in seconds.

No root, namespaces or cgroups are needed, and several can run at once. Nothing else of a cluster exists: no controller
creates pods of Jobs, service accounts of namespaces or status; nothing is garbage-collected; a deleted namespace stays
`Terminating`. A test plays the controllers that it needs.
"""

import contextlib
import json
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from trainstack.local_cluster import certificates
from trainstack.local_cluster.certificates import base64_text
from trainstack.local_cluster.config import components
from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.network import Slot
from trainstack.local_cluster.spec import ClusterSpec
from trainstack.local_cluster.state_folder import Layout
from trainstack.local_cluster.supervisor_plan import ClusterComponent
from trainstack.local_cluster.supervisor_process import find_program

ADMIN = "trainstack-admin"
"""Name of the administrator, a member of `system:masters`."""
STARTS = 3
"""Attempts to start: another process may bind a chosen port first."""
START_SECONDS = 60.0
"""The timeout of one start, with room for a loaded machine."""
_POLL_SECONDS = 0.05
_WRITES = ("create", "update", "patch", "delete", "deletecollection")

Body = dict[str, Any]


@dataclass(frozen=True)
class User:
    """A person with a client certificate."""

    name: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class Event:
    """An answered request in the audit log."""

    user: str
    verb: str
    uri: str
    resource: str
    """`jobs.batch`, `configmaps`, `jobs.batch/status`; empty for paths that name no resource."""
    namespace: str
    name: str
    """Empty for collections, and for creates of names that the server chooses."""
    code: int
    dry_run: bool

    @property
    def is_write(self) -> bool:
        """Whether the request changed a stored object."""
        return self.verb in _WRITES and not self.dry_run and self.code < 300 and "reviews" not in self.resource

    def created(self, namespace: str, name: str) -> bool:
        """Return whether the request created an object with this name, or with a generated name, in the namespace."""
        return self.is_write and self.code == 201 and self.namespace == namespace and self.name in (name, "")


@dataclass(frozen=True)
class Response:
    """A response of the API server."""

    code: int
    body: Body

    def checked(self) -> Body:
        """Return the body. Fails if the server refused the request."""
        assert self.code < 300, f"{self.code}: {self.body.get('message', self.body)}"
        return self.body


@dataclass(frozen=True)
class ApiServer:
    """A running API server."""

    state: Path
    server: str
    """Its URL."""
    client: httpx.Client
    """Connected as the administrator."""

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return Layout(self.state).kubeconfig

    @property
    def audit_log(self) -> Path:
        """The file with every answered request as a line of JSON, written before the response is sent."""
        return Layout(self.state).audit

    def events(self, offset: int = 0) -> list[Event]:
        """Return the requests after byte `offset` of the audit log, without those of the API server to itself."""
        with self.audit_log.open("rb") as log:
            log.seek(offset)
            text = log.read()
        lines = text[: text.rfind(b"\n") + 1].splitlines()
        return [_event(json.loads(line)) for line in lines]

    def offset(self) -> int:
        """Return the length of the audit log in bytes."""
        return self.audit_log.stat().st_size

    def send(
        self, verb: str, path: str, body: Any = None, content_type: str = "application/json", **query: str
    ) -> Response:
        """Send a request as the administrator."""
        content = None if body is None else json.dumps(body).encode()
        answer = self.client.request(verb, path, content=content, params=query, headers={"Content-Type": content_type})
        try:
            decoded = answer.json()
        except ValueError:
            decoded = {"message": answer.text}
        return Response(answer.status_code, decoded)

    def get(self, path: str) -> Body | None:
        """Return the object or list at a path, or None if it does not exist."""
        answer = self.send("GET", path)
        return None if answer.code == 404 else answer.checked()

    def make_namespace(self, name: str, **metadata: Any) -> Body:
        """Create a namespace with the `default` service account, which pods need and a controller would create."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **metadata}}
        made = self.send("POST", "/api/v1/namespaces", body).checked()
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        self.send("POST", f"/api/v1/namespaces/{name}/serviceaccounts", account).checked()
        return made

    def create_definition(self, definition: Body) -> None:
        """Create a CustomResourceDefinition and wait until the API server serves it."""
        folder = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        self.send("POST", folder, definition).checked()
        end = time.monotonic() + START_SECONDS
        path = f"{folder}/{definition['metadata']['name']}"
        while not any(
            condition["type"] == "Established" and condition["status"] == "True"
            for condition in (self.send("GET", path).checked()["status"].get("conditions") or ())
        ):
            assert time.monotonic() < end, f"{definition['metadata']['name']} is not served"
            time.sleep(_POLL_SECONDS)

    def credentials(self, user: User) -> Body:
        """Return a kubeconfig's `user` entry, with a client certificate of this server's authority."""
        authority, signer = certificates._load_or_create_authority(Layout(self.state).certs)
        key = ec.generate_private_key(ec.SECP256R1())
        names = [(NameOID.ORGANIZATION_NAME, group) for group in user.groups] + [(NameOID.COMMON_NAME, user.name)]
        subject = x509.Name([x509.NameAttribute(kind, name) for kind, name in names])
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        builder = certificates._certificate_builder(subject, authority.subject, certificates.LEAF_DAYS)
        certificate = (
            builder.public_key(key.public_key()).add_extension(usage, critical=False).sign(signer, hashes.SHA256())
        )
        return {
            "client-certificate-data": base64_text(certificate.public_bytes(serialization.Encoding.PEM)),
            "client-key-data": base64_text(certificates._pem(key)),
        }

    def access(self, user: User | None = None, namespace: str = "") -> "Access":
        """Return the access of a user for a kubeconfig, by default of the administrator."""
        user = user or User(ADMIN, ("system:masters",))
        authority = (Layout(self.state).certs / "ca.crt").read_bytes()
        cluster = {"server": self.server, "certificate-authority-data": base64_text(authority)}
        return Access(cluster, self.credentials(user), namespace)


@dataclass(frozen=True)
class Access:
    """The cluster, user and namespace of a kubeconfig's context."""

    cluster: Body
    user: Body
    namespace: str = ""


def write_kubeconfig(path: Path, contexts: Mapping[str, Access], current: str) -> Path:
    """Write a kubeconfig with these contexts, which may belong to different API servers."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": access.cluster} for name, access in contexts.items()],
        "users": [{"name": name, "user": access.user} for name, access in contexts.items()],
        "contexts": [
            {
                "name": name,
                "context": {"cluster": name, "user": name}
                | ({"namespace": access.namespace} if access.namespace else {}),
            }
            for name, access in contexts.items()
        ],
        "current-context": current,
    }
    certificates.write_secret(path, json.dumps(config, indent=2).encode())
    return path


@contextmanager
def api_server(folder: Path, *, flags: Mapping[str, str] | None = None) -> Iterator[ApiServer]:
    """Run an API server with its etcd until the block or this process ends, even if the process is killed.

    Args:
        folder: for data, certificates and logs; the data is removed at the end, `log/` is kept.
        flags: flags of kube-apiserver without dashes; they are added or replace existing values.

    Raises ClusterError with the end of the log if the server does not become ready in time.

    """
    layout = Layout.of(folder)
    layout.make_folders()
    layout.audit_policy.write_text(json.dumps(_POLICY))
    for attempt in range(1, STARTS + 1):
        processes: list[subprocess.Popen[bytes]] = []
        slot = Loopback(0, *_free_ports(3))
        certificates.issue_certificates(layout, slot)
        try:
            # Extended one by one, so that started processes are killed if a later one fails to start.
            processes.extend(_start(layout, component) for component in _components(layout, slot, flags or {}))
            client = _client(layout, slot)
            if not _ready(client, processes) and attempt < STARTS:
                continue
            if any(process.poll() is not None for process in processes) or not _answers(client):
                log = (layout.log / "apiserver.log").read_text(errors="replace")
                raise LocalClusterError(f"the API server in {folder} does not start: {log[-2000:]}")
            with contextlib.closing(client):
                yield ApiServer(layout.state, slot.server, client)
            return
        finally:
            for process in reversed(processes):
                process.kill()
                process.wait()
            shutil.rmtree(layout.etcd, ignore_errors=True)


_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "None", "users": ["system:apiserver"]}, {"level": "Metadata"}],
}


@dataclass(frozen=True)
class Loopback(Slot):
    """The addresses of an API server on this machine's loopback."""

    api_port: int
    etcd_port: int
    peer_port: int

    @property
    def node_ip(self) -> str:
        """Loopback."""
        return "127.0.0.1"

    @property
    def server(self) -> str:
        """Its URL."""
        return f"https://127.0.0.1:{self.api_port}"


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for listener in sockets:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in sockets]


def _components(layout: Layout, slot: Loopback, flags: Mapping[str, str]) -> list[ClusterComponent]:
    """Return the local cluster's etcd and kube-apiserver, with other addresses."""
    needed = {"etcd", "kube-apiserver"}
    every = components(
        layout, slot, ClusterSpec(audit=True), lambda name: find_program(name) if name in needed else Path(name)
    )
    etcd, peer = f"http://127.0.0.1:{slot.etcd_port}", f"http://127.0.0.1:{slot.peer_port}"
    changes = {
        "etcd": {
            "listen-client-urls": etcd,
            "advertise-client-urls": etcd,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
        },
        "apiserver": {
            "etcd-servers": etcd,
            "bind-address": "127.0.0.1",
            # kube-apiserver refuses to advertise a loopback address. No pod uses this one.
            "advertise-address": "192.0.2.1",
            "endpoint-reconciler-type": "none",
            "secure-port": str(slot.api_port),
            **flags,
        },
    }
    chosen = {component.name: component for component in every if component.name in changes}
    return [
        replace(chosen[name], argv=_with_flags(chosen[name].argv, changed), after=())
        for name, changed in changes.items()
    ]


def _with_flags(argv: Sequence[str], changed: Mapping[str, str]) -> tuple[str, ...]:
    kept = [word for word in argv if word.partition("=")[0].removeprefix("--") not in changed]
    return (*kept, *(f"--{name}={value}" for name, value in changed.items()))


def _start(layout: Layout, component: ClusterComponent) -> subprocess.Popen[bytes]:
    with (layout.log / f"{component.name}.log").open("wb") as log:
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", *component.argv],
            cwd=layout.state,
            env={
                "PATH": "/usr/bin:/bin",
                "HOME": str(layout.tmp),
                "TMPDIR": str(layout.tmp),
                **component.environment,
            },
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def _client(layout: Layout, slot: Slot) -> httpx.Client:
    tls = ssl.create_default_context(cafile=str(layout.certs / "ca.crt"))
    tls.load_cert_chain(layout.certs / "admin.crt", layout.certs / "admin.key")
    return httpx.Client(base_url=slot.server, verify=tls, timeout=30, trust_env=False)


def _ready(client: httpx.Client, processes: Sequence[subprocess.Popen[bytes]]) -> bool:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and all(process.poll() is None for process in processes):
        if _answers(client):
            return True
        time.sleep(_POLL_SECONDS)
    return False


def _answers(client: httpx.Client) -> bool:
    """Return whether the server is ready and has created its own namespaces, which happens after `/readyz` succeeds."""
    paths = ("/readyz", "/api/v1/namespaces/kube-system", "/api/v1/namespaces/default")
    try:
        return all(client.get(path).status_code == httpx.codes.OK for path in paths)
    except httpx.TransportError:
        return False


def _event(event: Body) -> Event:
    reference = event.get("objectRef") or {}
    resource, group = reference.get("resource", ""), reference.get("apiGroup", "")
    part = f"/{reference['subresource']}" if "subresource" in reference else ""
    return Event(
        user=event["user"].get("username", ""),
        verb=event["verb"],
        uri=event["requestURI"],
        resource=f"{resource}{f'.{group}' if group else ''}{part}",
        namespace=reference.get("namespace", ""),
        name=reference.get("name", ""),
        code=event.get("responseStatus", {}).get("code", 0),
        dry_run="dryRun=" in event["requestURI"],
    )
