"""Reading what a sweep's trials are doing: a few lists, however many trials there are; and their logs."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from kr8s.asyncio import Api

from trainstack.live.client import FORBIDDEN, ClusterError, connect, get_all, get_text, run
from trainstack.live.progress import JOB_UID, KUEUE, cluster_queues, items, preemptors
from trainstack.live.snapshot import read_launches, read_runs, run_namespaces
from trainstack.objects import labels
from trainstack.runs.launches import live_launch
from trainstack.runs.names import ledger_name
from trainstack.runs.status.main_container import trainer
from trainstack.runs.status.waiting import Queueing
from trainstack.settings.model import Settings
from trainstack.sweeps.status import Body, SweepObjects

T = TypeVar("T")
_LOGS_AT_ONCE = 8
_MOST_LINES = 100_000
"""Of a log, its last ones; a kubelet keeps 10 MiB unless it is configured otherwise."""


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
    ledgers = [ledger for ledger in known.ledgers if ledger.sweep == sweep]
    return SweepObjects(
        launches=own,
        ledgers=ledgers,
        files=known.files,
        pods=pods,
        queueing=queueing,
        ledger_metadata={
            ledger.run_id: known.metadata["ConfigMap", ledger.namespace, ledger_name(ledger.run_id)]
            for ledger in ledgers
        },
    )


def read_trial_logs(
    pods: Mapping[str, Body], context: str | None, parse: Callable[[str, str], T]
) -> tuple[dict[str, T], str]:
    """What the logs of trials have, by run id, and why some of them could not be read; empty where all could.

    A log that is gone is left out.

    Args:
        pods: by run id, the pod whose log counts.
        context: the kubeconfig's context; None: its current one.
        parse: takes a run id and its log, which is not held longer than for this.

    Raises ClusterError where the cluster cannot be reached.

    """
    return run(_read_logs(pods, context, parse)) if pods else ({}, "")


async def _read_logs(
    pods: Mapping[str, Body], context: str | None, parse: Callable[[str, str], T]
) -> tuple[dict[str, T], str]:
    api = await connect(context)
    gate = asyncio.Semaphore(_LOGS_AT_ONCE)

    found: dict[str, T] = {}
    problems: set[str] = set()

    async def one(run_id: str, pod: Body) -> None:
        metadata, container = pod["metadata"], trainer([each["name"] for each in pod["spec"]["containers"]])
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/log"
        async with gate:
            try:
                status, text = await get_text(api, f"{path}?container={quote(container)}&tailLines={_MOST_LINES}")
            except ClusterError as error:  # a log is its node's, which may be away while the cluster is well
                problems.add(str(error))
                return
            if status == httpx.codes.OK:
                found[run_id] = parse(run_id, text)
            elif status == FORBIDDEN:
                problems.add(f"you may not read logs in namespace {metadata['namespace']}")

    await asyncio.gather(*(one(run_id, pod) for run_id, pod in pods.items()))
    return found, "; ".join(sorted(problems))


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
