"""The objects that remain in the cluster after a `destroy`, and the reasons."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from trainstack.objects.labels import RETAIN, Manifest
from trainstack.objects.ownership import Identity, identity
from trainstack.platform import other_objects
from trainstack.settings.model import Settings
from trainstack.settings.sections.storage import PersistentVolume

_DATA_REASON = "its data is kept (retain: true)"
_DEFINITION_REASON = "deleting it would delete every team's objects of that kind"


_ALWAYS_RETAINED_KINDS = frozenset(("CustomResourceDefinition", "PersistentVolume"))
_ANNOTATED_KINDS = frozenset(("Namespace", "PersistentVolumeClaim"))


def is_retained(kind: str, metadata: Mapping[str, Any]) -> bool:
    """Return whether an object with this declared metadata remains in the cluster when the engine forgets it."""
    annotations = metadata.get("annotations") or {}
    return kind in _ALWAYS_RETAINED_KINDS or (kind in _ANNOTATED_KINDS and annotations.get(RETAIN) != "false")


@dataclass(frozen=True, order=True)
class RetainedObject:
    """An object that `destroy` does not delete."""

    kind: str
    namespace: str | None
    name: str
    reason: str

    @property
    def identity(self) -> Identity:
        return self.kind, self.namespace, self.name


def _volume_reason(volume: PersistentVolume) -> str:
    place = f"folder {volume.host_path} on the node" if volume.source is None else f"{next(iter(volume.source))} volume"
    return f"its {place} holds data"


def list_retained_objects(settings: Settings, operator_manifests: Iterable[Manifest] = ()) -> list[RetainedObject]:
    """List the retained objects: volumes, their namespaces, and CRDs.

    `operator_manifests`: the objects of the operators, of which CRDs and namespaces with retained volumes remain.
    """
    manifests = list(operator_manifests)
    namespaces = {namespace.name for namespace in settings.environment.namespaces}
    namespaces |= {manifest["metadata"]["name"] for manifest in manifests if manifest["kind"] == "Namespace"}
    declared_volumes = settings.storage.volumes if "training" in settings.environment.layers else ()
    retained_claims = [(volume.namespace, volume.name) for volume in declared_volumes if volume.retain]
    retained_others = [
        identity(manifest)
        for manifest in other_objects.manifests(settings)
        if is_retained(manifest["kind"], manifest["metadata"])
    ]
    retained_claims += [(str(namespace), name) for _, namespace, name in retained_others if namespace]
    volume_names_by_namespace: defaultdict[str, list[str]] = defaultdict(list)
    result = []
    for namespace, name in retained_claims:
        result.append(RetainedObject("PersistentVolumeClaim", namespace, name, _DATA_REASON))
        if namespace in namespaces:
            volume_names_by_namespace[namespace].append(name)
    result += [
        RetainedObject("Namespace", None, name, f"it holds the retained volume {', '.join(sorted(names))}")
        for name, names in sorted(volume_names_by_namespace.items())
    ]
    # Without the layer, the claims are another stack's, so any namespace may contain one.
    if "training" not in settings.environment.layers:
        result += [
            RetainedObject("Namespace", None, name, "volumes of other stacks may be in it")
            for name in sorted(namespaces - volume_names_by_namespace.keys())
        ]
    result += [
        RetainedObject("PersistentVolume", None, volume.name, _volume_reason(volume))
        for volume in (settings.storage.persistent_volumes if "platform" in settings.environment.layers else ())
    ]
    result += [
        RetainedObject(kind, None, name, "it holds data") for kind, namespace, name in retained_others if not namespace
    ]
    result += [
        RetainedObject("CustomResourceDefinition", None, manifest["metadata"]["name"], _DEFINITION_REASON)
        for manifest in manifests
        if manifest["kind"] == "CustomResourceDefinition"
    ]
    return result
