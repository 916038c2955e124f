"""How the cluster serves the kinds whose scope Trainstack does not know: kinds of other owners' definitions."""

from collections.abc import Iterable, Mapping
from typing import Any

from trainstack.live import paths
from trainstack.live.client import read
from trainstack.live.snapshot import exists
from trainstack.objects.launch_kinds import plural
from trainstack.objects.ownership import format_identity, identity
from trainstack.settings.values.kind_scopes import has_known_scope


def scope_refusals(manifests: Iterable[Mapping[str, Any]], context: str | None) -> tuple[str, ...]:
    """Return a refusal for each object that the cluster serves in another scope, or at another path, than expected.

    Guards would not find such an object. The engine reports a kind that the cluster does not serve. Raises
    ClusterError.
    """
    unknown = [manifest for manifest in manifests if not has_known_scope(manifest["kind"])]
    versions = {paths.version_path(manifest["apiVersion"]) for manifest in unknown}
    answers = read(sorted(versions), context) if versions else {}
    resources = {
        (path, resource["kind"]): resource
        for path, answer in answers.items()
        for resource in (answer.body.get("resources") or () if exists(path, answer) else ())
        if "/" not in resource["name"]
    }
    served = (
        (manifest, resources.get((paths.version_path(manifest["apiVersion"]), manifest["kind"])))
        for manifest in unknown
    )
    return tuple(
        sorted(
            f"{format_identity(identity(manifest))}: {problem}"
            for manifest, resource in served
            if resource is not None and (problem := _problem(manifest, resource))
        )
    )


def _problem(manifest: Mapping[str, Any], resource: Mapping[str, Any]) -> str:
    kind, in_namespace = manifest["kind"], "namespace" in manifest["metadata"]
    if resource["namespaced"] and not in_namespace:
        return f"{kind} is a namespaced kind in this cluster; add metadata.namespace in section objects"
    if in_namespace and not resource["namespaced"]:
        return f"{kind} is a cluster-scoped kind in this cluster; remove metadata.namespace in section objects"
    if resource["name"] != plural(kind):
        return (
            f"the cluster serves {kind} as {resource['name']}, and Trainstack finds only kinds with the usual plural, "
            f"{plural(kind)}; remove the object from section objects"
        )
    return ""
