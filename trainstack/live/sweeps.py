"""Reads of a sweep's trials, with few lists even for many trials, and of their logs."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from trainstack.live.client import FORBIDDEN, Api, ClusterError, get_all, get_text, run
from trainstack.live.run_views import (
    JOB_UID,
    KUEUE,
    items_or_none,
    newest_workload,
    read_by_label,
    read_cluster_queues,
    read_preemptor_names,
)
from trainstack.live.snapshot import read_launches, read_runs, run_namespaces
from trainstack.live.worker_clusters import WorkerClients
from trainstack.objects import labels
from trainstack.runs.launches import live_launch
from trainstack.runs.manifests.build import is_dispatched
from trainstack.runs.names import ledger_name
from trainstack.runs.status.main_container import main_container_name
from trainstack.runs.status.waiting import Queueing, worker_cluster
from trainstack.settings.model import Settings
from trainstack.sweeps.status import Body, SweepObjects

T = TypeVar("T")
_LOG_CONCURRENCY = 8
_MAX_LOG_LINES = 100_000
"""The number of a log's last lines that are read. By default, a kubelet keeps 10 MiB of a log."""


def read_sweep(settings: Settings, sweep: str) -> SweepObjects:
    """Return a sweep's launches, ledgers, files and pods, and why queued launches wait. Raises ClusterError."""
    live_runs = read_runs(settings)
    stack_launches = read_launches(settings, run_namespaces(settings))
    sweep_launches = [body for body in stack_launches if body["metadata"]["labels"].get(labels.SWEEP) == sweep]
    is_owner = settings.environment.profile == "owner"

    async def work() -> tuple[_SweepPods, dict[str, Queueing]]:
        workers = WorkerClients(settings)
        api = await workers.api("")
        queued_launches = [body for body in sweep_launches if live_launch(body).phase == "queued"]
        return await _read_pods(workers, sweep_launches, sweep), await _read_queueing(
            api, queued_launches, cluster_wide=is_owner
        )

    sweep_pods, queueing = run(work())
    ledgers = [ledger for ledger in live_runs.ledgers if ledger.sweep == sweep]
    return SweepObjects(
        launches=sweep_launches,
        ledgers=ledgers,
        files=live_runs.files,
        pods=sweep_pods.pods,
        clusters=sweep_pods.clusters,
        unreached=sweep_pods.unreached,
        queueing=queueing,
        ledger_metadata={
            ledger.run_id: live_runs.metadata["ConfigMap", ledger.namespace, ledger_name(ledger.run_id)]
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
    return run(_read_logs(pods, clusters, WorkerClients(settings), parse)) if pods else ({}, "")


async def _read_logs(
    pods: Mapping[str, Body], clusters: Mapping[str, str], workers: WorkerClients, parse: Callable[[str, str], T]
) -> tuple[dict[str, T], str]:
    await workers.api("")
    limit = asyncio.Semaphore(_LOG_CONCURRENCY)
    result_by_run: dict[str, T] = {}
    problems: set[str] = set()

    async def read_one(run_id: str, pod: Body) -> None:
        metadata, container = pod["metadata"], main_container_name(pod)
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/log"
        async with limit:
            try:
                api = await workers.api(clusters.get(run_id, ""))
                status, text = await get_text(api, f"{path}?container={quote(container)}&tailLines={_MAX_LOG_LINES}")
            except ClusterError as error:  # the worker cluster, or the node that serves the log, may be unavailable
                problems.add(str(error))
                return
            if status == httpx.codes.OK:
                result_by_run[run_id] = parse(run_id, text)
            elif status == FORBIDDEN:
                problems.add(f"you may not read logs in namespace {metadata['namespace']}")

    await asyncio.gather(*(read_one(run_id, pod) for run_id, pod in pods.items()))
    return result_by_run, "; ".join(sorted(problems))


@dataclass
class _SweepPods:
    """The pods of a sweep, with `clusters` and `unreached` of SweepObjects."""

    pods: list[Body] = field(default_factory=list)
    clusters: dict[str, str] = field(default_factory=dict)
    unreached: dict[str, str] = field(default_factory=dict)


async def _read_pods(workers: WorkerClients, launches: Sequence[dict[str, Any]], sweep: str) -> _SweepPods:
    """Return the pods of a sweep's launches, from the clusters that they were dispatched to."""
    sweep_pods = _SweepPods()
    dispatched_launches = [body for body in launches if is_dispatched(body)]
    uids = [(str(body["metadata"]["namespace"]), str(body["metadata"]["uid"])) for body in dispatched_launches]
    workloads = await read_by_label(await workers.api(""), f"{KUEUE}/namespaces/{{}}/workloads", JOB_UID, uids)
    for body, launch_workloads in zip(dispatched_launches, workloads, strict=True):
        if cluster := worker_cluster(newest_workload(launch_workloads) or {}):
            sweep_pods.clusters[body["metadata"]["labels"][labels.LAUNCH]] = cluster
    namespaces_by_cluster: dict[str, set[str]] = {}
    for body in launches:
        cluster = sweep_pods.clusters.get(body["metadata"]["labels"][labels.LAUNCH], "")
        namespaces_by_cluster.setdefault(cluster, set()).add(body["metadata"]["namespace"])
    selector = quote(f"{labels.SWEEP}={sweep}")
    for cluster, namespaces in namespaces_by_cluster.items():
        paths = [f"/api/v1/namespaces/{name}/pods?labelSelector={selector}" for name in sorted(namespaces)]
        try:
            answers = await get_all(await workers.api(cluster), paths)
        except ClusterError as error:
            # Without the environment's own cluster, there is nothing to show.
            if not cluster:
                raise
            sweep_pods.unreached[cluster] = str(error)
        else:
            sweep_pods.pods += [pod for answer in answers.values() for pod in items_or_none(answer) or ()]
    return sweep_pods


async def _read_queueing(api: Api, bodies: Sequence[dict[str, Any]], *, cluster_wide: bool) -> dict[str, Queueing]:
    """Return why launches wait, by their UIDs."""
    queue_keys = [(body["metadata"]["namespace"], body["metadata"]["labels"].get(labels.QUEUE)) for body in bodies]
    workload_list_by_namespace = {namespace: f"{KUEUE}/namespaces/{namespace}/workloads" for namespace, _ in queue_keys}
    path_by_queue = {queue: f"{KUEUE}/namespaces/{queue[0]}/localqueues/{queue[1]}" for queue in queue_keys if queue[1]}
    answers = await get_all(api, [*workload_list_by_namespace.values(), *path_by_queue.values()])
    # While Kueue replaces a Workload, there are two with one owner. Sorted by time, the newest one remains in the dict.
    workloads_by_namespace = {
        namespace: {
            item["metadata"].get("labels", {}).get(JOB_UID): item
            for item in sorted(namespace_workloads, key=lambda item: str(item["metadata"].get("creationTimestamp")))
        }
        if (namespace_workloads := items_or_none(answers[path])) is not None
        else None
        for namespace, path in workload_list_by_namespace.items()
    }
    workloads = [
        None
        if (workload_by_uid := workloads_by_namespace[namespace]) is None
        else workload_by_uid.get(body["metadata"]["uid"], {})
        for body, (namespace, _) in zip(bodies, queue_keys, strict=True)
    ]
    local_queues = [
        answers[path_by_queue[queue]].readable_body if queue in path_by_queue else None for queue in queue_keys
    ]
    cluster_queue_by_name = await read_cluster_queues(api, local_queues) if cluster_wide else {}
    preemptor_names = await read_preemptor_names(api, bodies, workloads, cluster_wide=cluster_wide)
    return {
        body["metadata"]["uid"]: Queueing(
            workload=workload,
            local_queue=queue,
            cluster_queue=cluster_queue_by_name.get(((queue or {}).get("spec") or {}).get("clusterQueue", "")),
            owners=preemptor_names,
        )
        for body, workload, queue in zip(bodies, workloads, local_queues, strict=True)
    }
