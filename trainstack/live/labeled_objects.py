"""Reads of the metadata of objects that have a stack's label or are in its state, with few requests."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from trainstack.guards.other_states import owning_state
from trainstack.lifecycle.recovery.object_problems import LiveObject, LiveObjects
from trainstack.lifecycle.recovery.state import RecordedObject
from trainstack.live import paths
from trainstack.live.client import NOT_FOUND, read
from trainstack.live.snapshot import read_metadata
from trainstack.objects.labels import DRAINED, STACK
from trainstack.objects.launch_kinds import OPTIONAL_LAUNCH_KINDS
from trainstack.objects.ownership import Identity, identity
from trainstack.runs.status.launch_kinds import KINDS

_KINDS_BY_VERSION = {
    "v1": (
        "ConfigMap",
        "Namespace",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Secret",
        "Service",
        "ServiceAccount",
    ),
    "apiregistration.k8s.io/v1": ("APIService",),
    "admissionregistration.k8s.io/v1": ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
    "apps/v1": ("Deployment",),
    "flowcontrol.apiserver.k8s.io/v1": ("FlowSchema", "PriorityLevelConfiguration"),
    "kueue.x-k8s.io/v1beta2": (
        "AdmissionCheck",
        "ClusterQueue",
        "Cohort",
        "LocalQueue",
        "MultiKueueCluster",
        "MultiKueueConfig",
        "ProvisioningRequestConfig",
        "ResourceFlavor",
        "Topology",
        "WorkloadPriorityClass",
    ),
    "networking.k8s.io/v1": ("NetworkPolicy",),
    "rbac.authorization.k8s.io/v1": ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    "storage.k8s.io/v1": ("StorageClass",),
    "trainer.kubeflow.org/v1alpha1": ("TrainingRuntime",),
}
_VERSION_BY_KIND = {kind: version for version, kinds in _KINDS_BY_VERSION.items() for kind in kinds}
_VERSION_BY_KIND |= {kind: facts.api_version for kind, facts in KINDS.items()}
"""The API versions of the kinds that an environment declares."""


def read_labeled_objects(
    stack: str,
    recorded: Sequence[RecordedObject],
    namespaces: Sequence[str | None],
    context: str | None,
    further_kinds: Sequence[tuple[str, str]] = (),
) -> LiveObjects:
    """Return the metadata of the objects with the stack's label and of those in the state.

    `unreadable` has the kinds that the user may not read, and kinds of the state whose path is unknown.

    Args:
        stack: the stack's name.
        recorded: the objects in its state.
        namespaces: the namespaces; None: all of them. Cluster-scoped kinds are read only with None.
        context: the kubeconfig's context; None: its current one.
        further_kinds: API versions and kinds that only some environments have.

    Raises ClusterError as `client.read` does.

    """
    usual_kinds = {kind: version for kind, version in _VERSION_BY_KIND.items() if kind not in OPTIONAL_LAUNCH_KINDS}
    state_kinds = {item.kind: item.api_version for item in recorded}
    version_by_kind = {**usual_kinds, **{kind: version for version, kind in further_kinds}, **state_kinds}
    kind_by_path: dict[str, str] = {}
    unreadable = set()
    for kind, version in version_by_kind.items():
        for namespace in namespaces:
            path = _list_path(version, kind, namespace)
            if path is None:
                unreadable.add(kind)
            else:
                kind_by_path[f"{path}?labelSelector={quote(f'{STACK}={stack}')}"] = kind
    object_by_identity: dict[Identity, LiveObject] = {}
    for path, answer in read(list(kind_by_path), context, metadata_of_items=True).items():
        # The plural of an unknown kind may be irregular, so a 404 does not show that it has no objects.
        is_unknown = kind_by_path[path] in state_kinds and kind_by_path[path] not in _VERSION_BY_KIND
        if not answer.is_success and (is_unknown or answer.status != NOT_FOUND):
            unreadable.add(kind_by_path[path])
        for item in answer.items("", kind_by_path[path]):
            object_by_identity[identity(item)] = _live_object(item)
    # Objects of the state that are in no list have lost the label, or do not exist.
    identity_by_path = {
        f"{paths.collection_path(item.api_version, item.kind, item.identity[1])}/{item.identity[2]}": item.identity
        for item in recorded
        if item.kind not in unreadable and item.identity not in object_by_identity
    }
    for path, answer in read(list(identity_by_path), context, metadata_only=True).items():
        if answer.is_success:
            object_by_identity[identity_by_path[path]] = _live_object(answer.body)
        elif answer.status != NOT_FOUND:
            unreadable.add(identity_by_path[path][0])
    return LiveObjects(object_by_identity, frozenset(unreadable))


def read_state_metadata(versions: Mapping[Identity, str], context: str | None) -> dict[Identity, dict[str, Any]]:
    """Return the metadata of a state's objects that exist and that the user may read, by identity.

    `versions`: the API versions of the objects. Raises ClusterError as `client.read` does.
    """
    manifests = [
        _manifest(version, object_identity)
        for object_identity, version in versions.items()
        if paths.is_known(version, object_identity[0])
    ]
    return read_metadata(manifests, context, readable_only=True)


def read_recorded_metadata(
    stack: str, recorded: Collection[RecordedObject], context: str | None
) -> dict[Identity, dict[str, Any]]:
    """Return the metadata of a state's objects that exist and that the user may read, by identity.

    If the state has several objects of a kind, one list with the stack's label reads them. Raises ClusterError as
    `client.read` does.
    """
    manifests = [
        _manifest(recorded_object.api_version, recorded_object.identity)
        for recorded_object in recorded
        if paths.is_known(recorded_object.api_version, recorded_object.kind)
    ]
    return read_metadata(manifests, context, stack_to_list=stack, readable_only=True)


def _manifest(api_version: str, object_identity: Identity) -> Mapping[str, Any]:
    kind, namespace, name = object_identity
    return {"apiVersion": api_version, "kind": kind, "metadata": {"namespace": namespace, "name": name}}


def _list_path(version: str, kind: str, namespace: str | None) -> str | None:
    """Return the path of a list, or None for an unknown kind, and for a cluster-scoped kind with a namespace."""
    if not paths.is_known(version, kind):
        return None
    path = paths.collection_path(version, kind, namespace)
    return path if namespace is None or "/namespaces/" in path else None


def _live_object(item: Mapping[str, Any]) -> LiveObject:
    metadata = item["metadata"]
    deletion_timestamp = metadata.get("deletionTimestamp")
    return LiveObject(
        uid=str(metadata["uid"]),
        labels=metadata.get("labels") or {},
        deletion_time=datetime.fromisoformat(deletion_timestamp) if deletion_timestamp else None,
        finalizers=tuple(metadata.get("finalizers") or ()),
        is_owned=bool(metadata.get("ownerReferences")),
        state=owning_state(metadata),
        is_drained=DRAINED in (metadata.get("annotations") or {}),
    )
