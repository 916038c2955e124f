"""Count writes in the API server's audit log.

Format: https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/
"""

import json
from pathlib import Path

USER = "trainstack-admin"
"""Name of the local cluster's administrator, whose kubeconfig all commands use; controllers have other names."""
_VERBS = frozenset(("create", "update", "patch", "delete", "deletecollection"))
_REVIEWS = frozenset(("authorization.k8s.io", "authentication.k8s.io"))
"""API groups of questions, which are asked with `create`."""


def counted(log: Path, offset: int = 0) -> tuple[int, int]:
    """Return how many writes the server accepted after the first `offset` bytes of the log, and how many dry runs."""
    with log.open("rb") as file:
        file.seek(offset)
        content = file.read()
    writes = dry_runs = 0
    # A line that is being written ends without a line feed.
    for line in content[: content.rfind(b"\n") + 1].splitlines():
        event = json.loads(line)
        if (
            event["user"].get("username") != USER
            or event["verb"] not in _VERBS
            or event["stage"] != "ResponseComplete"
            or (event.get("objectRef") or {}).get("apiGroup") in _REVIEWS
            or event.get("responseStatus", {}).get("code", 0) >= 300
        ):
            continue
        if "dryRun=" in event["requestURI"]:
            dry_runs += 1
        else:
            writes += 1
    return writes, dry_runs
