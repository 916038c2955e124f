"""Count writes in the API server's audit log.

Format: https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from bench.programs.client import connection

NAMESPACE, ACCOUNT = "default", "trainstack-bench"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
"""The user of all commands of a scene: the log leaves out the local cluster's administrator."""
_TOKEN_SECONDS = 24 * 3600
_VERBS = frozenset(("create", "update", "patch", "delete", "deletecollection"))
_REVIEWS = frozenset(("authorization.k8s.io", "authentication.k8s.io"))
"""API groups of questions, which are sent as `create`."""
_STREAMS = frozenset(("attach", "exec", "portforward"))
"""Subresources of pods that open a connection, by SPDY also as `create`."""


def counted(log: Path, offset: int = 0) -> tuple[int, int]:
    """Return how many writes and how many dry runs of USER the server accepted after the first `offset` bytes.

    An apply counts even if it changes nothing; questions such as a SelfSubjectAccessReview do not count.
    """
    with log.open("rb") as file:
        file.seek(offset)
        content = file.read()
    writes = dry_runs = 0
    # An incomplete line has no line feed.
    for line in content[: content.rfind(b"\n") + 1].splitlines():
        event = json.loads(line)
        target = event.get("objectRef") or {}
        if (
            event["user"].get("username") != USER
            or event["verb"] not in _VERBS
            or event["stage"] != "ResponseComplete"
            or target.get("apiGroup") in _REVIEWS
            or target.get("subresource") in _STREAMS
            or event.get("responseStatus", {}).get("code", 0) >= 300
        ):
            continue
        if "dryRun=" in event["requestURI"]:
            dry_runs += 1
        else:
            writes += 1
    return writes, dry_runs


@contextmanager
def audited(admin: Path, folder: Path) -> Iterator[Path]:
    """Yield a kubeconfig of an administrator whose requests are logged; the account exists as long as the block."""
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    binding = {
        "metadata": {"name": ACCOUNT},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
    }
    with httpx.Client(**connection(admin)) as api:

        def post(path: str, body: object) -> dict[str, dict[str, str]]:
            response = api.post(path, json=body)
            # A killed benchmark may have left the account.
            if response.status_code != httpx.codes.CONFLICT:
                response.raise_for_status()
            content: dict[str, dict[str, str]] = response.json()
            return content

        post(accounts, {"metadata": {"name": ACCOUNT}})
        try:
            post(bindings, binding)
            request = {"spec": {"expirationSeconds": _TOKEN_SECONDS}}
            token = post(f"{accounts}/{ACCOUNT}/token", request)["status"]["token"]
            config = json.loads(admin.read_text())
            config["users"][0]["user"] = {"token": token}
            file = folder / "kubeconfig"
            file.touch(mode=0o600)
            file.write_text(json.dumps(config))
            yield file
        finally:
            api.delete(f"{bindings}/{ACCOUNT}")
            api.delete(f"{accounts}/{ACCOUNT}")
