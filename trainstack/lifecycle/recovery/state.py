"""The engine's state, as `pulumi stack export` gives it: what it knows of the cluster, and what it was about to do.

Source: DeploymentV3 in sdk/go/common/apitype/core.go of Pulumi v3.250.0.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainstack.guards.states import MEMORY, OwnState
from trainstack.objects.labels import RUN
from trainstack.objects.ownership import Identity

_PREFIX = "kubernetes:"
_STASH = "pulumi:index:Stash"


@dataclass(frozen=True)
class Recorded:
    """A Kubernetes object in the state."""

    api_version: str
    identity: Identity
    uid: str = ""
    """Of the object that the engine made or read last; empty where it has none yet, or where it is encrypted."""
    is_launch: bool = False
    """Of a run: a time to live may have removed it, and its ledger remembers it."""
    errors: tuple[str, ...] = ()
    """Why it was not ready when the engine last waited for it."""

    @property
    def kind(self) -> str:
        """Its kind."""
        return self.identity[0]


@dataclass(frozen=True)
class Pending:
    """An operation that was begun, and of whose end the engine heard nothing."""

    doing: str
    """`creating`, `updating`, `deleting` or `reading`."""
    urn: str
    object: Recorded | None
    """None for what is no Kubernetes object, or has no name yet."""


@dataclass(frozen=True)
class State:
    """What the engine knows."""

    objects: tuple[Recorded, ...] = ()
    pending: tuple[Pending, ...] = ()
    replaced: tuple[Recorded, ...] = ()
    """Old objects that a replacement has yet to delete."""
    identity: str = ""
    """Of the state itself; empty before its first `up` with a release that gives it one."""

    @property
    def own(self) -> OwnState:
        """The identity that distinguishes its objects from those of another state."""
        return OwnState(self.identity, frozenset(each.identity for each in self.objects))


def read_state(export: Mapping[str, Any]) -> State:
    """The state, from the parsed output of `pulumi stack export`.

    Raises ValueError for what is no export.
    """
    if "deployment" not in export:
        raise ValueError("it has no `deployment`, so it is not what `pulumi stack export` prints")
    deployment = export["deployment"] or {}
    resources = [each for each in deployment.get("resources") or () if not each.get("external")]
    return State(
        objects=tuple(_recorded(each for each in resources if not each.get("delete"))),
        pending=tuple(
            Pending(each["type"], each["resource"]["urn"], next(_recorded([each["resource"]]), None))
            for each in deployment.get("pending_operations") or ()
        ),
        replaced=tuple(_recorded(each for each in resources if each.get("delete"))),
        identity=next((_identity(each) for each in resources if _identity(each)), ""),
    )


def _identity(resource: Mapping[str, Any]) -> str:
    found = resource["type"] == _STASH and resource["urn"].endswith(f"::{MEMORY}")
    return str((resource.get("outputs") or {}).get("output") or "") if found else ""


def _recorded(resources: Any) -> Iterator[Recorded]:
    for each in resources:
        version, _, kind = each["type"].removeprefix(_PREFIX).rpartition(":")
        namespace, name = _name(each)
        if not each.get("custom") or not each["type"].startswith(_PREFIX) or not name:
            continue
        yield Recorded(
            api_version=version.removeprefix("core/"),
            identity=(kind, namespace, name),
            uid=str(_metadata(each, "outputs").get("uid", "")),
            is_launch=RUN in (_metadata(each, "inputs").get("labels") or {}) and kind != "ConfigMap",
            errors=tuple(each.get("initErrors") or ()),
        )


def _name(resource: Mapping[str, Any]) -> tuple[str | None, str]:
    """Namespace and name: of what is being created the state has the inputs alone, and no name of generateName."""
    namespace, slash, name = str(resource.get("id") or "").rpartition("/")
    if name:
        return (namespace if slash else None), name
    metadata = _metadata(resource, "inputs")
    return metadata.get("namespace"), str(metadata.get("name", ""))


def _metadata(resource: Mapping[str, Any], side: str) -> Mapping[str, Any]:
    """{} where it is not there, or is encrypted."""
    found = (resource.get(side) or {}).get("metadata")
    return found if isinstance(found, Mapping) else {}
