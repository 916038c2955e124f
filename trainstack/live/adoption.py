"""Reads of a namespace's objects and of the objects that they refer to, for `trainstack adopt`."""

from collections.abc import Iterator

from trainstack.live import paths
from trainstack.live.client import FORBIDDEN, NOT_FOUND, Answer, read
from trainstack.live.controllers import CONTROLLER_LISTS, InstalledControllers, parse_controllers, split_image
from trainstack.onboarding.adopt.namespace_objects import Body, InstalledOperator, NamespaceObjects
from trainstack.preflight.operator_facts import OPERATORS

_KUEUE = "kueue.x-k8s.io/v1beta2"
_KUEUE_GROUP_PATH = "/apis/kueue.x-k8s.io"
_LIST_BY_FIELD = {
    "namespace": ("v1", "Namespace", False),
    "claims": ("v1", "PersistentVolumeClaim", True),
    "all_claims": ("v1", "PersistentVolumeClaim", False),
    "persistent_volumes": ("v1", "PersistentVolume", False),
    "classes": ("storage.k8s.io/v1", "StorageClass", False),
    "local_queues": (_KUEUE, "LocalQueue", True),
    "cluster_queues": (_KUEUE, "ClusterQueue", False),
    "flavors": (_KUEUE, "ResourceFlavor", False),
    "cohorts": (_KUEUE, "Cohort", False),
    "topologies": (_KUEUE, "Topology", False),
    "admission_checks": (_KUEUE, "AdmissionCheck", False),
    "provisioning_request_configs": (_KUEUE, "ProvisioningRequestConfig", False),
    "multi_kueue_clusters": (_KUEUE, "MultiKueueCluster", False),
    "multi_kueue_configs": (_KUEUE, "MultiKueueConfig", False),
    "priority_classes": (_KUEUE, "WorkloadPriorityClass", False),
}
"""API version, kind, and whether only the namespace is read, by field of NamespaceObjects."""


def read_namespace_objects(namespace: str, context: str | None, *, cluster_wide: bool) -> NamespaceObjects | None:
    """Return the objects that `trainstack adopt` needs, or None if the namespace does not exist.

    `read_failures` reports objects that the user may not read. `foreign_claims`, the claims of other namespaces, is
    None if they were not read.

    Args:
        namespace: the namespace.
        context: the kubeconfig's context; None: its current one.
        cluster_wide: also read cluster-scoped objects, and the claims and controllers of all namespaces. A tenant's
            profile has no right to read them, nor to read whether the namespace exists.

    Raises ClusterError as `client.read` does.

    """
    path_by_field = {
        name: paths.collection_path(version, kind, namespace if is_namespaced else None)
        for name, (version, kind, is_namespaced) in _LIST_BY_FIELD.items()
        if is_namespaced or cluster_wide
    }
    if cluster_wide:
        # The namespace is read by name: its status shows whether it exists.
        path_by_field["namespace"] += f"/{namespace}"
    answers = read(
        [*path_by_field.values(), *((_KUEUE_GROUP_PATH, *CONTROLLER_LISTS) if cluster_wide else ())], context
    )
    # Without the right to read it, the namespace may exist.
    if cluster_wide and answers[path_by_field["namespace"]].status not in (200, FORBIDDEN):
        return None
    bodies: dict[str, tuple[Body, ...]] = {
        name: tuple(answers[path].items(*_LIST_BY_FIELD[name][:2]))
        for name, path in path_by_field.items()
        if name != "namespace"
    }
    all_claims = bodies.pop("all_claims", ())
    foreign_claims = tuple(claim for claim in all_claims if claim["metadata"]["namespace"] != namespace)
    installed = parse_controllers(answers) if cluster_wide else None
    return NamespaceObjects(
        namespace=namespace,
        foreign_claims=foreign_claims if cluster_wide and answers[path_by_field["all_claims"]].is_success else None,
        operators=tuple(_installed_operators(installed)) if installed else (),
        read_failures=tuple(_read_failures(path_by_field, answers)),
        **bodies,
    )


def _read_failures(path_by_field: dict[str, str], answers: dict[str, Answer]) -> Iterator[str]:
    for name, path in path_by_field.items():
        if answers[path].status == FORBIDDEN and name != "namespace":
            omitted = "no class" if name == "all_claims" else "none"
            yield f"{path.rpartition('/')[2]} may not be read ({path}), so {omitted} is taken over"
    group = answers.get(_KUEUE_GROUP_PATH, Answer(NOT_FOUND, {}))
    served_versions = [item["version"] for item in group.body.get("versions", ())]
    if group.is_success and "v1beta2" not in served_versions:
        yield (
            f"Kueue serves {', '.join(served_versions)} and not v1beta2, so no queue is taken over: upgrade Kueue to "
            "v0.15"
        )


def _installed_operators(installed: InstalledControllers) -> Iterator[InstalledOperator]:
    for facts in OPERATORS.values():
        if controller := installed.find(facts):
            version = split_image(controller.container["image"])[1] or "of an unknown version"
            yield InstalledOperator(name=facts.title, namespace=controller.namespace, version=version)
