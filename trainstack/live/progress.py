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
from trainstack.live.worker_clusters import Workers
from trainstack.objects import labels
from trainstack.runs.logs.log_lines import LogLine, log_lines
from trainstack.runs.manifests.build import is_dispatched
from trainstack.runs.status.kinds import claims
from trainstack.runs.status.main_container import trainer
from trainstack.runs.status.pods import pod_views, problems
from trainstack.runs.status.run_view import RunObjects, RunView, run_view
from trainstack.runs.status.usage import Usage, usage
from trainstack.runs.status.waiting import Queueing, cluster_of, nominated_clusters, preemptor, unconnected
from trainstack.settings.model import Settings

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
_VISIBILITY = "/apis/visibility.kueue.x-k8s.io/v1beta2"
JOB_UID = "kueue.x-k8s.io/job-uid"
"""The label of a Workload whose value is the UID of the Job, or other object, that owns it."""
_LINES = 200
"""The number of a log's last lines from which progress and its rate are read."""
_BATCH = 50
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


def view_runs(
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
        return await view_all(Workers(settings), bodies, now, cluster_wide=cluster_wide, with_usage=with_usage)

    return run(work())


async def view_all(
    workers: Workers,
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
    runtimes = await get_all(api, companion_paths(bodies))
    referenced = [companions(body, runtimes) for body in bodies]
    launches = [paths_of(body, objects) for body, objects in zip(bodies, referenced, strict=True)]
    answers, replaced, pods = await asyncio.gather(
        get_all(api, (path for launch in launches for path in (*launch.claims.values(), launch.local_queue) if path)),
        labelled(api, f"{KUEUE}/namespaces/{{}}/workloads", JOB_UID, [_job_uid(body) for body in bodies]),
        labelled(api, "/api/v1/namespaces/{}/pods", labels.LAUNCH, [_launch(body) for body in bodies]),
    )
    workloads = [newest(found) for found in replaced]
    # The pods and claims of a dispatched launch are in its worker cluster, as is its log.
    elsewhere, copies = await asyncio.gather(
        _elsewhere(workers, launches, workloads),
        asyncio.gather(*(_copies(workers, workload or {}) for workload in workloads)),
    )
    apis = [api] * len(bodies)
    for index, sent in elsewhere.items():
        pods[index] = sent.pods
        apis[index] = sent.api or api
    queues = [answers[launch.local_queue].object if launch.local_queue else None for launch in launches]
    limit = asyncio.Semaphore(CONCURRENCY)
    pending, logs, held, owners, used, apart = await asyncio.gather(
        get_available(api, [launch.pending for launch in launches if launch.pending]),
        asyncio.gather(
            *(
                _log(client, body, own if with_log and own else (), limit)
                for client, body, own in zip(apis, bodies, pods, strict=True)
            )
        ),
        cluster_queues(api, queues) if cluster_wide else _nothing(),
        preemptors(api, bodies, workloads, cluster_wide=cluster_wide),
        _usage(api, [own for index, own in enumerate(pods) if index not in elsewhere])
        if with_usage and cluster_wide
        else _no_usage(),
        _unconnected(api) if cluster_wide and any(map(is_dispatched, bodies)) else _nothing(),
    )
    positions = {path: _positions(answer) for path, answer in pending.items()}
    return [
        run_view(
            RunObjects(
                launch=body,
                companions=referenced[index],
                queueing=Queueing(
                    workload=workloads[index],
                    local_queue=queues[index],
                    cluster_queue=held.get(((queues[index] or {}).get("spec") or {}).get("clusterQueue")),
                    dispatched=is_dispatched(body),
                    copies=copies[index],
                    unconnected=_of_launch(apart, body, workloads[index] or {}, workers.settings),
                    owners=owners,
                ),
                pods=pods[index],
                claims=elsewhere[index].claims
                if index in elsewhere
                else {name: answers[path].object for name, path in launch.claims.items()},
                unreached=elsewhere[index].problem if index in elsewhere else "",
                usage=used,
                positions=positions.get(launch.pending or ""),
                log=logs[index],
            ),
            now,
        )
        for index, (body, launch) in enumerate(zip(bodies, launches, strict=True))
    ]


@dataclass(frozen=True)
class _Elsewhere:
    """The objects of a dispatched launch in its worker cluster; `problem`: why they could not be read, or ""."""

    api: Api | None = None
    pods: list[Body] | None = None
    claims: Mapping[str, Body | None] = field(default_factory=dict)
    problem: str = ""


async def _elsewhere(
    workers: Workers, launches: Sequence[LaunchPaths], workloads: Sequence[Body | None]
) -> dict[int, _Elsewhere]:
    """Return the objects of dispatched launches in their worker clusters, by the launch's index.

    An unreachable cluster raises no error, but is the `problem` of its launches.
    """

    async def read_one(launch: LaunchPaths, cluster: str) -> _Elsewhere:
        try:
            api = await workers.api(cluster)
            answers = await get_all(api, [launch.pods, *launch.claims.values()])
        except ClusterError as error:
            return _Elsewhere(problem=str(error))
        claims = {name: answers[path].object for name, path in launch.claims.items()}
        return _Elsewhere(api, items(answers[launch.pods]), claims)

    clusters = {index: cluster_of(workload or {}) for index, workload in enumerate(workloads)}
    sent = {index: cluster for index, cluster in clusters.items() if cluster}
    found = await asyncio.gather(*(read_one(launches[index], cluster) for index, cluster in sent.items()))
    return dict(zip(sent, found, strict=True))


async def _copies(workers: Workers, workload: Body) -> dict[str, Body | str]:
    """Return the copies of a Workload by worker cluster that may reserve quota for it.

    The value is a message if a copy could not be read.
    """

    async def read_one(cluster: str) -> Body | str:
        metadata = workload["metadata"]
        path = f"{KUEUE}/namespaces/{metadata['namespace']}/workloads/{metadata['name']}"
        try:
            copy = (await get_all(await workers.api(cluster), [path]))[path].object
        except ClusterError as error:
            return str(error)
        return "these credentials may not read its Workload" if copy is None else copy

    clusters = nominated_clusters(workload)
    return dict(zip(clusters, await asyncio.gather(*map(read_one, clusters)), strict=True))


async def _unconnected(api: Api) -> dict[str, str]:
    """Return why Kueue cannot reach worker clusters, by name; {} if the user may not read MultiKueueClusters."""
    path = f"{KUEUE}/multikueueclusters"
    clusters = items((await get_all(api, [path]))[path]) or ()
    found = {str(cluster["metadata"]["name"]): unconnected(cluster) for cluster in clusters}
    return {name: reason for name, reason in found.items() if reason}


def _of_launch(apart: Mapping[str, str], body: Body, workload: Body, settings: Settings) -> dict[str, str]:
    """Return the reasons for the clusters that a dispatched launch may use: the chosen one, or else its queue's."""
    if not is_dispatched(body):
        return {}
    metadata, cluster = body["metadata"], cluster_of(workload)
    own = settings.queues.worker_clusters(metadata["namespace"], metadata["labels"].get(labels.QUEUE))
    possible = (cluster,) if cluster else own or nominated_clusters(workload)
    return {name: apart[name] for name in possible if name in apart}


def clusters_of(bodies: Sequence[Body], context: str | None) -> dict[str, str]:
    """Return the worker clusters of dispatched launches, by run id.

    Launches for which MultiKueue has not chosen a cluster yet are left out. Raises ClusterError.
    """
    by_path = {paths_of(body, ()).workloads: body for body in bodies if is_dispatched(body)}
    found = {}
    for path, answer in (read(list(by_path), context) if by_path else {}).items():
        workload = newest(_selected(answer))
        if cluster := cluster_of(workload or {}):
            found[str(by_path[path]["metadata"]["labels"][labels.RUN])] = cluster
    return found


def paths_of(body: Body, referenced: Sequence[Body]) -> LaunchPaths:
    """Return the paths of a launch's objects. `companion_bodies`: the objects that the launch refers to."""
    metadata = body["metadata"]
    within = f"namespaces/{metadata['namespace']}"
    queue = metadata["labels"].get(labels.QUEUE)
    of_job = quote(f"{JOB_UID}={metadata['uid']}")
    of_launch = quote(f"{labels.LAUNCH}={metadata['labels'][labels.LAUNCH]}")
    return LaunchPaths(
        workloads=f"{KUEUE}/{within}/workloads?labelSelector={of_job}",
        pods=f"/api/v1/{within}/pods?labelSelector={of_launch}",
        local_queue=f"{KUEUE}/{within}/localqueues/{queue}" if queue else None,
        pending=f"{_VISIBILITY}/{within}/localqueues/{queue}/pendingworkloads" if queue else None,
        claims={name: f"/api/v1/{within}/persistentvolumeclaims/{name}" for name in claims(body, referenced)},
    )


async def _nothing() -> dict[Any, Any]:
    return {}


async def labelled(api: Api, collection: str, label: str, values: Sequence[tuple[str, str]]) -> list[list[Body] | None]:
    """Return the objects with each value of a label, in the order of `values`; None if the user may not read them.

    `collection`: the path of the list, with `{}` for the namespace. `values`: pairs of namespace and label value.
    """
    by_namespace: dict[str, list[str]] = {}
    for namespace, value in dict.fromkeys(values):
        by_namespace.setdefault(namespace, []).append(value)
    # One list for each batch of values, since a request for each launch would take too long.
    batches = {}
    for namespace, own in by_namespace.items():
        for first in range(0, len(own), _BATCH):
            batch = own[first : first + _BATCH]
            selector = quote(f"{label} in ({','.join(batch)})")
            batches[f"{collection.format(namespace)}?labelSelector={selector}"] = namespace, batch
    answers = await get_all(api, batches)
    found: dict[tuple[str, str], list[Body] | None] = {}
    for path, (namespace, batch) in batches.items():
        selected = _selected(answers[path])
        by_value: dict[str, list[Body]] = {value: [] for value in batch}
        for item in selected or ():
            by_value[str(item["metadata"]["labels"][label])].append(item)
        found |= {(namespace, value): None if selected is None else own for value, own in by_value.items()}
    return [found[value] for value in values]


def _job_uid(body: Body) -> tuple[str, str]:
    return str(body["metadata"]["namespace"]), str(body["metadata"]["uid"])


def _launch(body: Body) -> tuple[str, str]:
    return str(body["metadata"]["namespace"]), str(body["metadata"]["labels"][labels.LAUNCH])


def _selected(answer: Answer) -> list[Body] | None:
    """Return the items of a list, [] if it does not exist, or None if the user may not read it."""
    return None if answer.object is None else answer.object.get("items") or []


def newest(workloads: Sequence[Body] | None) -> Body | None:
    """Return a launch's current Workload, {} without one, or None if Workloads could not be read.

    There are two while Kueue replaces a Workload.
    """
    if workloads is None:
        return None
    return max(workloads, key=lambda item: str(item["metadata"].get("creationTimestamp")), default={})


def _positions(answer: Answer) -> Mapping[str, int] | None:
    """Return the positions in the local queue by the Workload's name, or None if they could not be read."""
    pending = items(answer)
    if pending is None:
        return None
    return {str(item["metadata"]["name"]): int(item.get("positionInLocalQueue", 0)) for item in pending}


def items(answer: Answer | None) -> list[Body] | None:
    """Return the items of a list, or None if it does not exist or was not read."""
    return list(answer.body.get("items", [])) if answer and answer.found else None


async def cluster_queues(api: Api, queues: Sequence[Body | None]) -> dict[str, Body | None]:
    """Return the ClusterQueues of local queues, by name; None for one that the user may not read."""
    specs = [queue.get("spec") or {} for queue in queues if queue]
    names = {str(spec["clusterQueue"]) for spec in specs if spec.get("clusterQueue")}
    by_name = {name: f"{KUEUE}/clusterqueues/{name}" for name in names}
    answers = await get_all(api, by_name.values())
    return {name: answers[path].object for name, path in by_name.items()}


async def preemptors(
    api: Api, bodies: Sequence[Body], workloads: Sequence[Body | None], *, cluster_wide: bool
) -> dict[str, str]:
    """Return the names of the launches that preempted others, by their objects' UIDs."""
    by_path = {}
    for body, workload in zip(bodies, workloads, strict=True):
        if workload and (uid := preemptor(workload)):
            within = "" if cluster_wide else f"/namespaces/{body['metadata']['namespace']}"
            by_path[f"{KUEUE}{within}/workloads?labelSelector={quote(f'{JOB_UID}={uid}')}"] = uid
    found = {}
    for path, answer in (await get_all(api, by_path)).items():
        for item in answer.body.get("items", ()):
            owner = next(iter(item["metadata"].get("ownerReferences") or ()), item["metadata"])
            found[by_path[path]] = f"{item['metadata']['namespace']}/{owner['name']}"
    return found


async def _usage(api: Api, pods: Sequence[Sequence[Body] | None]) -> Usage:
    running = [pod for own in pods for pod in own or () if pod.get("status", {}).get("phase") == "Running"]
    nodes = {str(pod["spec"]["nodeName"]) for pod in running}
    answers = await get_available(api, [f"/api/v1/nodes/{node}/proxy/stats/summary" for node in nodes])
    return usage([answer.body for answer in answers.values() if answer.found])


async def _no_usage() -> Usage:
    return Usage()


async def _log(api: Api, body: Body, pods: Sequence[Body], limit: asyncio.Semaphore) -> Sequence[LogLine]:
    """Return the end of the first replica's log, or () without one. `limit`: of concurrent requests."""
    first = next(iter(pod_views(pods, body["kind"])), None)
    if first is None or first.phase in ("Pending", "Unknown"):
        return ()
    pod = next(pod for pod in pods if pod["metadata"]["name"] == first.name)
    metadata, container = pod["metadata"], trainer([item["name"] for item in pod["spec"]["containers"]])
    path = (
        f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/log"
        f"?container={container}&tailLines={_LINES}&timestamps=true"
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
    found = problems(pod)
    return f"{line}: {', '.join(found)}" if found else line
