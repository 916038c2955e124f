"""A command that is killed while it connects to a cluster leaves no key on the disk."""

import base64
import json
import os
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def make_user(plugin: Path | None) -> dict[str, Any]:
    """Return a user with a key, in the kubeconfig or from a plugin for credentials."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "someone")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    formats = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    secret = key.private_bytes(serialization.Encoding.PEM, *formats)
    if plugin is None:
        return {
            "client-certificate-data": base64.b64encode(pem).decode(),
            "client-key-data": base64.b64encode(secret).decode(),
        }
    version = "client.authentication.k8s.io/v1"
    status = {"clientCertificateData": pem.decode(), "clientKeyData": secret.decode()}
    plugin.write_text(json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status}))
    return {
        "exec": {"apiVersion": version, "command": "cat", "args": [str(plugin)], "interactiveMode": "Never"},
    }


@pytest.mark.parametrize("source", ["kubeconfig", "plugin"])
def test_no_key_is_left(tmp_path: Path, source: str) -> None:
    """The library for TLS reads keys from files, which are in memory."""
    temporary, file = tmp_path / "temporary", tmp_path / "kubeconfig"
    temporary.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        cluster = {"server": f"https://127.0.0.1:{silent.getsockname()[1]}", "insecure-skip-tls-verify": True}
        config = {
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": make_user(tmp_path / "answer" if source == "plugin" else None)}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **config}))
        variables = {**os.environ, "KUBECONFIG": str(file), "TMPDIR": str(temporary)}
        command = "from trainstack.live.client import reach; reach(None)"
        with subprocess.Popen([sys.executable, "-c", command], env=variables) as process:
            silent.settimeout(60)
            silent.accept()[0].close()
            process.kill()
    assert list(temporary.iterdir()) == []
