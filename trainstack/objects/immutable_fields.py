"""The fields of declared objects that the API server refuses to change, and how live objects differ in them.

The other declared kinds have none, or none that a change can affect. Launches and their ConfigMaps get a new name for
new content. The engine replaces the role bindings, Secrets of another type, Services and Deployments in its state, and
the guards refuse such objects of other owners. A separate check covers operators' definitions
(guards/definition_releases.py).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainstack.objects.labels import is_field_manager
from trainstack.settings.sections.storage import VOLUME_SOURCES
from trainstack.settings.values.field_paths import value_at

Body = Mapping[str, Any]


@dataclass(frozen=True)
class ImmutableField:
    """A field that keeps its first value until the object is deleted."""

    path: str
    """The path in the object, such as `spec.levels`."""
    setting: str
    """The key of its value in the settings; empty if they cannot change it."""
    default: Any = None
    """The value in a live object without the field."""
    immutable_if_set: str = ""
    """The field that makes this one immutable while it is set; empty if this field is always immutable."""
    is_replaced: bool = False
    """Whether the engine replaces an object in its state, which makes the change possible."""
    is_unordered: bool = False
    """Whether the order of the elements has no meaning."""
    is_set_by_cluster: bool = False
    """Whether the cluster sets the field, or keys of it, where the manifest omits them."""
    is_merged: bool = False
    """Whether a map keeps the keys that only the live object has, if another owner set them."""

    @property
    def name(self) -> str:
        return self.setting or self.path

    def settings_path(self, object_path: str) -> str:
        """Return the path of the value in the settings, or `object_path` if the settings cannot change it.

        `object_path`: the path of the object in the settings.
        """
        return f"{object_path}.{self.setting}" if self.setting else object_path


_TOPOLOGY_NAME = "spec.topologyName"
IMMUTABLE_FIELDS: Mapping[str, tuple[str, tuple[ImmutableField, ...]]] = {
    # ValidateStorageClassUpdate, pkg/apis/storage/validation of Kubernetes. What is replaced: forceNew in
    # provider/pkg/provider/diff.go of pulumi-kubernetes.
    "StorageClass": (
        "storage.classes",
        (
            ImmutableField("provisioner", "provisioner", is_replaced=True),
            ImmutableField("parameters", "parameters", is_replaced=True, is_merged=True),
            ImmutableField("reclaimPolicy", "reclaimPolicy", default="Delete"),
            ImmutableField("volumeBindingMode", "volumeBindingMode", default="Immediate"),
        ),
    ),
    # ValidatePersistentVolumeUpdate, pkg/apis/core/validation. Volumes are retained, so the engine replaces none.
    "PersistentVolume": (
        "storage.persistentVolumes",
        (
            ImmutableField("spec.hostPath.path", "hostPath"),
            ImmutableField("spec.hostPath.type", "hostPathType", default=""),
            *(
                ImmutableField(f"spec.{source}", f"source.{source}", is_set_by_cluster=True)
                for source in VOLUME_SOURCES
            ),
            ImmutableField("spec.nodeAffinity", "node", immutable_if_set="spec.nodeAffinity"),
            ImmutableField("spec.volumeMode", "", default="Filesystem"),
        ),
    ),
    # ValidatePersistentVolumeClaimUpdate. A claim may grow; replacing it loses its data (guards.volumes).
    "PersistentVolumeClaim": (
        "storage.volumes",
        (
            ImmutableField("spec.storageClassName", "storageClass", is_set_by_cluster=True),
            ImmutableField("spec.volumeName", "volumeName", is_set_by_cluster=True),
            ImmutableField("spec.dataSource", "dataSource", is_set_by_cluster=True),
            ImmutableField("spec.dataSourceRef", "dataSourceRef", is_set_by_cluster=True),
            ImmutableField("spec.accessModes", "accessModes", is_unordered=True),
            ImmutableField("spec.selector.matchLabels", "selector"),
            ImmutableField("spec.volumeMode", "", default="Filesystem"),
        ),
    ),
    # The rules with `oldSelf` in Kueue's definitions; a test compares them.
    "Topology": ("queues.topologies", (ImmutableField("spec.levels", "levels"),)),
    "AdmissionCheck": ("queues.admissionChecks", (ImmutableField("spec.controllerName", "controllerName"),)),
    "ResourceFlavor": (
        "queues.flavors",
        (
            ImmutableField("spec.nodeLabels", "nodeLabels", immutable_if_set=_TOPOLOGY_NAME),
            ImmutableField("spec.nodeTaints", "nodeTaints", immutable_if_set=_TOPOLOGY_NAME),
            ImmutableField("spec.tolerations", "tolerations", immutable_if_set=_TOPOLOGY_NAME),
            ImmutableField("spec.topologyName", "topology", immutable_if_set=_TOPOLOGY_NAME),
        ),
    ),
    # `replace_on_changes` in components.queues.
    "LocalQueue": ("queues.localQueues", (ImmutableField("spec.clusterQueue", "clusterQueue", is_replaced=True),)),
}
"""The list in the settings that declares a kind's objects, and the kind's immutable fields, by kind."""


@dataclass(frozen=True)
class Difference:
    """An immutable field whose live value differs from the declared one; both values are text, `none` if absent."""

    field: ImmutableField
    live: str
    declared: str


def differences(manifest: Body, live: Body, *, is_own: bool) -> Iterator[Difference]:
    """Yield the immutable fields in which a live object differs from its manifest.

    `is_own`: whether this stack created the object. If so, a field that the manifest omits is removed; otherwise the
    live field is kept, and is no difference.
    """
    _, fields = IMMUTABLE_FIELDS.get(manifest["kind"], ("", ()))
    for field in fields:
        declared_value, live_value = _field_value(manifest, field), _field_value(live, field)
        is_omitted = value_at(manifest, field.path) in (None, [], {})
        if field.is_merged and not is_own:
            live_value = (
                {key: value for key, value in live_value.items() if key in declared_value}
                if live_value and declared_value
                else None
            )
        if field.is_set_by_cluster:
            live_value = _declared_part(live_value, declared_value)
        keeps_live_value = is_omitted and (
            not is_own or (field.is_set_by_cluster and not _was_declared(live, field.path))
        )
        if field.immutable_if_set and not value_at(live, field.immutable_if_set):
            continue
        if declared_value != live_value and not keeps_live_value:
            yield Difference(field, _format_value(live_value), _format_value(declared_value))


def _was_declared(live: Body, path: str) -> bool:
    """Whether a state of Trainstack has applied a field of a live object."""
    for entry in live["metadata"].get("managedFields") or ():
        fields = entry.get("fieldsV1") or {}
        for key in path.split("."):
            fields = fields.get(f"f:{key}") if isinstance(fields, Mapping) else None
        if fields is not None and is_field_manager(str(entry.get("manager", ""))):
            return True
    return False


def _declared_part(live: Any, declared: Any) -> Any:
    """Return a live value without the keys of maps that only it has."""
    if not isinstance(live, Mapping) or not isinstance(declared, Mapping):
        return live
    return {key: _declared_part(value, declared[key]) for key, value in live.items() if key in declared}


def _field_value(body: Body, field: ImmutableField) -> Any:
    value = value_at(body, field.path)
    value = field.default if value in (None, [], {}) else value
    return sorted(value) if field.is_unordered and value else value


def _format_value(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    if isinstance(value, list) and all(isinstance(item, Mapping) and len(item) == 1 for item in value):
        return ", ".join(str(element) for item in value for element in item.values())
    return "none" if value is None else str(value)
