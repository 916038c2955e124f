"""Probes of components. Standard library only."""

import socket
import ssl
import urllib.request
from functools import cache
from pathlib import Path

from trainstack.local_cluster.supervisor_plan import Probe

TIMEOUT_SECONDS = 1.0


@cache
def _tls(certs: str, client: str) -> ssl.SSLContext:
    """Return a client's TLS settings. They do not verify the server, which has an address of the node itself."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.load_cert_chain(f"{certs}/{client}.crt", f"{certs}/{client}.key")
    return context


def is_ready(probe: Probe, certs: str) -> bool:
    """Return whether a probe succeeds. `certs` is the folder of the client certificates."""
    if probe.kind == "started":
        return True
    if probe.kind == "file":
        return Path(probe.target).exists()
    if probe.kind == "socket":
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(TIMEOUT_SECONDS)
            try:
                client.connect(probe.target)
            except OSError:
                return False
            return True
    try:
        handlers = (urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=_tls(certs, probe.client)))
        with urllib.request.build_opener(*handlers).open(probe.target, timeout=TIMEOUT_SECONDS) as response:
            return bool(response.status == 200)
    except OSError:
        return False
