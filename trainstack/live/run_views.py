"""Reads of launches' status: Workloads, positions in the queue, pods, claims and the ends of logs."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote

import httpx

from trainstack.live.client import CONCURRENCY, Answer, Api, ClusterError, get_all, get_available, get_text, read, run
from trainstack.live.companions import companion_paths, companions
from trainstack.live.worker_clusters import WorkerClients
from trainstack.objects import labels
from trainstack.runs.logs.log_lines import LogLine, log_lines
from trainstack.runs.manifests.build import is_dispatched
from trainstack.runs.status.launch_kinds import kind_of_launch, mounted_claims
from trainstack.runs.status.main_container import main_container_name
from trainstack.runs.status.pods import pod_problems, pod_views
from trainstack.runs.status.run_view import RunObjects, RunView, run_view
from trainstack.runs.status.usage import Usage, merge_summaries
from trainstack.runs.status.waiting import (
    Queueing,
    connection_problem,
    nominated_clusters,
    preemptor_uid,
    worker_cluster,
)
from trainstack.settings.model import Settings

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
_PODS = "/api/v1/namespaces/{}/pods"
_VISIBILITY = "/apis/visibility.kueue.x-k8s.io/v1beta2"
JOB_UID = "kueue.x-k8s.io/job-uid"
"""The label of a Workload whose value is the UID of the Job, or other object, that owns it."""
_LOG_LINES = 200
"""The number of a log's last lines from which progress and its rate are read."""
_BATCH_SIZE = 50
"""The maximum number of values in one label selector. With more, the path would exceed 4 KB."""

Body = Mapping[str, Any]


@dataclass(frozen=True)
class LaunchPaths:
    """The API paths of a launch's objects. `local_queue` and `pending` are None without a queue."""

    workloads: str
    pods: str
    local_queue: str | None
    pending: str | None
    claims: Mapping[str, str]


def read_launch_views(
    bodies: Sequence[Body], settings: Settings, now: datetime, *, cluster_wide: bool, with_usage: bool = False
) -> list[RunView]:
    """Return the status of each launch, in the order of `bodies`.

    Args:
        bodies: the live launches.
        settings: the environment's settings, with the contexts of its cluster and of MultiKueue's worker clusters.
        now: the current time, for the estimate of the remaining time.
        cluster_wide: read ClusterQueues and the usage of nodes. A tenant's profile has no right to read them.
        with_usage: read the usage of pods and volumes from the nodes. Requires `cluster_wide`.

    Raises ClusterError. Objects that the user may not read count as unknown.

    """

    async def work() -> list[RunView]:
        return await read_launch_views_async(
            WorkerClients(settings), bodies, now, cluster_wide=cluster_wide, with_usage=with_usage
        )

    return run(work())


async def read_launch_views_async(
    workers: WorkerClients,
    bodies: Sequence[Body],
    now: datetime,
    *,
    cluster_wide: bool,
    with_usage: bool = False,
    with_log: bool = True,
) -> list[RunView]:
    """Read as `read_launch_views` does, with existing clients. `with_log`: read the ends of logs too."""
    api = await workers.api("")
    # Three rounds of concurrent requests: companions define the claims of a launch, and its Workload names the cluster
    # that it was dispatched to and the launches that preempted it.
    companion_answers = await get_all(api, companion_paths(bodies))
    companion_lists = [companions(body, companion_answers) for body in bodies]
    launch_paths = [paths_of_launch(body, objects) for body, objects in zip(bodies, companion_lists, strict=True)]
    answers, workload_lists, pods = await asyncio.gather(
        get_all(
            api, (path for launch in launch_paths for path in (*launch.claims.values(), launch.local_queue) if path)
        ),
        read_by_label(api, f"{KUEUE}/namespaces/{{}}/workloads", JOB_UID, [_job_key(body) for body in bodies]),
        _read_pods(api, bodies),
    )
    workloads = [newest_workload(candidates) for candidates in workload_lists]
    # The pods and claims of a dispatched launch are in its worker cluster, as is its log.
    worker_objects_by_index, workload_copies = await asyncio.gather(
        _read_worker_objects(workers, launch_paths, workloads),
        asyncio.gather(*(_read_workload_copies(workers, workload or {}) for workload in workloads)),
    )
    apis = [api] * len(bodies)
    for index, worker_objects in worker_objects_by_index.items():
        pods[index] = worker_objects.pods
        apis[index] = worker_objects.api or api
    queues = [answers[launch.local_queue].readable_body if launch.local_queue else None for launch in launch_paths]
    limit = asyncio.Semaphore(CONCURRENCY)
    pending, logs, cluster_queue_by_name, preemptor_names, node_usage, unconnected_reasons = await asyncio.gather(
        get_available(api, [launch.pending for launch in launch_paths if launch.pending]),
        asyncio.gather(
            *(
                _read_log_end(client, body, launch_pods if with_log and launch_pods else (), limit)
                for client, body, launch_pods in zip(apis, bodies, pods, strict=True)
            )
        ),
        read_cluster_queues(api, queues) if cluster_wide else _empty_result(),
        read_preemptor_names(api, bodies, workloads, cluster_wide=cluster_wide),
        # The pods of a dispatched launch are on nodes of another cluster.
        _read_usage(
            api, [launch_pods for index, launch_pods in enumerate(pods) if index not in worker_objects_by_index]
        )
        if with_usage and cluster_wide
        else _no_usage(),
        _read_unconnected_reasons(api) if cluster_wide and any(map(is_dispatched, bodies)) else _empty_result(),
    )
    positions = {path: _parse_positions(answer) for path, answer in pending.items()}
    return [
        run_view(
            RunObjects(
                launch=body,
                companions=companion_lists[index],
                queueing=Queueing(
                    workload=workloads[index],
                    local_queue=queues[index],
                    cluster_queue=cluster_queue_by_name.get(
                        ((queues[index] or {}).get("spec") or {}).get("clusterQueue")
                    ),
                    dispatched=is_dispatched(body),
                    copies=workload_copies[index],
                    connection_problems=_unconnected_reasons_of_launch(
                        unconnected_reasons, body, workloads[index] or {}, workers.settings
                    ),
                    owners=preemptor_names,
                ),
                pods=pods[index],
                claims=worker_objects_by_index[index].claims
                if index in worker_objects_by_index
                else {name: answers[path].readable_body for name, path in launch.claims.items()},
                unreached=worker_objects_by_index[index].problem if index in worker_objects_by_index else "",
                usage=node_usage,
                positions=positions.get(launch.pending or ""),
                log=logs[index],
            ),
            now,
        )
        for index, (body, launch) in enumerate(zip(bodies, launch_paths, strict=True))
    ]


@dataclass(frozen=True)
class _WorkerObjects:
    """The objects of a dispatched launch in its worker cluster; `problem`: why they could not be read, or ""."""

    api: Api | None = None
    pods: list[Body] | None = None
    claims: Mapping[str, Body | None] = field(default_factory=dict)
    problem: str = ""


async def _read_worker_objects(
    workers: WorkerClients, launches: Sequence[LaunchPaths], workloads: Sequence[Body | None]
) -> dict[int, _WorkerObjects]:
    """Return the objects of dispatched launches in their worker clusters, by the launch's index.

    An unreachable cluster raises no error, but is the `problem` of its launches.
    """

    async def read_one(launch: LaunchPaths, cluster: str) -> _WorkerObjects:
        try:
            api = await workers.api(cluster)
            answers = await get_all(api, [launch.pods, *launch.claims.values()])
        except ClusterError as error:
            return _WorkerObjects(problem=str(error))
        claim_by_name = {name: answers[path].readable_body for name, path in launch.claims.items()}
        return _WorkerObjects(api, items_or_none(answers[launch.pods]), claim_by_name)

    clusters = {index: worker_cluster(workload or {}) for index, workload in enumerate(workloads)}
    cluster_by_index = {index: cluster for index, cluster in clusters.items() if cluster}
    worker_objects = await asyncio.gather(
        *(read_one(launches[index], cluster) for index, cluster in cluster_by_index.items())
    )
    return dict(zip(cluster_by_index, worker_objects, strict=True))


async def _read_workload_copies(workers: WorkerClients, workload: Body) -> dict[str, Body | str]:
    """Return the copies of a Workload by worker cluster that may reserve quota for it.

    The value is a message if a copy could not be read.
    """

    async def read_one(cluster: str) -> Body | str:
        metadata = workload["metadata"]
        path = f"{KUEUE}/namespaces/{metadata['namespace']}/workloads/{metadata['name']}"
        try:
            copy = (await get_all(await workers.api(cluster), [path]))[path].readable_body
        except ClusterError as error:
            return str(error)
        return "these credentials may not read its Workload" if copy is None else copy

    clusters = nominated_clusters(workload)
    return dict(zip(clusters, await asyncio.gather(*map(read_one, clusters)), strict=True))


async def _read_unconnected_reasons(api: Api) -> dict[str, str]:
    """Return why Kueue cannot reach worker clusters, by name; {} if the user may not read MultiKueueClusters."""
    path = f"{KUEUE}/multikueueclusters"
    clusters = items_or_none((await get_all(api, [path]))[path]) or ()
    reason_by_cluster = {str(cluster["metadata"]["name"]): connection_problem(cluster) for cluster in clusters}
    return {name: reason for name, reason in reason_by_cluster.items() if reason}


def _unconnected_reasons_of_launch(
    reasons: Mapping[str, str], body: Body, workload: Body, settings: Settings
) -> dict[str, str]:
    """Return the reasons for the clusters that a dispatched launch may use: the chosen one, or else its queue's."""
    if not is_dispatched(body):
        return {}
    metadata, cluster = body["metadata"], worker_cluster(workload)
    queue_clusters = settings.queues.worker_clusters(metadata["namespace"], metadata["labels"].get(labels.QUEUE))
    candidates = (cluster,) if cluster else queue_clusters or nominated_clusters(workload)
    return {name: reasons[name] for name in candidates if name in reasons}


def read_clusters_by_run(bodies: Sequence[Body], context: str | None) -> dict[str, str]:
    """Return the worker clusters of dispatched launches, by run id.

    Launches for which MultiKueue has not chosen a cluster yet are left out. Raises ClusterError.
    """
    launch_by_path = {paths_of_launch(body, ()).workloads: body for body in bodies if is_dispatched(body)}
    cluster_by_run = {}
    for path, answer in (read(list(launch_by_path), context) if launch_by_path else {}).items():
        workload = newest_workload(_items_unless_forbidden(answer))
        if cluster := worker_cluster(workload or {}):
            cluster_by_run[str(launch_by_path[path]["metadata"]["labels"][labels.RUN])] = cluster
    return cluster_by_run


def paths_of_launch(body: Body, companion_bodies: Sequence[Body]) -> LaunchPaths:
    """Return the paths of a launch's objects. `companion_bodies`: the objects that the launch refers to."""
    metadata = body["metadata"]
    namespace_path = f"namespaces/{metadata['namespace']}"
    queue = metadata["labels"].get(labels.QUEUE)
    job_selector = quote(f"{JOB_UID}={metadata['uid']}")
    label, value = kind_of_launch(body["kind"]).pod_label(body)
    pod_selector = quote(f"{label}={value}")
    return LaunchPaths(
        workloads=f"{KUEUE}/{namespace_path}/workloads?labelSelector={job_selector}",
        pods=f"/api/v1/{namespace_path}/pods?labelSelector={pod_selector}",
        local_queue=f"{KUEUE}/{namespace_path}/localqueues/{queue}" if queue else None,
        pending=f"{_VISIBILITY}/{namespace_path}/localqueues/{queue}/pendingworkloads" if queue else None,
        claims={
            name: f"/api/v1/{namespace_path}/persistentvolumeclaims/{name}"
            for name in mounted_claims(body, companion_bodies)
        },
    )


async def _empty_result() -> dict[Any, Any]:
    return {}


async def read_by_label(
    api: Api, collection: str, label: str, values: Sequence[tuple[str, str]]
) -> list[list[Body] | None]:
    """Return the objects with each value of a label, in the order of `values`; None if the user may not read them.

    `collection`: the path of the list, with `{}` for the namespace. `values`: pairs of namespace and label value.
    """
    values_by_namespace: dict[str, list[str]] = {}
    for namespace, value in dict.fromkeys(values):
        values_by_namespace.setdefault(namespace, []).append(value)
    # One list for each batch of values, since a request for each launch would take too long.
    batch_by_path = {}
    for namespace, group in values_by_namespace.items():
        for start in range(0, len(group), _BATCH_SIZE):
            batch = group[start : start + _BATCH_SIZE]
            selector = quote(f"{label} in ({','.join(batch)})")
            batch_by_path[f"{collection.format(namespace)}?labelSelector={selector}"] = namespace, batch
    answers = await get_all(api, batch_by_path)
    bodies_by_key: dict[tuple[str, str], list[Body] | None] = {}
    for path, (namespace, batch) in batch_by_path.items():
        bodies = _items_unless_forbidden(answers[path])
        bodies_by_value: dict[str, list[Body]] = {value: [] for value in batch}
        for item in bodies or ():
            bodies_by_value[str(item["metadata"]["labels"][label])].append(item)
        bodies_by_key |= {
            (namespace, value): None if bodies is None else group for value, group in bodies_by_value.items()
        }
    return [bodies_by_key[value] for value in values]


async def _read_pods(api: Api, bodies: Sequence[Body]) -> list[list[Body] | None]:
    """Return the pods of each launch, in the order of `bodies`; None if the user may not read them."""
    pod_labels = [kind_of_launch(body["kind"]).pod_label(body) for body in bodies]
    pods: list[list[Body] | None] = [None] * len(bodies)
    for label in dict.fromkeys(label for label, _ in pod_labels):
        indexes = [index for index, pod_label in enumerate(pod_labels) if pod_label[0] == label]
        values = [(str(bodies[index]["metadata"]["namespace"]), pod_labels[index][1]) for index in indexes]
        for index, pods_of_launch in zip(indexes, await read_by_label(api, _PODS, label, values), strict=True):
            pods[index] = pods_of_launch
    return pods


def _job_key(body: Body) -> tuple[str, str]:
    return str(body["metadata"]["namespace"]), str(body["metadata"]["uid"])


def _items_unless_forbidden(answer: Answer) -> list[Body] | None:
    """Return the items of a list, [] if it does not exist, or None if the user may not read it."""
    return None if answer.readable_body is None else answer.readable_body.get("items") or []


def newest_workload(workloads: Sequence[Body] | None) -> Body | None:
    """Return a launch's current Workload, {} without one, or None if Workloads could not be read.

    There are two while Kueue replaces a Workload.
    """
    if workloads is None:
        return None
    return max(workloads, key=lambda item: str(item["metadata"].get("creationTimestamp")), default={})


def _parse_positions(answer: Answer) -> Mapping[str, int] | None:
    """Return the positions in the local queue by the Workload's name, or None if they could not be read."""
    pending = items_or_none(answer)
    if pending is None:
        return None
    return {str(item["metadata"]["name"]): int(item.get("positionInLocalQueue", 0)) for item in pending}


def items_or_none(answer: Answer | None) -> list[Body] | None:
    """Return the items of a list, or None if it does not exist or was not read."""
    return list(answer.body.get("items", [])) if answer and answer.is_success else None


async def read_cluster_queues(api: Api, queues: Sequence[Body | None]) -> dict[str, Body | None]:
    """Return the ClusterQueues of local queues, by name; None for one that the user may not read."""
    specs = [queue.get("spec") or {} for queue in queues if queue]
    names = {str(spec["clusterQueue"]) for spec in specs if spec.get("clusterQueue")}
    path_by_name = {name: f"{KUEUE}/clusterqueues/{name}" for name in names}
    answers = await get_all(api, path_by_name.values())
    return {name: answers[path].readable_body for name, path in path_by_name.items()}


async def read_preemptor_names(
    api: Api, bodies: Sequence[Body], workloads: Sequence[Body | None], *, cluster_wide: bool
) -> dict[str, str]:
    """Return the names of the launches that preempted others, by their objects' UIDs."""
    uid_by_path = {}
    for body, workload in zip(bodies, workloads, strict=True):
        if workload and (uid := preemptor_uid(workload)):
            namespace_part = "" if cluster_wide else f"/namespaces/{body['metadata']['namespace']}"
            uid_by_path[f"{KUEUE}{namespace_part}/workloads?labelSelector={quote(f'{JOB_UID}={uid}')}"] = uid
    name_by_uid = {}
    for path, answer in (await get_all(api, uid_by_path)).items():
        for item in answer.body.get("items", ()):
            owner = next(iter(item["metadata"].get("ownerReferences") or ()), item["metadata"])
            name_by_uid[uid_by_path[path]] = f"{item['metadata']['namespace']}/{owner['name']}"
    return name_by_uid


async def _read_usage(api: Api, pods: Sequence[Sequence[Body] | None]) -> Usage:
    running = [
        pod for launch_pods in pods for pod in launch_pods or () if pod.get("status", {}).get("phase") == "Running"
    ]
    nodes = {str(pod["spec"]["nodeName"]) for pod in running}
    answers = await get_available(api, [f"/api/v1/nodes/{node}/proxy/stats/summary" for node in nodes])
    return merge_summaries([answer.body for answer in answers.values() if answer.is_success])


async def _no_usage() -> Usage:
    return Usage()


async def _read_log_end(api: Api, body: Body, pods: Sequence[Body], limit: asyncio.Semaphore) -> Sequence[LogLine]:
    """Return the end of the first replica's log, or () without one. `limit`: of concurrent requests."""
    first_view = next(iter(pod_views(pods, body["kind"])), None)
    if first_view is None or first_view.phase in ("Pending", "Unknown"):
        return ()
    pod = next(pod for pod in pods if pod["metadata"]["name"] == first_view.name)
    metadata, container = pod["metadata"], main_container_name(pod)
    path = (
        f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/log"
        f"?container={container}&tailLines={_LOG_LINES}&timestamps=true"
    )
    try:
        async with limit:
            status, text = await get_text(api, path)
    except ClusterError:  # the pod's node, which serves the log, may be unavailable
        return ()
    return log_lines(text) if status == httpx.codes.OK else ()


def describe_pod(pod: Body) -> str:
    """Return `<name> <phase>`, followed by the pod's problems, if any."""
    line = f"{pod['metadata']['name']} {pod.get('status', {}).get('phase', 'Unknown')}"
    problems = pod_problems(pod)
    return f"{line}: {', '.join(problems)}" if problems else line
