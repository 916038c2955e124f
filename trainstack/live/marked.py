"""What bears a stack's mark, and what its state knows by name: the metadata of it, in few requests."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from trainstack.guards.states import owner_of
from trainstack.lifecycle.recovery.objects import LiveObject, Seen
from trainstack.lifecycle.recovery.state import Recorded
from trainstack.live import paths
from trainstack.live.client import NOT_FOUND, Answer, read
from trainstack.objects.labels import STACK
from trainstack.objects.ownership import Identity
from trainstack.runs.status.kinds import KINDS

_KUEUE = "kueue.x-k8s.io/v1beta2"
_RBAC = "rbac.authorization.k8s.io/v1"
_ADMISSION = "admissionregistration.k8s.io/v1"
_FLOW = "flowcontrol.apiserver.k8s.io/v1"
_VERSIONS: Mapping[str, str] = {
    "APIService": "apiregistration.k8s.io/v1",
    "ClusterQueue": _KUEUE,
    "ClusterRole": _RBAC,
    "ClusterRoleBinding": _RBAC,
    "Cohort": _KUEUE,
    "ConfigMap": "v1",
    "Deployment": "apps/v1",
    "FlowSchema": _FLOW,
    "LocalQueue": _KUEUE,
    "MutatingWebhookConfiguration": _ADMISSION,
    "Namespace": "v1",
    "NetworkPolicy": "networking.k8s.io/v1",
    "PersistentVolume": "v1",
    "PersistentVolumeClaim": "v1",
    "PriorityLevelConfiguration": _FLOW,
    "ResourceFlavor": _KUEUE,
    "Role": _RBAC,
    "RoleBinding": _RBAC,
    "Secret": "v1",
    "Service": "v1",
    "ServiceAccount": "v1",
    "StorageClass": "storage.k8s.io/v1",
    "TrainingRuntime": "trainer.kubeflow.org/v1alpha1",
    "ValidatingWebhookConfiguration": _ADMISSION,
    "WorkloadPriorityClass": _KUEUE,
    **{kind: facts.api_version for kind, facts in KINDS.items()},
}
"""The kinds that an environment declares."""


def read_marked(
    stack: str, recorded: Sequence[Recorded], namespaces: Sequence[str | None], context: str | None
) -> Seen:
    """Everything that bears the stack's mark, and every object of the state; by metadata alone.

    What may not be read is named in `unreadable`, and so is what the state holds of kinds that this program does not
    know.

    Args:
        stack: the environment.
        recorded: the objects of its state.
        namespaces: where to look; None for all of them. With a namespace, kinds of no namespace are left out.
        context: the kubeconfig's context; None: its current one.

    Raises ClusterError as `client.read` does.

    """
    kinds = {**_VERSIONS, **{each.kind: each.api_version for each in recorded}}
    asked: dict[str, str] = {}
    unreadable = set()
    for kind, version in kinds.items():
        for namespace in namespaces:
            path = _collection(version, kind, namespace)
            if path is None:
                unreadable.add(kind)
            else:
                asked[f"{path}?labelSelector={quote(f'{STACK}={stack}')}"] = kind
    found: dict[Identity, LiveObject] = {}
    for path, answer in read(list(asked), context, metadata_of_items=True).items():
        if not answer.found and answer.status != NOT_FOUND:
            unreadable.add(asked[path])
        for item in answer.body.get("items") or ():  # an empty list of this form has null
            found[_identity(asked[path], item)] = _live(item)
    others = [each for each in recorded if each.kind not in unreadable and each.identity not in found]
    for identity, answer in _read_each(others, context):
        if answer.found:
            found[identity] = _live(answer.body)
        elif answer.status != NOT_FOUND:
            unreadable.add(identity[0])
    return Seen(found, frozenset(unreadable))


def read_held(objects: Collection[Identity], context: str | None) -> dict[Identity, Mapping[str, Any]]:
    """The metadata of those objects of a state that exist and may be read, by identity; of the kinds that we declare.

    Raises ClusterError as `client.read` does.
    """
    asked = {
        f"{paths.collection(_VERSIONS[kind], kind, namespace)}/{name}": (kind, namespace, name)
        for kind, namespace, name in objects
        if kind in _VERSIONS
    }
    answers = read(list(asked), context, metadata_only=True)
    return {asked[path]: answer.body["metadata"] for path, answer in answers.items() if answer.found}


def _collection(version: str, kind: str, namespace: str | None) -> str | None:
    try:
        path = paths.collection(version, kind, namespace)
    except KeyError:
        return None
    return path if namespace is None or "/namespaces/" in path else None


def _read_each(recorded: Iterable[Recorded], context: str | None) -> list[tuple[Identity, Answer]]:
    """What has lost its mark, or is not there."""
    asked = {
        f"{paths.collection(each.api_version, each.kind, each.identity[1])}/{each.identity[2]}": each.identity
        for each in recorded
    }
    return [(asked[path], answer) for path, answer in read(list(asked), context, metadata_only=True).items()]


def _identity(kind: str, item: Mapping[str, Any]) -> Identity:
    return kind, item["metadata"].get("namespace"), str(item["metadata"]["name"])


def _live(item: Mapping[str, Any]) -> LiveObject:
    metadata = item["metadata"]
    deleted = metadata.get("deletionTimestamp")
    return LiveObject(
        uid=str(metadata["uid"]),
        labels=metadata.get("labels") or {},
        deleted=datetime.fromisoformat(deleted) if deleted else None,
        finalizers=tuple(metadata.get("finalizers") or ()),
        owned=bool(metadata.get("ownerReferences")),
        state=owner_of(metadata),
    )
