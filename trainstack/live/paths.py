"""The API paths of the kinds that Trainstack declares or reads."""

from collections.abc import Mapping
from typing import Any

from trainstack.objects.launch_kinds import ALL_LAUNCH_KINDS, plural
from trainstack.settings.values.kind_scopes import CLUSTER_SCOPED_KINDS, NAMESPACED_KINDS, is_kubernetes_api

_NAMESPACED = NAMESPACED_KINDS | {*ALL_LAUNCH_KINDS}


_KIND_BY_PLURAL = {
    plural(kind): kind
    for kind in CLUSTER_SCOPED_KINDS | _NAMESPACED | {"Event", "SelfSubjectAccessReview", "SelfSubjectReview"}
}


def kind_of(plural_name: str) -> str | None:
    """Return the kind of a collection, or None for an unknown collection."""
    return _KIND_BY_PLURAL.get(plural_name)


def is_cluster_scoped(kind: str) -> bool:
    return kind in CLUSTER_SCOPED_KINDS


def is_known(api_version: str, kind: str) -> bool:
    """Return whether the path of a kind is known. Kinds of other CustomResourceDefinitions count as namespaced."""
    return kind in CLUSTER_SCOPED_KINDS | _NAMESPACED or not is_kubernetes_api(api_version)


def collection_path(api_version: str, kind: str, namespace: str | None) -> str:
    """Return the path of a list, `/apis/batch/v1/namespaces/research/jobs`. Raise KeyError for an unknown kind."""
    if not is_known(api_version, kind):
        raise KeyError(kind)
    namespace_part = f"/namespaces/{namespace}" if namespace and kind not in CLUSTER_SCOPED_KINDS else ""
    return f"{version_path(api_version)}{namespace_part}/{plural(kind)}"


def version_path(api_version: str) -> str:
    """Return the path of an API version. A GET of it lists the version's kinds."""
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def object_path(manifest: Mapping[str, Any]) -> str:
    """Return the path of the object that a manifest describes."""
    metadata = manifest["metadata"]
    return f"{collection_path(manifest['apiVersion'], manifest['kind'], metadata.get('namespace'))}/{metadata['name']}"
