"""The objects that remain in the cluster after a `destroy`, and the reasons."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from trainstack.objects.labels import RETAIN, Manifest
from trainstack.objects.ownership import Identity
from trainstack.settings.model import Settings

_DATA = "its data is kept (retain: true)"
_DEFINITION = "deleting it would delete every team's objects of that kind"


_ALWAYS = frozenset(("CustomResourceDefinition", "PersistentVolume"))
_BY_ANNOTATION = frozenset(("Namespace", "PersistentVolumeClaim"))


def is_retained(kind: str, metadata: Mapping[str, Any]) -> bool:
    """Return whether an object with this declared metadata remains in the cluster when the engine forgets it."""
    annotations = metadata.get("annotations") or {}
    return kind in _ALWAYS or (kind in _BY_ANNOTATION and annotations.get(RETAIN) != "false")


@dataclass(frozen=True, order=True)
class Retained:
    """An object that `destroy` does not delete."""

    kind: str
    namespace: str | None
    name: str
    reason: str

    @property
    def identity(self) -> Identity:
        return self.kind, self.namespace, self.name


def retained(settings: Settings, release: Iterable[Manifest] = ()) -> list[Retained]:
    """List the retained objects: volumes, their namespaces, and CRDs.

    `operator_manifests`: the objects of the operators, of which CRDs and namespaces with retained volumes remain.
    """
    objects = list(release)
    namespaces = {namespace.name for namespace in settings.environment.namespaces}
    namespaces |= {manifest["metadata"]["name"] for manifest in objects if manifest["kind"] == "Namespace"}
    claims = settings.storage.volumes if "training" in settings.environment.layers else ()
    volumes = [volume for volume in claims if volume.retain]
    holders: defaultdict[str, list[str]] = defaultdict(list)
    result = []
    for volume in volumes:
        result.append(Retained("PersistentVolumeClaim", volume.namespace, volume.name, _DATA))
        if volume.namespace in namespaces:
            holders[volume.namespace].append(volume.name)
    result += [
        Retained("Namespace", None, name, f"it holds the retained volume {', '.join(sorted(names))}")
        for name, names in sorted(holders.items())
    ]
    # Without the layer, the claims are another stack's, so any namespace may contain one.
    if "training" not in settings.environment.layers:
        result += [
            Retained("Namespace", None, name, "volumes of other stacks may be in it")
            for name in sorted(namespaces - holders.keys())
        ]
    result += [
        Retained("PersistentVolume", None, volume.name, f"its folder {volume.host_path} on the node holds data")
        for volume in (settings.storage.persistent_volumes if "platform" in settings.environment.layers else ())
    ]
    result += [
        Retained("CustomResourceDefinition", None, manifest["metadata"]["name"], _DEFINITION)
        for manifest in objects
        if manifest["kind"] == "CustomResourceDefinition"
    ]
    return result
