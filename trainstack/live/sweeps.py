"""Reads of the status of a sweep's trials, with a few lists for any number of trials, and of their logs."""

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
_LOG_CONCURRENCY = 8
_MAX_LINES = 100_000
"""The last lines of a log that are read; by default, a kubelet keeps 10 MiB."""


def read_sweep(settings: Settings, sweep: str) -> SweepObjects:
    """Read a sweep's launches, ledgers, files and pods, and why queued launches wait. Raises ClusterError."""
    known = read_runs(settings)
    context = settings.cluster.context
    launches = read_launches(settings, run_namespaces(settings))
    own = [body for body in launches if body["metadata"]["labels"].get(labels.SWEEP) == sweep]
    owner = settings.environment.profile == "owner"

    async def work() -> tuple[list[dict[str, Any]], dict[str, Queueing]]:
        api = await connect(context)
        waiting = [body for body in own if live_launch(body).phase == "queued"]
        return await _pods(api, own, sweep), await _queueing(api, waiting, cluster_wide=owner)

    pods, queueing = run(work())
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
    """Parse the logs of trials. Return the results by run id, and why some logs could not be read, or "".

    A log that no longer exists is left out.

    Args:
        pods: the pods with the logs, by run id.
        context: the kubeconfig's context; None: its current one.
        parse: receives a run id and its log.

    Raises ClusterError if the cluster cannot be reached.

    """
    return run(_read_logs(pods, context, parse)) if pods else ({}, "")


async def _read_logs(
    pods: Mapping[str, Body], context: str | None, parse: Callable[[str, str], T]
) -> tuple[dict[str, T], str]:
    api = await connect(context)
    limit = asyncio.Semaphore(_LOG_CONCURRENCY)
    found: dict[str, T] = {}
    problems: set[str] = set()

    async def read_one(run_id: str, pod: Body) -> None:
        metadata, container = pod["metadata"], trainer([item["name"] for item in pod["spec"]["containers"]])
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/log"
        async with limit:
            try:
                status, text = await get_text(api, f"{path}?container={quote(container)}&tailLines={_MAX_LINES}")
            except ClusterError as error:  # the pod's node, which serves the log, may be unavailable
                problems.add(str(error))
                return
            if status == httpx.codes.OK:
                found[run_id] = parse(run_id, text)
            elif status == FORBIDDEN:
                problems.add(f"you may not read logs in namespace {metadata['namespace']}")

    await asyncio.gather(*(read_one(run_id, pod) for run_id, pod in pods.items()))
    return found, "; ".join(sorted(problems))


async def _pods(api: Api, launches: Sequence[dict[str, Any]], sweep: str) -> list[dict[str, Any]]:
    selector = quote(f"{labels.SWEEP}={sweep}")
    namespaces = sorted({body["metadata"]["namespace"] for body in launches})
    answers = await get_all(api, [f"/api/v1/namespaces/{name}/pods?labelSelector={selector}" for name in namespaces])
    return [dict(pod) for answer in answers.values() for pod in items(answer) or ()]


async def _queueing(api: Api, bodies: Sequence[dict[str, Any]], *, cluster_wide: bool) -> dict[str, Queueing]:
    named = [(body["metadata"]["namespace"], body["metadata"]["labels"].get(labels.QUEUE)) for body in bodies]
    lists = {namespace: f"{KUEUE}/namespaces/{namespace}/workloads" for namespace, _ in named}
    queues = {queue: f"{KUEUE}/namespaces/{queue[0]}/localqueues/{queue[1]}" for queue in named if queue[1]}
    answers = await get_all(api, [*lists.values(), *queues.values()])
    by_owner = {
        namespace: {
            item["metadata"].get("labels", {}).get(JOB_UID): item
            for item in sorted(found, key=lambda item: str(item["metadata"].get("creationTimestamp")))
        }
        if (found := items(answers[path])) is not None
        else None
        for namespace, path in lists.items()
    }
    workloads = [
        None if (known := by_owner[namespace]) is None else known.get(body["metadata"]["uid"], {})
        for body, (namespace, _) in zip(bodies, named, strict=True)
    ]
    local = [answers[queues[queue]].object if queue in queues else None for queue in named]
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
