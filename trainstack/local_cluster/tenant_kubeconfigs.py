"""Kubeconfigs of service accounts, for the cluster's tenants."""

from pathlib import Path

from trainstack.local_cluster.api import ApiClient, ApiError
from trainstack.local_cluster.certificates import kubeconfig, write_secret
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.state_folder import Layout

TOKEN_SECONDS = 30 * 24 * 3600
"""Lifetime of a service account's token: 30 days."""


def write_kubeconfig(cluster: LocalCluster, account: str, output: Path | None = None) -> Path:
    """Write a kubeconfig for a service account in its namespace, with mode 0600; return its path.

    `account` is `<namespace>/<name>`. Without `output`, the file is in the state folder. Raises LocalClusterError if
    the account does not exist.
    """
    namespace, slash, name = account.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise LocalClusterError(
            f"{account!r} is not of the form <namespace>/<service account>, as in eidf001/researcher"
        )
    layout = Layout.of(cluster.state)
    api = ApiClient(cluster.server, layout.certs)
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_SECONDS},
    }
    # A token of limited lifetime: a token Secret would remain valid until somebody deletes it.
    try:
        token = api.request("POST", f"{path}/{name}/token", body)["status"]["token"]
    except ApiError as error:
        if error.status != 404:
            raise
        existing_accounts = ", ".join(item["metadata"]["name"] for item in api.request("GET", path)["items"]) or "none"
        raise LocalClusterError(
            f"There is no service account {name} in namespace {namespace}; existing ones: {existing_accounts}."
        ) from error
    file = output or layout.kubeconfigs / f"{namespace}-{name}"
    if output is None:
        file.parent.mkdir(mode=0o700, exist_ok=True)
    content = kubeconfig(cluster.server, (layout.certs / "ca.crt").read_bytes(), {"token": token}, namespace)
    write_secret(file, content.encode())
    return file
