"""A git server in the cluster with a small repository, reached by ssh and by https with a private authority."""

import base64
import datetime as dt
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import NameOID

from tests.cluster.project import Project
from trainstack.local_cluster.images import Recipe, git

NAMESPACE = "forge"
HOST = f"forge.{NAMESPACE}.svc"
IMAGE = "registry.local/tests/forge:1"
USER = "reader"
PASSWORD = "canary-98d1-of-the-password"
BRANCH = "moving"
"""The branch of the repository with a password."""

START = """
set -e
mkdir -p /srv/git
for name in mnist public; do git clone --quiet --bare /forge/bundle "/srv/git/$name.git"; done
git config --global --add safe.directory "*"
mkdir -p /run/sshd /etc/keys
cp /forge/hostkey /forge/authorized /etc/keys
chmod 600 /etc/keys/hostkey
/usr/sbin/sshd -f /dev/null -p 2222 -h /etc/keys/hostkey -o AuthorizedKeysFile=/etc/keys/authorized \
  -o PasswordAuthentication=no -o UsePAM=no -o StrictModes=no -E /dev/stderr
exec python3 /forge/server.py /srv/git /forge/certificate /forge/key reader /forge/password
"""


def recipe() -> Recipe:
    """Return the server's image."""
    return git(("git", "openssh-server"), serve_as=(IMAGE,))


@dataclass(frozen=True)
class KeyPair:
    """An ssh key."""

    private: str
    public: str

    @staticmethod
    def make() -> "KeyPair":
        """Generate a key."""
        key = ed25519.Ed25519PrivateKey.generate()
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
        )
        public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        return KeyPair(private.decode(), public.decode())


@dataclass(frozen=True)
class Forge:
    """The data that a client of the server needs."""

    commits: tuple[str, ...]
    """The history, oldest first; in commit n, from 1, `main.py` prints n."""
    authority: str
    host_key: str
    client: KeyPair
    address: str
    """The address of https outside the cluster, where DNS lacks the name; empty: not served."""

    def url(self, name: str) -> str:
        """Return the https URL of a repository."""
        return f"https://{HOST}/{name}.git"

    def git_environment(self, folder: Path) -> dict[str, str]:
        """Return variables with which git on this machine reaches the server, with its authority and the password."""
        authority = folder / "authority.crt"
        authority.write_text(self.authority)
        values = {
            "http.curloptResolve": f"{HOST}:443:{self.address}",
            "credential.helper": f'!printf "username={USER}\\npassword={PASSWORD}\\n"; :',
        }
        pairs = [(f"GIT_CONFIG_KEY_{index}", key) for index, key in enumerate(values)]
        pairs += [(f"GIT_CONFIG_VALUE_{index}", value) for index, value in enumerate(values.values())]
        # The variable, because it overrides http.sslCAInfo if it is set.
        return {"GIT_SSL_CAINFO": str(authority), "GIT_CONFIG_COUNT": str(len(values)), **dict(pairs)}

    @property
    def ssh_url(self) -> str:
        """The ssh URL of the repository."""
        return f"ssh://root@{HOST}/srv/git/mnist.git"

    @property
    def known_hosts(self) -> str:
        """The known_hosts line of the server."""
        return f"{HOST} {self.host_key}\n"


def start(project: Project, folder: Path, program: str, address: str = "") -> Forge:
    """Start the server and wait until it is ready.

    Args:
        project: whose cluster it is in.
        folder: an empty one, for the repository.
        program: main.py, where NUMBER is replaced by the number of the commit.
        address: of the node; if set, https is also served there, outside the cluster.

    """
    commits = _repository(folder, program)
    certificate, key, authority = _certificates()
    host, client = KeyPair.make(), KeyPair.make()
    files = {
        "bundle": (folder / "bundle").read_bytes(),
        "server.py": (Path(__file__).parent / "forge_server.py").read_bytes(),
        "certificate": certificate,
        "key": key,
        "password": PASSWORD.encode(),
        "hostkey": host.private.encode(),
        "authorized": client.public.encode() + b"\n",
    }
    data = {name: base64.b64encode(content).decode() for name, content in files.items()}
    meta = {"name": "forge", "namespace": NAMESPACE}
    ports = {"https": (443, 8443), "ssh": (22, 2222)}
    container = {
        "name": "forge",
        "image": IMAGE,
        "command": ["sh", "-c", START],
        "volumeMounts": [{"name": "files", "mountPath": "/forge"}],
        "readinessProbe": {"tcpSocket": {"port": 8443}, "periodSeconds": 1},
    }
    spec = {
        "containers": [container],
        "terminationGracePeriodSeconds": 0,
        "volumes": [{"name": "files", "secret": {"secretName": "forge"}}],
    }
    service = {
        "selector": {"app": "forge"},
        "externalIPs": [address] if address else [],
        "ports": [{"name": name, "port": port, "targetPort": to} for name, (port, to) in ports.items()],
    }
    _apply(
        project,
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data},
        {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": service},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {**meta, "labels": {"app": "forge"}}, "spec": spec},
    )
    done = project.kubectl("wait", "-n", NAMESPACE, "pod/forge", "--for=condition=Ready", "--timeout=90s")
    assert done.code == 0, done.text + project.kubectl("logs", "-n", NAMESPACE, "forge").text
    return Forge(commits, authority.decode(), host.public, client, address)


def set_branch(project: Project, commit: str) -> None:
    """Set the branch to this commit, or delete it if the commit is empty."""
    words = ["update-ref", *([] if commit else ["-d"]), f"refs/heads/{BRANCH}", *([commit] if commit else [])]
    done = project.kubectl("exec", "-n", NAMESPACE, "forge", "--", "git", "-C", "/srv/git/mnist.git", *words)
    assert done.code == 0, done.text


def set_available(project: Project, *, yes: bool) -> None:
    """Connect the Service to the server, or to no pod."""
    patch = json.dumps({"spec": {"selector": {"app": "forge" if yes else "nothing"}}})
    done = project.kubectl("patch", "service", "forge", "-n", NAMESPACE, "--patch", patch)
    assert done.code == 0, done.text


def stop(project: Project) -> None:
    """Delete the server."""
    done = project.kubectl("delete", "namespace", NAMESPACE, "--timeout=60s", "--ignore-not-found")
    assert done.code == 0, done.text


def create_secret(project: Project, namespace: str, name: str, kind: str, **files: str) -> None:
    """Create a Secret as a user does; `_` in a key replaces the characters that Python names cannot have."""
    keys = {"ssh_privatekey": "ssh-privatekey", "ca_crt": "ca.crt"}
    data = {keys.get(key, key): text for key, text in files.items()}
    meta = {"name": name, "namespace": namespace}
    _apply(project, {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": kind, "stringData": data})


def _apply(project: Project, *objects: dict[str, Any]) -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    done = project.kubectl("apply", "--server-side", stdin=text)
    # The file may contain Secrets, and the test searches all files for them.
    (project.root / ".trainstack" / "stdin.yaml").unlink()
    assert done.code == 0, done.text


def _repository(folder: Path, program: str) -> tuple[str, ...]:
    work = folder / "work"
    work.mkdir()

    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
        return subprocess.run(
            ["git", "-C", str(work), *who, *words], capture_output=True, text=True, check=True
        ).stdout.strip()

    git("init", "--quiet")
    commits = []
    for number in (1, 2, 3):
        (work / "main.py").write_text(program.replace("NUMBER", str(number)))
        git("add", "main.py")
        git("commit", "--quiet", "-m", str(number))
        commits.append(git("rev-parse", "HEAD"))
    git("bundle", "create", str(folder / "bundle"), "--all")
    return tuple(commits)


def _certificates() -> tuple[bytes, bytes, bytes]:
    """Return the server's certificate and key, and the authority's certificate, in PEM."""
    authority_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority of the tests")])
    server_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    signer, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _certificate(authority_name, signer, authority_name, signer, x509.BasicConstraints(True, None))
    names = x509.SubjectAlternativeName([x509.DNSName(HOST)])
    certificate = _certificate(server_name, key, authority_name, signer, names)
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return certificate.public_bytes(pem), private, authority.public_bytes(pem)


def _certificate(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    signer: ec.EllipticCurvePrivateKey,
    extension: x509.ExtensionType,
) -> x509.Certificate:
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
    )
    return builder.sign(signer, hashes.SHA256())
