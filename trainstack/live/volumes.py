"""Reads of a stack's volumes and of the pods that mount them."""

from collections.abc import Collection, Iterable
from typing import Any
from urllib.parse import quote

from trainstack.guards.volumes import find_mounting_pods
from trainstack.live import paths
from trainstack.live.client import read
from trainstack.live.snapshot import exists, run_namespaces
from trainstack.objects.labels import STACK
from trainstack.objects.ownership import Identity
from trainstack.platform import other_objects, storage
from trainstack.settings.model import Settings

Body = dict[str, Any]


def read_volumes(
    settings: Settings, state_claims: Iterable[Identity] = ()
) -> tuple[tuple[Body, ...], tuple[Body, ...]]:
    """Return the stack's live claims, sorted by name, and its live persistent volumes.

    A claim belongs to the stack if it is declared, has the stack's label, or is in `state_claims`. These are the claims
    in Pulumi's state, from whose live objects a client may have removed the label. Raises ClusterError if the cluster
    cannot be read.
    """
    stack, layers = settings.stack, settings.environment.layers
    lists = [
        f"{paths.collection_path('v1', 'PersistentVolumeClaim', namespace)}?labelSelector={quote(f'{STACK}={stack}')}"
        for namespace in run_namespaces(settings)
    ]
    claims = [storage.claim(volume, stack) for volume in settings.storage.volumes if "training" in layers]
    state_claim_paths = [
        f"{paths.collection_path('v1', 'PersistentVolumeClaim', namespace)}/{name}"
        for _, namespace, name in state_claims
    ]
    volumes = [
        storage.persistent_volume(volume, stack)
        for volume in settings.storage.persistent_volumes
        if "platform" in layers
    ]
    others = other_objects.manifests(settings)
    claims += [manifest for manifest in others if manifest["kind"] == "PersistentVolumeClaim"]
    volumes += [manifest for manifest in others if manifest["kind"] == "PersistentVolume"]
    # By UID, because a claim may be in a list and also be read by name.
    claim_by_uid: dict[str, Body] = {}
    persistent_volumes: list[Body] = []
    object_paths = dict.fromkeys((*map(paths.object_path, (*claims, *volumes)), *state_claim_paths))
    for path, answer in read([*lists, *object_paths], settings.cluster.context).items():
        if not exists(path, answer):
            continue
        if path in lists:
            claim_by_uid |= {claim["metadata"]["uid"]: claim for claim in answer.body["items"]}
        elif answer.body["metadata"].get("namespace"):
            claim_by_uid[answer.body["metadata"]["uid"]] = answer.body
        else:
            persistent_volumes.append(answer.body)
    return tuple(sorted(claim_by_uid.values(), key=lambda claim: str(claim["metadata"]["name"]))), tuple(
        persistent_volumes
    )


def read_mounts(namespaces: Collection[str], context: str | None) -> dict[str, tuple[str, ...]]:
    """Return the names of the pods that mount claims in these namespaces, by the claim's `<namespace>/<name>`.

    Raises ClusterError if the cluster cannot be read.
    """
    lists = [paths.collection_path("v1", "Pod", namespace) for namespace in sorted(namespaces)]
    answers = read(lists, context) if lists else {}
    return find_mounting_pods(
        [pod for path, answer in answers.items() if exists(path, answer) for pod in answer.body["items"]]
    )
