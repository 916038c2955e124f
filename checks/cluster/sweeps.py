"""Reading what a sweep's trials are doing: a few lists, however many trials there are."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from kr8s.asyncio import Api

from checks.cluster.client import connect, get_all, run
from checks.cluster.progress import JOB_UID, KUEUE, cluster_queues, items, preemptors
from checks.cluster.snapshot import read_launches, read_runs, run_namespaces
from checks.launches import live_launch
from checks.live_trials import SweepObjects
from checks.waiting import Queueing
from manifests import labels
from settings.model import Settings


def read_sweep(settings: Settings, sweep: str) -> SweepObjects:
    """Read a sweep's launches, ledgers, files and pods, and why those that are queued wait. Raises ClusterError."""
    known = read_runs(settings)
    context = settings.cluster.context
    launches = read_launches(settings.stack, run_namespaces(settings), context)
    own = [body for body in launches if body["metadata"]["labels"].get(labels.SWEEP) == sweep]
    owner = settings.environment.profile == "owner"

    async def look() -> tuple[list[dict[str, Any]], dict[str, Queueing]]:
        api = await connect(context)
        waiting = [body for body in own if live_launch(body).phase == "queued"]
        return await _pods(api, own, sweep), await _queueing(api, waiting, cluster_wide=owner)

    pods, queueing = run(look())
    return SweepObjects(
        launches=own,
        ledgers=[ledger for ledger in known.ledgers if ledger.sweep == sweep],
        files=known.files,
        pods=pods,
        queueing=queueing,
    )


async def _pods(api: Api, launches: Sequence[dict[str, Any]], sweep: str) -> list[dict[str, Any]]:
    selector = quote(f"{labels.SWEEP}={sweep}")
    namespaces = sorted({body["metadata"]["namespace"] for body in launches})
    answers = await get_all(api, [f"/api/v1/namespaces/{each}/pods?labelSelector={selector}" for each in namespaces])
    return [dict(pod) for answer in answers.values() for pod in items(answer) or ()]


async def _queueing(api: Api, bodies: Sequence[dict[str, Any]], *, cluster_wide: bool) -> dict[str, Queueing]:
    """Of each launch, by its uid, what Kueue says of it."""
    places = [(body["metadata"]["namespace"], body["metadata"]["labels"].get(labels.QUEUE)) for body in bodies]
    lists = {namespace: f"{KUEUE}/namespaces/{namespace}/workloads" for namespace, _ in places}
    queues = {place: f"{KUEUE}/namespaces/{place[0]}/localqueues/{place[1]}" for place in places if place[1]}
    answers = await get_all(api, [*lists.values(), *queues.values()])
    of_job = {
        namespace: {
            item["metadata"].get("labels", {}).get(JOB_UID): item
            for item in sorted(found, key=lambda each: str(each["metadata"].get("creationTimestamp")))
        }
        if (found := items(answers[path])) is not None
        else None
        for namespace, path in lists.items()
    }
    workloads = [
        None if (known := of_job[namespace]) is None else known.get(body["metadata"]["uid"], {})
        for body, (namespace, _) in zip(bodies, places, strict=True)
    ]
    local = [answers[queues[place]].object if place in queues else None for place in places]
    held = await cluster_queues(api, local) if cluster_wide else {}
    owners = await preemptors(api, bodies, workloads, cluster_wide=cluster_wide)
    return {
        body["metadata"]["uid"]: Queueing(
            workload=workload,
            local_queue=queue,
            cluster_queue=held.get(((queue or {}).get("spec") or {}).get("clusterQueue", "")),
            owners=owners,
        )
        for body, workload, queue in zip(bodies, workloads, local, strict=True)
    }
