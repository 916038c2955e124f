"""One live object as the element of a list of an environment's file, and what that element could not say.

Each `*_entry` takes what it knows of an object. Whether that is all is never judged here: `unsaid` builds the manifest
that the entry would give and compares it with the object, field by field.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from trainstack.objects.labels import HOSTNAME, MANAGED_BY, NAMESPACE_NAME, OWNER, STACK, Manifest
from trainstack.onboarding.adopt.found import Body
from trainstack.platform import queues as build_queues
from trainstack.platform import storage as build_storage
from trainstack.settings.base import Section
from trainstack.settings.sections.queues import ClusterQueue, Cohort, LocalQueue, PriorityClass, ResourceFlavor
from trainstack.settings.sections.storage import PersistentVolume, StorageClass, Volume

Element = dict[str, Any]

_ANY = object()
_FUNGIBILITY = {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"}
_BORROWING = {"policy": "Never"}
_WRITTEN_BY_THE_CLUSTER: Mapping[str, Mapping[str, object]] = {
    "PersistentVolumeClaim": {"spec.volumeName": _ANY},
    "PersistentVolume": {"spec.claimRef": _ANY},
    "ClusterQueue": {"spec.flavorFungibility": _FUNGIBILITY, "spec.preemption.borrowWithinCohort": _BORROWING},
    "LocalQueue": {"spec.stopPolicy": "None"},
}
"""By kind: fields that nobody needs to declare, with the value that the API server or Kueue gives them."""
_TOOLS = {
    "argocd.argoproj.io/instance": "Argo CD",
    "argocd.argoproj.io/tracking-id": "Argo CD",
    "helm.toolkit.fluxcd.io/name": "Flux",
    "kustomize.toolkit.fluxcd.io/name": "Flux",
    "meta.helm.sh/release-name": "Helm",
}
"""By label or annotation: tools that make a cluster equal to files of their own."""


@dataclass(frozen=True)
class Kind:
    """How one kind is read back into settings."""

    path: tuple[str, str]
    """The list of the file."""
    element: Callable[[Body], Element]
    model: type[Section]
    build: Callable[[Any, str], Manifest]


def unsaid(kind: Kind, element: Element, live: Body, stack: str) -> list[str]:
    """The fields of the live object that the element would not leave as they are; none when it may be taken over."""
    try:
        # As from a file: in JSON a list is what the models take for a tuple.
        declared = kind.model.model_validate_json(json.dumps(element), by_alias=True, by_name=False)
    except ValidationError as error:
        return sorted(_in_words(each) for each in error.errors(include_url=False))
    built = kind.build(declared, stack)
    return sorted(_differences(_fields(live), _fields(built), _WRITTEN_BY_THE_CLUSTER.get(str(live["kind"]), {})))


def obstacle(live: Body, stack: str) -> str | None:
    """Why an object is not to be taken over whatever it says: it is somebody's, and not by hand."""
    metadata = live["metadata"]
    held = metadata.get("labels") or {}
    if held.get(STACK) not in (None, stack):
        return f"belongs to stack {held[STACK]!r}"
    if held.get(MANAGED_BY) not in (None, OWNER):
        return f"is managed by {held[MANAGED_BY]}, which would write it again"
    marks = {**held, **(metadata.get("annotations") or {})}
    if tool := next((name for key, name in _TOOLS.items() if key in marks), None):
        return f"is managed by {tool}, which would write it again"
    if owners := metadata.get("ownerReferences"):
        return f"belongs to {owners[0]['kind']} {owners[0]['name']}"
    return "is being deleted" if metadata.get("deletionTimestamp") else None


def spec(live: Body) -> Mapping[str, Any]:
    """What the object says; {} where it says nothing, which Kueue accepts."""
    return live.get("spec") or {}


def _in_words(fault: ErrorDetails) -> str:
    place = ".".join(map(str, fault["loc"]))
    return f"no {place}, which is needed" if fault["type"] == "missing" else f"{place} (value {fault['input']!r})"


def _fields(body: Body) -> dict[str, Any]:
    return {key: each for key, each in body.items() if key not in ("apiVersion", "kind", "metadata", "status")}


def _differences(live: object, built: object, known: Mapping[str, object], path: str = "") -> Iterator[str]:
    if path in known and built is None and known[path] in (_ANY, live):
        return
    if isinstance(live, Mapping | None) and isinstance(built, Mapping | None) and (live or built):
        for key in {**(live or {}), **(built or {})}:
            below = f"{path}.{key}" if path else str(key)
            yield from _differences((live or {}).get(key), (built or {}).get(key), known, below)
    elif isinstance(live, list) and isinstance(built, list) and len(live) == len(built):
        for index, (one, other) in enumerate(zip(live, built, strict=True)):
            yield from _differences(one, other, known, f"{path}[{index}]")
    elif (live or None) != (built or None) or (live is None and built == {}):
        # What is empty or false says nothing, except for a selector: {} selects everything, and none nothing.
        yield path


def _labels(live: Body) -> Element:
    held = {key: each for key, each in (live["metadata"].get("labels") or {}).items() if key not in (MANAGED_BY, STACK)}
    return {"labels": held} if held else {}


def _named(live: Body, **fields: Any) -> Element:
    """The object's name and these of its fields that say something, to be adopted."""
    metadata = live["metadata"]
    place = {"namespace": metadata["namespace"]} if "namespace" in metadata else {}
    said = {key: each for key, each in fields.items() if each not in (None, {}, [])}
    return {"name": metadata["name"], **place, **said, "adopt": True}


def _claim(live: Body) -> Element:
    said = live["spec"]
    return _named(
        live,
        storageClass=said.get("storageClassName"),
        size=said["resources"]["requests"]["storage"],
        accessModes=said["accessModes"],
        selector=(said.get("selector") or {}).get("matchLabels"),
        **_labels(live),
    )


def _persistent_volume(live: Body) -> Element:
    said, host = live["spec"], live["spec"].get("hostPath") or {}
    terms = ((said.get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms") or []
    asked = [each for term in terms for each in term.get("matchExpressions", [])]
    nodes = asked[0]["values"] if len(asked) == 1 and asked[0]["key"] == HOSTNAME and asked[0].get("values") else []
    element = _named(
        live,
        storageClass=said.get("storageClassName"),
        size=said["capacity"]["storage"],
        accessModes=said["accessModes"],
        hostPath=host.get("path"),
        node=nodes[0] if nodes else None,
        **_labels(live),
    )
    return {**element, "hostPathType": host.get("type", "")} if host.get("type", "") != "Directory" else element


def _storage_class(live: Body) -> Element:
    return _named(
        live,
        provisioner=live["provisioner"],
        parameters=live.get("parameters"),
        reclaimPolicy=live.get("reclaimPolicy"),
        volumeBindingMode=live.get("volumeBindingMode"),
        allowVolumeExpansion=live.get("allowVolumeExpansion") or None,
    )


def _flavor(live: Body) -> Element:
    said = spec(live)
    return _named(
        live,
        nodeLabels=said.get("nodeLabels"),
        nodeTaints=said.get("nodeTaints"),
        tolerations=said.get("tolerations"),
    )


def _cohort(live: Body) -> Element:
    return _named(live, parent=spec(live).get("parentName"))


def _cluster_queue(live: Body) -> Element:
    said = spec(live)
    preemption = said.get("preemption") or {}
    evicts = {key: each for key, each in preemption.items() if (key, each) != ("borrowWithinCohort", _BORROWING)}
    asked = (said.get("namespaceSelector") or {}).get("matchExpressions") or []
    here = [each["values"] for each in asked if each["key"] == NAMESPACE_NAME and each["operator"] == "In"]
    usual = {
        "queueingStrategy": "BestEffortFIFO",
        "stopPolicy": "None",
        "preemption": {"withinClusterQueue": "Never", "reclaimWithinCohort": "Never"},
        "flavorFungibility": _FUNGIBILITY,
    }
    plain = ("queueingStrategy", "stopPolicy", "flavorFungibility")
    fields = {**{key: said.get(key) for key in plain}, "preemption": evicts}
    return _named(
        live,
        cohort=said.get("cohortName"),
        namespaces=here[0] if here else None,
        resourceGroups=said.get("resourceGroups"),
        **{key: each for key, each in fields.items() if each != usual[key]},
    )


def _local_queue(live: Body) -> Element:
    return _named(live, clusterQueue=spec(live).get("clusterQueue"))


def _priority_class(live: Body) -> Element:
    return _named(live, value=live.get("value"), description=live.get("description"))


CLAIM = Kind(("storage", "volumes"), _claim, Volume, build_storage.claim)
PERSISTENT_VOLUME = Kind(
    ("storage", "persistentVolumes"), _persistent_volume, PersistentVolume, build_storage.persistent_volume
)
STORAGE_CLASS = Kind(("storage", "classes"), _storage_class, StorageClass, build_storage.storage_class)
FLAVOR = Kind(("queues", "flavors"), _flavor, ResourceFlavor, build_queues.resource_flavor)
COHORT = Kind(("queues", "cohorts"), _cohort, Cohort, build_queues.cohort)
CLUSTER_QUEUE = Kind(("queues", "clusterQueues"), _cluster_queue, ClusterQueue, build_queues.cluster_queue)
LOCAL_QUEUE = Kind(("queues", "localQueues"), _local_queue, LocalQueue, build_queues.local_queue)
PRIORITY_CLASS = Kind(("queues", "priorityClasses"), _priority_class, PriorityClass, build_queues.priority_class)
