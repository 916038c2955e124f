"""Kubeconfigs of service accounts: what a tenant of the cluster gets."""

from pathlib import Path

from trainstack.dev.cluster.api import Api, ApiError
from trainstack.dev.cluster.certificates import kubeconfig, write_secret
from trainstack.dev.cluster.cluster import Cluster
from trainstack.dev.cluster.errors import ClusterError
from trainstack.dev.cluster.layout import Layout

TOKEN_SECONDS = 30 * 24 * 3600
"""How long a token is good; a new kubeconfig has a new one."""


def write_kubeconfig(running: Cluster, account: str, output: Path | None = None) -> Path:
    """Write a kubeconfig that acts as a service account in its namespace, mode 0600; its path.

    `account` is `<namespace>/<name>`. `output` None: a file of the state folder. Raises ClusterError where there is no
    such account, and OSError where the file cannot be written.
    """
    namespace, slash, name = account.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise ClusterError(f"{account!r} is no <namespace>/<service account>, such as eidf001/researcher")
    layout = Layout.of(running.state)
    api = Api(running.server, layout.certs)
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_SECONDS},
    }
    try:
        token = api.request("POST", f"{path}/{name}/token", body)["status"]["token"]
    except ApiError as error:
        if error.status != 404:
            raise
        there = ", ".join(each["metadata"]["name"] for each in api.request("GET", path)["items"]) or "none"
        raise ClusterError(
            f"There is no service account {name} in namespace {namespace}; there are: {there}."
        ) from error
    file = output or layout.kubeconfigs / f"{namespace}-{name}"
    if output is None:
        file.parent.mkdir(mode=0o700, exist_ok=True)
    content = kubeconfig(running.server, (layout.certs / "ca.crt").read_bytes(), {"token": token}, namespace)
    write_secret(file, content.encode())
    return file
