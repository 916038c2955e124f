"""Reads of a namespace's objects and of the objects that they refer to, for `trainstack adopt`."""

from collections.abc import Iterator

from trainstack.live import paths
from trainstack.live.client import FORBIDDEN, NOT_FOUND, Answer, read
from trainstack.live.controllers import LISTS, Controllers, controllers, split_image
from trainstack.onboarding.adopt.namespace_objects import Body, InstalledOperator, NamespaceObjects
from trainstack.preflight.operator_facts import OPERATORS

_KUEUE = "kueue.x-k8s.io/v1beta2"
_GROUP = "/apis/kueue.x-k8s.io"
_LISTS = {
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


def read_existing(namespace: str, context: str | None, *, cluster_wide: bool) -> NamespaceObjects | None:
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
    by_field = {
        name: paths.collection(version, kind, namespace if within else None)
        for name, (version, kind, within) in _LISTS.items()
        if within or cluster_wide
    }
    if cluster_wide:
        by_field["namespace"] += f"/{namespace}"
    answers = read([*by_field.values(), *((_GROUP, *LISTS) if cluster_wide else ())], context)
    if cluster_wide and answers[by_field["namespace"]].status not in (200, FORBIDDEN):
        return None
    bodies: dict[str, tuple[Body, ...]] = {
        name: tuple(answers[path].items(*_LISTS[name][:2])) for name, path in by_field.items() if name != "namespace"
    }
    all_claims = bodies.pop("all_claims", ())
    others = tuple(claim for claim in all_claims if claim["metadata"]["namespace"] != namespace)
    installed = controllers(answers) if cluster_wide else None
    return NamespaceObjects(
        namespace=namespace,
        foreign_claims=others if cluster_wide and answers[by_field["all_claims"]].found else None,
        operators=tuple(_operators(installed)) if installed else (),
        read_failures=tuple(_unreadable(by_field, answers)),
        **bodies,
    )


def _unreadable(by_field: dict[str, str], answers: dict[str, Answer]) -> Iterator[str]:
    for name, path in by_field.items():
        if answers[path].status == FORBIDDEN and name != "namespace":
            without = "no class" if name == "all_claims" else "none"
            yield f"{path.rpartition('/')[2]} may not be read ({path}), so {without} is taken over"
    group = answers.get(_GROUP, Answer(NOT_FOUND, {}))
    served = [item["version"] for item in group.body.get("versions", ())]
    if group.found and "v1beta2" not in served:
        yield f"Kueue serves {', '.join(served)} and not v1beta2, so no queue is taken over: upgrade Kueue to v0.15"


def _operators(installed: Controllers) -> Iterator[InstalledOperator]:
    for facts in OPERATORS.values():
        if controller := installed.find(facts):
            version = split_image(controller.container["image"])[1] or "of an unknown version"
            yield InstalledOperator(name=facts.title, namespace=controller.namespace, version=version)
