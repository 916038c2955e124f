"""Reading the volumes of a stack, and who mounts them."""

from collections.abc import Collection
from typing import Any
from urllib.parse import quote

from trainstack.guards.volumes import mounting
from trainstack.live import paths
from trainstack.live.client import read
from trainstack.live.snapshot import run_namespaces, there
from trainstack.objects.labels import STACK
from trainstack.platform import storage
from trainstack.settings.model import Settings

Body = dict[str, Any]


def read_volumes(settings: Settings) -> tuple[tuple[Body, ...], tuple[Body, ...]]:
    """The live claims that are declared or bear the stack's mark, and the persistent volumes that are declared.

    Raises ClusterError where the cluster cannot be read.
    """
    stack, halves = settings.stack, settings.environment.halves
    marked = [
        f"{paths.collection('v1', 'PersistentVolumeClaim', namespace)}?labelSelector={quote(f'{STACK}={stack}')}"
        for namespace in run_namespaces(settings)
    ]
    claims = [storage.claim(one, stack) for one in settings.storage.volumes if "training" in halves]
    volumes = [
        storage.persistent_volume(one, stack) for one in settings.storage.persistent_volumes if "platform" in halves
    ]
    one_by_one = [paths.location(each) for each in (*claims, *volumes)]
    found: dict[str, Body] = {}
    held: list[Body] = []
    for path, answer in read([*marked, *one_by_one], settings.cluster.context).items():
        if not there(path, answer):
            continue
        if path in marked:
            found |= {each["metadata"]["uid"]: each for each in answer.body["items"]}
        elif answer.body["metadata"].get("namespace"):
            found[answer.body["metadata"]["uid"]] = answer.body
        else:
            held.append(answer.body)
    return tuple(sorted(found.values(), key=lambda each: str(each["metadata"]["name"]))), tuple(held)


def read_mounts(namespaces: Collection[str], context: str | None) -> dict[str, tuple[str, ...]]:
    """The pods that mount each claim of these namespaces, by the claim's `<namespace>/<name>`.

    Raises ClusterError where the cluster cannot be read.
    """
    asked = [paths.collection("v1", "Pod", namespace) for namespace in sorted(namespaces)]
    answers = read(asked, context) if asked else {}
    return mounting([pod for path, answer in answers.items() if there(path, answer) for pod in answer.body["items"]])
