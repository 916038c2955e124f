"""The engine's state, as `pulumi stack export` prints it: resources and pending operations.

Source: DeploymentV3 in sdk/go/common/apitype/core.go of Pulumi v3.259.0.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainstack.guards.definition_releases import API_VERSION, KIND, revisions_of_resource
from trainstack.guards.other_states import IDENTITY_RESOURCE_NAME, OwnState, StateObject
from trainstack.objects.labels import RUN
from trainstack.objects.ownership import Identity
from trainstack.runs.recorded_launches import state_resource

_KUBERNETES_PREFIX = "kubernetes:"
_BUILTIN_PREFIX = "pulumi:"
"""The prefix of types without objects, such as providers."""
_STASH = "pulumi:index:Stash"


@dataclass(frozen=True)
class RecordedObject:
    """A Kubernetes object in the engine's state."""

    api_version: str
    identity: Identity
    uid: str = ""
    """The UID of the object that the engine created or read last; empty if it does not exist yet or is encrypted."""
    is_launch: bool = False
    """Whether it is the object of a run, whose ledger remains after a TTL has removed it."""
    errors: tuple[str, ...] = ()
    """Why it was not ready when the engine last waited for it."""
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """The metadata of the live object, as the engine recorded it; {} if it is encrypted or unknown."""
    urn: str = ""
    is_retained: bool = False
    """Whether the object remains in the cluster when the engine removes it from the state."""
    is_in_release: bool = False
    """Whether it is a definition of a release, which is one resource: the program compares it in every change."""

    @property
    def kind(self) -> str:
        return self.identity[0]


@dataclass(frozen=True)
class PendingOperation:
    """An operation that was interrupted before the engine recorded its result."""

    verb: str
    """`creating`, `updating`, `deleting` or `reading`."""
    urn: str
    object: RecordedObject | None
    """None for other resources than Kubernetes objects, and for objects without a name."""


@dataclass(frozen=True)
class EngineState:
    """The objects and the interrupted operations of a stack's state."""

    objects: tuple[RecordedObject, ...] = ()
    pending_operations: tuple[PendingOperation, ...] = ()
    replaced_objects: tuple[RecordedObject, ...] = ()
    """Old objects that a replacement has not deleted yet."""
    foreign_resource_urns: tuple[str, ...] = ()
    """The URNs of resources of other providers, which only a project's own program declares."""
    identity: str = ""
    """The identity of the state; empty before the first `up` with a release that generates one."""

    @property
    def own_state(self) -> OwnState:
        """The objects of the state, as the program reads them."""
        state_objects = {
            recorded.identity: StateObject(
                api_version=recorded.api_version, urn=recorded.urn, is_retained=recorded.is_retained
            )
            for recorded in self.objects
            if not recorded.is_in_release
        }
        identities = frozenset(recorded.identity for recorded in self.objects)
        return OwnState(self.identity, identities, objects=state_objects)


def read_state(export: Mapping[str, Any]) -> EngineState:
    """Read the parsed output of `pulumi stack export`. Raises ValueError for other data."""
    if "deployment" not in export:
        raise ValueError("it has no `deployment`, so it is not the output of `pulumi stack export`")
    deployment = export["deployment"] or {}
    resources = [resource for resource in deployment.get("resources") or () if not resource.get("external")]
    lasting_resources = [resource for resource in resources if not resource.get("delete")]
    return EngineState(
        objects=(*_recorded_objects(lasting_resources), *_recorded_definitions(lasting_resources)),
        pending_operations=tuple(
            PendingOperation(
                operation["type"], operation["resource"]["urn"], next(_recorded_objects([operation["resource"]]), None)
            )
            for operation in deployment.get("pending_operations") or ()
        ),
        replaced_objects=tuple(_recorded_objects(resource for resource in resources if resource.get("delete"))),
        foreign_resource_urns=tuple(
            resource["urn"]
            for resource in resources
            if resource.get("custom") and not resource["type"].startswith((_KUBERNETES_PREFIX, _BUILTIN_PREFIX))
        ),
        identity=next(filter(None, map(_identity, resources)), ""),
    )


def _identity(resource: Mapping[str, Any]) -> str:
    is_identity_stash = resource["type"] == _STASH and resource["urn"].endswith(f"::{IDENTITY_RESOURCE_NAME}")
    return str((resource.get("outputs") or {}).get("output") or "") if is_identity_stash else ""


def _recorded_objects(resources: Any) -> Iterator[RecordedObject]:
    for resource in resources:
        group_version, _, kind = resource["type"].removeprefix(_KUBERNETES_PREFIX).rpartition(":")
        namespace, name = _namespace_and_name(resource)
        if not resource.get("custom") or not resource["type"].startswith(_KUBERNETES_PREFIX) or not name:
            continue
        live_metadata = _metadata(resource, "outputs")
        yield RecordedObject(
            api_version=group_version.removeprefix("core/"),
            identity=(kind, namespace, name),
            uid=str(live_metadata.get("uid", "")),
            is_launch=RUN in (_metadata(resource, "inputs").get("labels") or {}) and kind != "ConfigMap",
            errors=tuple(resource.get("initErrors") or ()),
            metadata=live_metadata,
            urn=resource["urn"],
            is_retained=bool(resource.get("retainOnDelete")),
        )


def _recorded_definitions(resources: Iterable[Mapping[str, Any]]) -> Iterator[RecordedObject]:
    """Yield the definitions of releases. A release is one resource."""
    for resource in resources:
        if resource["type"] == _STASH:
            for name in revisions_of_resource(state_resource(resource["urn"], resource.get("outputs"))):
                yield RecordedObject(api_version=API_VERSION, identity=(KIND, None, name), is_in_release=True)


def _namespace_and_name(resource: Mapping[str, Any]) -> tuple[str | None, str]:
    """Return namespace and name. During creation, the state has only the inputs, and no generated name."""
    namespace, slash, name = str(resource.get("id") or "").rpartition("/")
    if name:
        return (namespace if slash else None), name
    metadata = _metadata(resource, "inputs")
    return metadata.get("namespace"), str(metadata.get("name", ""))


def _metadata(resource: Mapping[str, Any], side: str) -> Mapping[str, Any]:
    # Encrypted metadata is a string.
    metadata = (resource.get(side) or {}).get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}
