"""The fields of declared objects that the API server refuses to change, and how live objects differ in them.

The other declared kinds have none, or none that a change can affect. Launches and their ConfigMaps get a new name for
new content. The engine replaces the role bindings, Secrets of another type, Services and Deployments in its state, and
the guards refuse such objects of other owners. A separate check covers operators' definitions (guards/definitions.py).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

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
    unless_unset: str = ""
    """The field that makes this one immutable while it is set; empty if this field is always immutable."""
    is_replaced: bool = False
    """Whether the engine replaces an object in its state, which makes the change possible."""
    is_set: bool = False
    """Whether the order of the elements has no meaning."""
    is_merged: bool = False
    """Whether a map keeps the keys that only the live object has, if another owner set them."""

    @property
    def name(self) -> str:
        return self.setting or self.path

    def in_settings(self, path: str) -> str:
        """Return the path of the value in the settings, or `object_path` if the settings cannot change it.

        `object_path`: the path of the object in the settings.
        """
        return f"{path}.{self.setting}" if self.setting else path


_SPEC = "spec.topologyName"
IMMUTABLE: Mapping[str, tuple[str, tuple[ImmutableField, ...]]] = {
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
            ImmutableField("spec.nodeAffinity", "node", unless_unset="spec.nodeAffinity"),
            ImmutableField("spec.volumeMode", "", default="Filesystem"),
        ),
    ),
    # ValidatePersistentVolumeClaimUpdate. A claim may grow; replacing it loses its data (guards.volumes).
    "PersistentVolumeClaim": (
        "storage.volumes",
        (
            ImmutableField("spec.storageClassName", "storageClass"),
            ImmutableField("spec.accessModes", "accessModes", is_set=True),
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
            ImmutableField("spec.nodeLabels", "nodeLabels", unless_unset=_SPEC),
            ImmutableField("spec.nodeTaints", "nodeTaints", unless_unset=_SPEC),
            ImmutableField("spec.tolerations", "tolerations", unless_unset=_SPEC),
            ImmutableField("spec.topologyName", "topology", unless_unset=_SPEC),
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
    _, fields = IMMUTABLE.get(manifest["kind"], ("", ()))
    for field in fields:
        declared, current = _value(manifest, field), _value(live, field)
        if field.is_merged and not is_own:
            current = (
                {key: value for key, value in current.items() if key in declared} if current and declared else None
            )
        is_kept = not is_own and not declared
        if field.unless_unset and not value_at(live, field.unless_unset):
            continue
        if declared != current and not is_kept:
            yield Difference(field, _text(current), _text(declared))


def _value(body: Body, field: ImmutableField) -> Any:
    value = value_at(body, field.path)
    value = field.default if value in (None, [], {}) else value
    return sorted(value) if field.is_set and value else value


def _text(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    if isinstance(value, list) and all(isinstance(item, Mapping) and len(item) == 1 for item in value):
        return ", ".join(str(only) for item in value for only in item.values())
    return "none" if value is None else str(value)
