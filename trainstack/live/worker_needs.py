"""Reads of the objects that dispatched runs need in MultiKueue's worker clusters."""

import asyncio
from collections.abc import Mapping, Sequence

from trainstack.live import paths
from trainstack.live.client import NOT_FOUND, ClusterError, get_all, run
from trainstack.live.worker_clusters import Workers
from trainstack.preflight.worker_needs import Need, WorkerCluster
from trainstack.settings.model import Settings


def read_worker_clusters(
    settings: Settings, needed: Mapping[str, Mapping[str, Sequence[Need]]]
) -> dict[str, WorkerCluster]:
    """Return the missing and unreadable needs of dispatched runs, by worker cluster. Reads no contents of Secrets.

    `needs_by_path`: the needs by the run's path in the settings, and by the cluster's name. An unreachable cluster has
    a `problem` instead.
    """
    by_cluster: dict[str, set[Need]] = {}
    for of_run in needed.values():
        for cluster, needs in of_run.items():
            by_cluster.setdefault(cluster, set()).update(needs)

    async def work() -> list[WorkerCluster]:
        workers = Workers(settings)
        return await asyncio.gather(*(_read(workers, cluster, needs) for cluster, needs in by_cluster.items()))

    return dict(zip(by_cluster, run(work()), strict=True)) if by_cluster else {}


async def _read(workers: Workers, cluster: str, needs: set[Need]) -> WorkerCluster:
    objects = {_path(need): need for need in needs if need.name}
    # Needs without a name are kinds. A list does not support `metadata_only`, so they are read separately.
    kinds = {_path(need): need for need in needs if not need.name}
    try:
        api = await workers.api(cluster)
        answers = {**await get_all(api, objects, metadata_only=True), **await get_all(api, kinds)}
    except ClusterError as error:
        return WorkerCluster(problem=error.message, remedy=error.remedy)
    by_path = {**objects, **kinds}
    return WorkerCluster(
        missing=frozenset(by_path[path] for path, answer in answers.items() if answer.status == NOT_FOUND),
        unreadable=frozenset(by_path[path] for path, answer in answers.items() if answer.object is None),
    )


def _path(need: Need) -> str:
    collection = paths.collection(need.api_version, need.kind, need.namespace)
    return f"{collection}/{need.name}" if need.name else f"{collection}?limit=1"
