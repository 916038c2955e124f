"""Reading what a run is doing: its Workload, its place in the queue, its pods, its claims, the end of its log."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

import httpx
from kr8s.asyncio import Api

from trainstack.live.client import Answer, ClusterError, connect, get_all, get_text, run
from trainstack.live.companions import companion_paths, companions
from trainstack.objects import labels
from trainstack.runs.logs.log_lines import LogLine, log_lines
from trainstack.runs.status.kinds import claims
from trainstack.runs.status.main_container import trainer
from trainstack.runs.status.pods import pod_views, problems
from trainstack.runs.status.run_view import RunObjects, RunView, run_view
from trainstack.runs.status.usage import Usage, usage
from trainstack.runs.status.waiting import Queueing, preemptor

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
_VISIBILITY = "/apis/visibility.kueue.x-k8s.io/v1beta2"
JOB_UID = "kueue.x-k8s.io/job-uid"
"""Label of a Workload: whose it is."""
_LINES = 200
"""Of a log's end, from which progress and its rate are read."""

Body = Mapping[str, Any]


@dataclass(frozen=True)
class Asked:
    """The paths that one launch is read from."""

    workloads: str
    pods: str
    local_queue: str | None
    pending: str | None
    claims: Mapping[str, str]

    def __iter__(self) -> Iterator[str]:
        yield from (self.workloads, self.pods, *self.claims.values())
        if self.local_queue:
            yield self.local_queue


def view_runs(
    bodies: Sequence[Body], context: str | None, now: datetime, *, cluster_wide: bool, with_usage: bool = False
) -> list[RunView]:
    """Look at each launch.

    Args:
        bodies: the live launches, whole.
        context: the kubeconfig's context; None: its current one.
        now: for how long the runs will still take.
        cluster_wide: also ask for what is no namespace's: cluster queues, and nodes for their use. Never with a
            tenant's profile.
        with_usage: ask the nodes of running pods what these use, and how full the runs' volumes are.

    Raises ClusterError. What may not be read is left unknown.

    """

    async def look() -> list[RunView]:
        api = await connect(context)
        return await view_all(api, bodies, now, cluster_wide=cluster_wide, with_usage=with_usage)

    return run(look())


async def view_all(
    api: Api,
    bodies: Sequence[Body],
    now: datetime,
    *,
    cluster_wide: bool,
    with_usage: bool = False,
    with_log: bool = True,
) -> list[RunView]:
    """As `view_runs`, for those who have a connection; `with_log`: read the ends of logs too."""
    there = await get_all(api, companion_paths(bodies))
    beside = [companions(body, there) for body in bodies]
    asked = [paths_of(body, each) for body, each in zip(bodies, beside, strict=True)]
    answers = await get_all(api, (path for each in asked for path in each))
    workloads = [_newest(answers[each.workloads]) for each in asked]
    pods = [items(answers[each.pods]) for each in asked]
    queues = [answers[each.local_queue].object if each.local_queue else None for each in asked]
    pending, logs, held, owners, used = await asyncio.gather(
        _get_if_well(api, [each.pending for each in asked if each.pending]),
        asyncio.gather(
            *(_log(api, body, each if with_log and each else ()) for body, each in zip(bodies, pods, strict=True))
        ),
        cluster_queues(api, queues) if cluster_wide else _nothing(),
        preemptors(api, bodies, workloads, cluster_wide=cluster_wide),
        _usage(api, pods) if with_usage and cluster_wide else _no_usage(),
    )
    return [
        run_view(
            RunObjects(
                launch=body,
                companions=beside[index],
                queueing=Queueing(
                    workload=workloads[index],
                    local_queue=queues[index],
                    cluster_queue=held.get(((queues[index] or {}).get("spec") or {}).get("clusterQueue")),
                    owners=owners,
                ),
                pods=pods[index],
                claims={name: answers[path].object for name, path in each.claims.items()},
                usage=used,
                pending=items(pending.get(each.pending or "")),
                log=logs[index],
            ),
            now,
        )
        for index, (body, each) in enumerate(zip(bodies, asked, strict=True))
    ]


def paths_of(body: Body, beside: Sequence[Body]) -> Asked:
    """Where what belongs to a launch is; `beside`: its companions."""
    metadata = body["metadata"]
    within = f"namespaces/{metadata['namespace']}"
    queue = metadata["labels"].get(labels.QUEUE)
    of_job, of_launch = (
        quote(f"{JOB_UID}={metadata['uid']}"),
        quote(f"{labels.LAUNCH}={metadata['labels'][labels.LAUNCH]}"),
    )
    return Asked(
        workloads=f"{KUEUE}/{within}/workloads?labelSelector={of_job}",
        pods=f"/api/v1/{within}/pods?labelSelector={of_launch}",
        local_queue=f"{KUEUE}/{within}/localqueues/{queue}" if queue else None,
        pending=f"{_VISIBILITY}/{within}/localqueues/{queue}/pendingworkloads" if queue else None,
        claims={name: f"/api/v1/{within}/persistentvolumeclaims/{name}" for name in claims(body, beside)},
    )


async def _nothing() -> dict[Any, Any]:
    return {}


def _newest(answer: Answer) -> Body | None:
    """A launch has one Workload; where Kueue replaces it, for a moment two."""
    if answer.object is None:
        return None
    items = answer.object.get("items", [])
    return max(items, key=lambda item: str(item["metadata"].get("creationTimestamp")), default={})


def items(answer: Answer | None) -> list[Body] | None:
    """A list; None where it may not be read, or its server is away or not there."""
    return list(answer.body.get("items", [])) if answer and answer.found else None


async def _get_if_well(api: Api, paths: Sequence[str]) -> dict[str, Answer]:
    """The answers of servers behind the API server, Kueue's and kubelets: one that is away is no failure."""

    async def one(path: str) -> dict[str, Answer]:
        try:
            return await get_all(api, [path])
        except ClusterError:
            return {}

    found = await asyncio.gather(*(one(path) for path in dict.fromkeys(paths)))
    return {path: answer for each in found for path, answer in each.items()}


async def cluster_queues(api: Api, queues: Sequence[Body | None]) -> dict[str, Body | None]:
    """The cluster queues of these local queues, by name."""
    names = {str(queue["spec"]["clusterQueue"]) for queue in queues if queue and "clusterQueue" in queue["spec"]}
    asked = {name: f"{KUEUE}/clusterqueues/{name}" for name in names}
    answers = await get_all(api, asked.values())
    return {name: answers[path].object for name, path in asked.items()}


async def preemptors(
    api: Api, bodies: Sequence[Body], workloads: Sequence[Body | None], *, cluster_wide: bool
) -> dict[str, str]:
    """The launches that others had to give way to, by the uid of their objects."""
    wanted = {
        (uid, "" if cluster_wide else f"/namespaces/{body['metadata']['namespace']}")
        for body, workload in zip(bodies, workloads, strict=True)
        if workload and (uid := preemptor(workload))
    }
    asked = {f"{KUEUE}{within}/workloads?labelSelector={quote(f'{JOB_UID}={uid}')}": uid for uid, within in wanted}
    found = {}
    for path, answer in (await get_all(api, asked)).items():
        for item in answer.body.get("items", ()):
            owner = next(iter(item["metadata"].get("ownerReferences") or ()), item["metadata"])
            found[asked[path]] = f"{item['metadata']['namespace']}/{owner['name']}"
    return found


async def _usage(api: Api, pods: Sequence[Sequence[Body] | None]) -> Usage:
    """What the kubelets of running pods count."""
    running = [pod for each in pods for pod in each or () if pod.get("status", {}).get("phase") == "Running"]
    nodes = {str(pod["spec"]["nodeName"]) for pod in running}
    answers = await _get_if_well(api, [f"/api/v1/nodes/{node}/proxy/stats/summary" for node in nodes])
    return usage([answer.body for answer in answers.values() if answer.found])


async def _no_usage() -> Usage:
    return Usage()


async def _log(api: Api, body: Body, pods: Sequence[Body]) -> Sequence[LogLine]:
    """The end of the first replica's log; nothing where there is none to read."""
    first = next(iter(pod_views(pods, body["kind"])), None)
    if first is None or first.phase in ("Pending", "Unknown"):
        return ()
    pod = next(each for each in pods if each["metadata"]["name"] == first.name)
    metadata, container = pod["metadata"], trainer([each["name"] for each in pod["spec"]["containers"]])
    path = (
        f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/log"
        f"?container={container}&tailLines={_LINES}&timestamps=true"
    )
    try:
        status, text = await get_text(api, path)
    except ClusterError:  # a log comes from the pod's node, which may be away while the cluster is well
        return ()
    return log_lines(text) if status == httpx.codes.OK else ()


def describe_pod(pod: Body) -> str:
    """A pod as `<name> <phase>`, with the reason, in words, where it cannot start."""
    line = f"{pod['metadata']['name']} {pod.get('status', {}).get('phase', 'Unknown')}"
    found = problems(pod)
    return f"{line}: {', '.join(found)}" if found else line
