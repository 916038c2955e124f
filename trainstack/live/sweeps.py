"""Reads of a sweep's trials, with few lists even for many trials, and of their logs."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from trainstack.live.client import FORBIDDEN, Api, ClusterError, get_all, get_text, run
from trainstack.live.progress import JOB_UID, KUEUE, cluster_queues, items, labelled, newest, preemptors
from trainstack.live.snapshot import read_launches, read_runs, run_namespaces
from trainstack.live.worker_clusters import Workers
from trainstack.objects import labels
from trainstack.runs.launches import live_launch
from trainstack.runs.manifests.build import is_dispatched
from trainstack.runs.names import ledger_name
from trainstack.runs.status.main_container import trainer
from trainstack.runs.status.waiting import Queueing, cluster_of
from trainstack.settings.model import Settings
from trainstack.sweeps.status import Body, SweepObjects

T = TypeVar("T")
_LOG_CONCURRENCY = 8
_MAX_LINES = 100_000
"""The number of a log's last lines that are read. By default, a kubelet keeps 10 MiB of a log."""


def read_sweep(settings: Settings, sweep: str) -> SweepObjects:
    """Return a sweep's launches, ledgers, files and pods, and why queued launches wait. Raises ClusterError."""
    known = read_runs(settings)
    launches = read_launches(settings, run_namespaces(settings))
    own = [body for body in launches if body["metadata"]["labels"].get(labels.SWEEP) == sweep]
    owner = settings.environment.profile == "owner"

    async def work() -> tuple[_SweepPods, dict[str, Queueing]]:
        workers = Workers(settings)
        api = await workers.api("")
        waiting = [body for body in own if live_launch(body).phase == "queued"]
        return await _pods(workers, own, sweep), await _queueing(api, waiting, cluster_wide=owner)

    found, queueing = run(work())
    ledgers = [ledger for ledger in known.ledgers if ledger.sweep == sweep]
    return SweepObjects(
        launches=own,
        ledgers=ledgers,
        files=known.files,
        pods=found.pods,
        clusters=found.clusters,
        unreached=found.unreached,
        queueing=queueing,
        ledger_metadata={
            ledger.run_id: known.metadata["ConfigMap", ledger.namespace, ledger_name(ledger.run_id)]
            for ledger in ledgers
        },
    )


def read_trial_logs(
    pods: Mapping[str, Body], clusters: Mapping[str, str], settings: Settings, parse: Callable[[str, str], T]
) -> tuple[dict[str, T], str]:
    """Parse the logs of trials. Return the results by run id, and why some logs could not be read, or "".

    A log that no longer exists is left out.

    Args:
        pods: the pods with the logs, by run id.
        clusters: MultiKueue's worker clusters with these pods, by run id; other pods are in the environment's cluster.
        settings: the environment's settings.
        parse: the parser, which receives a run id and its log.

    Raises ClusterError if the cluster cannot be reached.

    """
    return run(_read_logs(pods, clusters, Workers(settings), parse)) if pods else ({}, "")


async def _read_logs(
    pods: Mapping[str, Body], clusters: Mapping[str, str], workers: Workers, parse: Callable[[str, str], T]
) -> tuple[dict[str, T], str]:
    await workers.api("")
    limit = asyncio.Semaphore(_LOG_CONCURRENCY)
    found: dict[str, T] = {}
    problems: set[str] = set()

    async def read_one(run_id: str, pod: Body) -> None:
        metadata, container = pod["metadata"], trainer([item["name"] for item in pod["spec"]["containers"]])
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/log"
        async with limit:
            try:
                api = await workers.api(clusters.get(run_id, ""))
                status, text = await get_text(api, f"{path}?container={quote(container)}&tailLines={_MAX_LINES}")
            except ClusterError as error:  # the worker cluster, or the node that serves the log, may be unavailable
                problems.add(str(error))
                return
            if status == httpx.codes.OK:
                found[run_id] = parse(run_id, text)
            elif status == FORBIDDEN:
                problems.add(f"you may not read logs in namespace {metadata['namespace']}")

    await asyncio.gather(*(read_one(run_id, pod) for run_id, pod in pods.items()))
    return found, "; ".join(sorted(problems))


@dataclass
class _SweepPods:
    """The pods of a sweep, with `clusters` and `unreached` of SweepObjects."""

    pods: list[Body] = field(default_factory=list)
    clusters: dict[str, str] = field(default_factory=dict)
    unreached: dict[str, str] = field(default_factory=dict)


async def _pods(workers: Workers, launches: Sequence[dict[str, Any]], sweep: str) -> _SweepPods:
    """Return the pods of a sweep's launches, from the clusters that they were dispatched to."""
    found = _SweepPods()
    sent = [body for body in launches if is_dispatched(body)]
    uids = [(str(body["metadata"]["namespace"]), str(body["metadata"]["uid"])) for body in sent]
    workloads = await labelled(await workers.api(""), f"{KUEUE}/namespaces/{{}}/workloads", JOB_UID, uids)
    for body, own in zip(sent, workloads, strict=True):
        if cluster := cluster_of(newest(own) or {}):
            found.clusters[body["metadata"]["labels"][labels.LAUNCH]] = cluster
    places: dict[str, set[str]] = {}
    for body in launches:
        cluster = found.clusters.get(body["metadata"]["labels"][labels.LAUNCH], "")
        places.setdefault(cluster, set()).add(body["metadata"]["namespace"])
    selector = quote(f"{labels.SWEEP}={sweep}")
    for cluster, namespaces in places.items():
        paths = [f"/api/v1/namespaces/{name}/pods?labelSelector={selector}" for name in sorted(namespaces)]
        try:
            answers = await get_all(await workers.api(cluster), paths)
        except ClusterError as error:
            # Without the environment's own cluster, there is nothing to show.
            if not cluster:
                raise
            found.unreached[cluster] = str(error)
        else:
            found.pods += [pod for answer in answers.values() for pod in items(answer) or ()]
    return found


async def _queueing(api: Api, bodies: Sequence[dict[str, Any]], *, cluster_wide: bool) -> dict[str, Queueing]:
    """Return why launches wait, by their UIDs."""
    named = [(body["metadata"]["namespace"], body["metadata"]["labels"].get(labels.QUEUE)) for body in bodies]
    lists = {namespace: f"{KUEUE}/namespaces/{namespace}/workloads" for namespace, _ in named}
    queues = {queue: f"{KUEUE}/namespaces/{queue[0]}/localqueues/{queue[1]}" for queue in named if queue[1]}
    answers = await get_all(api, [*lists.values(), *queues.values()])
    # While Kueue replaces a Workload, there are two with one owner. Sorted by time, the newest one remains in the dict.
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
