"""Reads of the objects that dispatched runs need in MultiKueue's worker clusters."""

import asyncio
from collections.abc import Mapping, Sequence

from trainstack.live import paths
from trainstack.live.client import NOT_FOUND, ClusterError, get_all, run
from trainstack.live.worker_clusters import WorkerClients
from trainstack.preflight.worker_needs import Need, WorkerCluster
from trainstack.settings.model import Settings


def read_worker_clusters(
    settings: Settings, needs_by_path: Mapping[str, Mapping[str, Sequence[Need]]]
) -> dict[str, WorkerCluster]:
    """Return the missing and unreadable needs of dispatched runs, by worker cluster. Reads no contents of Secrets.

    `needs_by_path`: the needs by the run's path in the settings, and by the cluster's name. An unreachable cluster has
    a `problem` instead.
    """
    needs_by_cluster: dict[str, set[Need]] = {}
    for needs_of_run in needs_by_path.values():
        for cluster, needs in needs_of_run.items():
            needs_by_cluster.setdefault(cluster, set()).update(needs)

    async def work() -> list[WorkerCluster]:
        workers = WorkerClients(settings)
        return await asyncio.gather(
            *(_read_worker_cluster(workers, cluster, needs) for cluster, needs in needs_by_cluster.items())
        )

    return dict(zip(needs_by_cluster, run(work()), strict=True)) if needs_by_cluster else {}


async def _read_worker_cluster(workers: WorkerClients, cluster: str, needs: set[Need]) -> WorkerCluster:
    need_by_object_path = {_path(need): need for need in needs if need.name}
    # Needs without a name are kinds. A list does not support `metadata_only`, so they are read separately.
    need_by_list_path = {_path(need): need for need in needs if not need.name}
    try:
        api = await workers.api(cluster)
        answers = {
            **await get_all(api, need_by_object_path, metadata_only=True),
            **await get_all(api, need_by_list_path),
        }
    except ClusterError as error:
        return WorkerCluster(problem=error.message, remedy=error.remedy)
    need_by_path = {**need_by_object_path, **need_by_list_path}
    return WorkerCluster(
        missing=frozenset(need_by_path[path] for path, answer in answers.items() if answer.status == NOT_FOUND),
        unreadable=frozenset(need_by_path[path] for path, answer in answers.items() if answer.readable_body is None),
    )


def _path(need: Need) -> str:
    collection = paths.collection_path(need.api_version, need.kind, need.namespace)
    return f"{collection}/{need.name}" if need.name else f"{collection}?limit=1"
