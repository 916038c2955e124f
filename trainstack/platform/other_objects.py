"""The objects of section `objects`, which are declared as they are written."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from trainstack.objects.labels import SECTION, SKIP_AWAIT, Manifest, metadata
from trainstack.objects.ownership import adopted_identities, identity
from trainstack.settings.model import Settings
from trainstack.settings.values.kind_scopes import CLUSTER_SCOPED_KINDS, NAMESPACED_KINDS

SECTION_NAME = "objects"
"""The value of SECTION."""
_AWAITED_KINDS = frozenset(
    {
        *("DaemonSet", "Deployment", "Ingress", "PersistentVolumeClaim"),
        *("ReplicationController", "Service", "StatefulSet"),
    }
)
"""The kinds whose readiness the Kubernetes provider awaits, which may depend on runs.

Source: provider/pkg/await/awaiters.go of pulumi-kubernetes
"""
_USING_KINDS = frozenset(
    {
        *("ClusterRoleBinding", "CronJob", "DaemonSet", "Deployment", "HorizontalPodAutoscaler", "Ingress"),
        *("PersistentVolumeClaim", "ReplicaSet", "ReplicationController", "RoleBinding", "StatefulSet"),
    }
)
"""The kinds of objects that refer to other objects of the section."""


def manifests(settings: Settings) -> tuple[Manifest, ...]:
    """Return the objects in the order of the settings, with the owner's labels and their namespaces."""
    adopted_objects = adopted_identities(settings)
    result = []
    for declared in settings.objects.manifests:
        manifest = _with_namespace(declared, settings.default_namespace)
        result.append(_with_owner(manifest, settings.stack, adopt=identity(manifest) in adopted_objects))
    return tuple(result)


def uses_others(manifest: Mapping[str, Any]) -> bool:
    """Return whether an object may refer to other objects of the section, and is created after them."""
    return manifest["kind"] in _USING_KINDS


def _with_namespace(declared: Mapping[str, Any], default_namespace: str | None) -> Manifest:
    """Return a manifest with the default namespace, if its kind is namespaced and it names none.

    A cluster-scoped object has none, as in the cluster.
    """
    manifest = deepcopy(dict(declared))
    declared_metadata, kind = manifest["metadata"], manifest["kind"]
    if kind in CLUSTER_SCOPED_KINDS:
        declared_metadata.pop("namespace", None)
    elif kind in NAMESPACED_KINDS and default_namespace is not None:
        declared_metadata.setdefault("namespace", default_namespace)
    return manifest


def _with_owner(manifest: Manifest, stack: str, *, adopt: bool) -> Manifest:
    declared_metadata = manifest["metadata"]
    own_annotations = {SKIP_AWAIT: "true"} if manifest["kind"] in _AWAITED_KINDS else {}
    owned_metadata = metadata(
        declared_metadata["name"],
        stack,
        namespace=declared_metadata.get("namespace"),
        labels={**(declared_metadata.get("labels") or {}), SECTION: SECTION_NAME},
        annotations={**own_annotations, **(declared_metadata.get("annotations") or {})},
        adopt=adopt,
    )
    return {**manifest, "metadata": {**declared_metadata, **owned_metadata}}
