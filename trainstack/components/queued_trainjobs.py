"""TrainJobs that were queued before Kueue v0.17, in the form that Kueue v0.17 and Trainer v2.2 require.

Kueue passes node selectors and tolerations to a TrainJob in an entry of `spec.runtimePatches`, which Trainer has since
v2.2. Its webhook adds the entry when a TrainJob is created; without it, Kueue cannot start an admitted TrainJob
("kueue runtime patch not found" in pkg/controller/jobs/trainjob of Kueue v0.17 to v0.19).
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from trainstack.components.writes import merge_patch
from trainstack.live.client import CONCURRENCY, NOT_FOUND, PAGE_SIZE, Api, ClusterError, connect, get, get_list, run
from trainstack.objects.labels import QUEUE

_PATH = "/apis/trainer.kubeflow.org/v1alpha1"
_MANAGER = "kueue.x-k8s.io/manager"
_ENTRY = {"manager": _MANAGER, "trainingRuntimeSpec": {"template": {"spec": {}}}}
_TRIES = 5
"""Attempts if another client changes a TrainJob between the read and the PATCH."""


def add_runtime_patches(context: str | None) -> list[str]:
    """Add Kueue's entry to suspended TrainJobs of all namespaces, and return a note for each one that lacks it still.

    Kueue suspends a TrainJob that it evicts, so one that runs now gets the entry in a later `up`. `context`: the
    kubeconfig's context; None: its current one.
    """
    return run(_add_all(context))


async def _add_all(context: str | None) -> list[str]:
    api, limit = await connect(context), asyncio.Semaphore(CONCURRENCY)
    answer = await get_list(api, f"{_PATH}/trainjobs?labelSelector={QUEUE}&limit={PAGE_SIZE}")
    if answer.status == NOT_FOUND:
        return []
    if not answer.is_success:
        return [
            f"TrainJobs that were queued by a Kueue before v0.17 may not start: the list was refused ({answer.status})"
        ]

    async def add(trainjob: Mapping[str, Any]) -> str:
        metadata = trainjob["metadata"]
        async with limit:
            try:
                await _add(api, trainjob, f"{_PATH}/namespaces/{metadata['namespace']}/trainjobs/{metadata['name']}")
            except ClusterError as error:
                return f"TrainJob {metadata['namespace']}/{metadata['name']} cannot start when it is admitted: {error}"
        return ""

    lacking = [trainjob for trainjob in answer.body["items"] if _lacks_entry(trainjob)]
    return [note for note in await asyncio.gather(*map(add, lacking)) if note]


async def _add(api: Api, trainjob: Mapping[str, Any], path: str) -> None:
    for _ in range(_TRIES):
        change = {
            # The list is replaced as a whole, so the TrainJob must not have changed.
            "metadata": {"resourceVersion": trainjob["metadata"]["resourceVersion"]},
            "spec": {"runtimePatches": [*(trainjob["spec"].get("runtimePatches") or ()), _ENTRY]},
        }
        if await merge_patch(api, path, change, f"PATCH {path} was refused"):
            return
        answer = await get(api, path)
        if not answer.is_success or not _lacks_entry(answer.body):
            return
        trainjob = answer.body
    raise ClusterError(f"{path} changed {_TRIES} times while this `up` tried to patch it")


def _lacks_entry(trainjob: Mapping[str, Any]) -> bool:
    spec = trainjob["spec"]
    managers = {patch.get("manager") for patch in spec.get("runtimePatches") or ()}
    return bool(spec.get("suspend")) and _MANAGER not in managers
