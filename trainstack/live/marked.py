"""Reads of the metadata of objects that have a stack's label or are in its state, with few requests."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from trainstack.guards.states import owner_of
from trainstack.lifecycle.recovery.objects import LiveObject, LiveObjects
from trainstack.lifecycle.recovery.state import RecordedObject
from trainstack.live import paths
from trainstack.live.client import NOT_FOUND, read
from trainstack.live.snapshot import read_metadata
from trainstack.objects.labels import DRAINED, STACK
from trainstack.objects.launch_kinds import OPTIONAL
from trainstack.objects.ownership import Identity, identity
from trainstack.runs.status.kinds import KINDS

_KINDS = {
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
_VERSIONS = {kind: version for version, kinds in _KINDS.items() for kind in kinds}
_VERSIONS |= {kind: facts.api_version for kind, facts in KINDS.items()}
"""The API versions of the kinds that an environment declares."""


def read_marked(
    stack: str,
    recorded: Sequence[RecordedObject],
    namespaces: Sequence[str | None],
    context: str | None,
    launched: Sequence[tuple[str, str]] = (),
) -> LiveObjects:
    """Return the metadata of the objects with the stack's label and of those in the state.

    `unreadable` has the kinds that the user may not read, and kinds of the state whose path is unknown.

    Args:
        stack: the stack's name.
        recorded: the objects in its state.
        namespaces: the namespaces; None: all of them. Cluster-scoped kinds are read only with None.
        context: the kubeconfig's context; None: its current one.
        launch_kinds: API versions and kinds of launches that only some environments have.

    Raises ClusterError as `client.read` does.

    """
    always = {kind: version for kind, version in _VERSIONS.items() if kind not in OPTIONAL}
    of_state = {item.kind: item.api_version for item in recorded}
    kinds = {**always, **{kind: version for version, kind in launched}, **of_state}
    lists: dict[str, str] = {}
    unreadable = set()
    for kind, version in kinds.items():
        for namespace in namespaces:
            path = _collection(version, kind, namespace)
            if path is None:
                unreadable.add(kind)
            else:
                lists[f"{path}?labelSelector={quote(f'{STACK}={stack}')}"] = kind
    found: dict[Identity, LiveObject] = {}
    for path, answer in read(list(lists), context, metadata_of_items=True).items():
        # The plural of an unknown kind may be irregular, so a 404 does not show that it has no objects.
        is_unknown = lists[path] in of_state and lists[path] not in _VERSIONS
        if not answer.found and (is_unknown or answer.status != NOT_FOUND):
            unreadable.add(lists[path])
        for item in answer.items("", lists[path]):
            found[identity(item)] = _live(item)
    # Objects of the state that are in no list have lost the label, or do not exist.
    others = {
        f"{paths.collection(item.api_version, item.kind, item.identity[1])}/{item.identity[2]}": item.identity
        for item in recorded
        if item.kind not in unreadable and item.identity not in found
    }
    for path, answer in read(list(others), context, metadata_only=True).items():
        if answer.found:
            found[others[path]] = _live(answer.body)
        elif answer.status != NOT_FOUND:
            unreadable.add(others[path][0])
    return LiveObjects(found, frozenset(unreadable))


def read_held(versions: Mapping[Identity, str], context: str | None) -> dict[Identity, dict[str, Any]]:
    """Return the metadata of a state's objects that exist and that the user may read, by identity.

    `versions`: the API versions of the objects. Raises ClusterError as `client.read` does.
    """
    known = [_manifest(version, who) for who, version in versions.items() if paths.is_known(version, who[0])]
    return read_metadata(known, context, readable_only=True)


def read_recorded(
    stack: str, recorded: Collection[RecordedObject], context: str | None
) -> dict[Identity, dict[str, Any]]:
    """Return the metadata of a state's objects that exist and that the user may read, by identity.

    If the state has several objects of a kind, one list with the stack's label reads them. Raises ClusterError as
    `client.read` does.
    """
    known = [_manifest(one.api_version, one.identity) for one in recorded if paths.is_known(one.api_version, one.kind)]
    return read_metadata(known, context, listed_of=stack, readable_only=True)


def _manifest(api_version: str, who: Identity) -> Mapping[str, Any]:
    kind, namespace, name = who
    return {"apiVersion": api_version, "kind": kind, "metadata": {"namespace": namespace, "name": name}}


def _collection(version: str, kind: str, namespace: str | None) -> str | None:
    """Return the path of a list, or None for an unknown kind, and for a cluster-scoped kind with a namespace."""
    if not paths.is_known(version, kind):
        return None
    path = paths.collection(version, kind, namespace)
    return path if namespace is None or "/namespaces/" in path else None


def _live(item: Mapping[str, Any]) -> LiveObject:
    metadata = item["metadata"]
    deleted = metadata.get("deletionTimestamp")
    return LiveObject(
        uid=str(metadata["uid"]),
        labels=metadata.get("labels") or {},
        deletion_time=datetime.fromisoformat(deleted) if deleted else None,
        finalizers=tuple(metadata.get("finalizers") or ()),
        is_owned=bool(metadata.get("ownerReferences")),
        state=owner_of(metadata),
        is_drained=DRAINED in (metadata.get("annotations") or {}),
    )
