"""The requests of a user in an API server's audit log, and the rights that they required.

Format: https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.state_folder import Layout
from trainstack.platform.rbac.rights import API, Grant

SELF = {"authorization.k8s.io", "authentication.k8s.io"}
"""API groups of requests about oneself, which the role `system:basic-user` allows to everybody."""
_CREATED = 201


@dataclass(frozen=True)
class Request:
    """An answered request."""

    verb: str
    uri: str
    code: int
    reference: dict[str, str]
    """The object reference; {} for other paths, such as `/version`."""
    reason: str
    """The authorizer's reason to allow or deny it."""

    @property
    def grant(self) -> Grant | None:
        """The required right; None if every authenticated user has it."""
        ref = self.reference
        if not ref or ref.get("apiGroup", "") in SELF:
            return None
        part = f"/{ref['subresource']}" if "subresource" in ref else ""
        group, resource = ref.get("apiGroup", ""), f"{ref['resource']}{part}"
        return Grant(group, resource, self.verb, ref.get("namespace", ""), ref.get("name", ""))

    @property
    def used_grants(self) -> set[Grant]:
        """All required rights. For a request with one verb, the API server may check others too.

        A server-side apply that creates an object, also as a dry run, requires `create`; one that writes a role
        requires `escalate`. (Both are checked before the rights that the caller has.)
        """
        first = self.grant
        if first is None:
            return set()
        also = {"create"} if first.verb == "patch" and self.code == _CREATED else set()
        if first.group == API and first.resource in ("roles", "clusterroles") and first.verb in ("create", "patch"):
            also |= {"escalate"}
        return {first, *(Grant(first.group, first.resource, verb, first.namespace, first.name) for verb in also)}


def writes(cluster: LocalCluster, user: str) -> list[str]:
    """Return the paths to which a user has written since the cluster's start, in order."""
    return [
        request.uri
        for request in requests(cluster, user)
        if request.verb in ("create", "update", "patch", "delete", "deletecollection")
        and request.reference.get("apiGroup", "") not in SELF
        and "dryRun=" not in request.uri
    ]


def requests(cluster: LocalCluster, user: str) -> list[Request]:
    """Return the requests of a user since the cluster's start."""
    found = []
    for line in _lines(Layout.of(cluster.state).audit):
        event: dict[str, Any] = json.loads(line)
        if event["user"].get("username") != user or event["stage"] not in ("ResponseComplete", "ResponseStarted"):
            continue
        annotations = event.get("annotations") or {}
        found.append(
            Request(
                verb=event["verb"],
                uri=event["requestURI"],
                code=event.get("responseStatus", {}).get("code", 0),
                reference={key: str(value) for key, value in (event.get("objectRef") or {}).items()},
                reason=annotations.get("authorization.k8s.io/reason", ""),
            )
        )
    return found


def _lines(log: Path) -> Iterable[str]:
    # An incomplete line has no line feed yet.
    text = log.read_text(encoding="utf-8")
    return text[: text.rfind("\n") + 1].splitlines()
