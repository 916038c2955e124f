"""What somebody asked an API server, by its audit log, as the rights that it took.

Format: https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainstack.dev.cluster.cluster import Cluster
from trainstack.dev.cluster.layout import Layout
from trainstack.platform.rbac.rights import API, Grant

SELF = {"authorization.k8s.io", "authentication.k8s.io"}
"""API groups of what everybody may ask of themselves: the role `system:basic-user`."""
_CREATED = 201


@dataclass(frozen=True)
class Request:
    """One answered request."""

    verb: str
    uri: str
    code: int
    reference: dict[str, str]
    """What it was about; {} where it was no object's path, such as `/version`."""
    reason: str
    """Why it was allowed or not, in the authorizer's words."""

    @property
    def grant(self) -> Grant | None:
        """The right that it took; None where everybody has it who is known to the cluster."""
        ref = self.reference
        if not ref or ref.get("apiGroup", "") in SELF:
            return None
        part = f"/{ref['subresource']}" if "subresource" in ref else ""
        group, resource = ref.get("apiGroup", ""), f"{ref['resource']}{part}"
        return Grant(group, resource, self.verb, ref.get("namespace", ""), ref.get("name", ""))

    @property
    def took(self) -> set[Grant]:
        """All rights that it took. Within a request for one verb the API server asks for others too.

        A server-side apply that makes an object, also as a dry run, takes `create`; one that writes a role takes
        `escalate`. (Both are asked for before what the caller holds is looked at.)
        """
        first = self.grant
        if first is None:
            return set()
        also = {"create"} if first.verb == "patch" and self.code == _CREATED else set()
        if first.group == API and first.resource in ("roles", "clusterroles") and first.verb in ("create", "patch"):
            also |= {"escalate"}
        return {first, *(Grant(first.group, first.resource, verb, first.namespace, first.name) for verb in also)}


def writes(cluster: Cluster, user: str) -> list[str]:
    """The paths that a user has written to since the cluster's start, in order."""
    return [
        request.uri
        for request in requests(cluster, user)
        if request.verb in ("create", "update", "patch", "delete", "deletecollection")
        and request.reference.get("apiGroup", "") not in SELF
        and "dryRun=" not in request.uri
    ]


def requests(cluster: Cluster, user: str) -> list[Request]:
    """What a user has asked since the cluster's start."""
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
                reference={key: str(each) for key, each in (event.get("objectRef") or {}).items()},
                reason=annotations.get("authorization.k8s.io/reason", ""),
            )
        )
    return found


def _lines(log: Path) -> Iterable[str]:
    # A line that is being written ends without a line feed.
    text = log.read_text(encoding="utf-8")
    return text[: text.rfind("\n") + 1].splitlines()
