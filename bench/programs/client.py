"""The connection of an HTTP client to the cluster of a kubeconfig."""

import base64
import ssl
import tempfile
from pathlib import Path
from typing import Any

import yaml


def connection(kubeconfig: Path) -> dict[str, Any]:
    """Return the arguments of a client of httpx, with the certificate or token of the file's only user."""
    config = yaml.load(kubeconfig.read_text(), yaml.CSafeLoader)
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    tls = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    if "client-certificate-data" in user:
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"".join(base64.b64decode(user[f"client-{part}-data"]) for part in ("certificate", "key")))
            file.flush()
            tls.load_cert_chain(file.name)
    headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
    return {"base_url": cluster["server"], "verify": tls, "headers": headers, "timeout": 60, "trust_env": False}
