"""Probe whether a component is ready. Standard library only."""

import socket
import ssl
import urllib.request
from functools import cache
from pathlib import Path

from trainstack.local_cluster.plan import Probe

TIMEOUT_SECONDS = 1.0


@cache
def _tls(certs: str, client: str) -> ssl.SSLContext:
    """A client's TLS; servers on the node's own addresses are not verified."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.load_cert_chain(f"{certs}/{client}.crt", f"{certs}/{client}.key")
    return context


def ready(probe: Probe, certs: str) -> bool:
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
        with urllib.request.build_opener(*handlers).open(probe.target, timeout=TIMEOUT_SECONDS) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
