"""Clients for the worker clusters to which MultiKueue dispatches launches."""

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass, field

from trainstack.live import kubeconfig
from trainstack.live.client import Api, ClusterError, PermanentError, connect
from trainstack.settings.model import Settings
from trainstack.settings.sections.queues import Queues

_RETRY_SECONDS = 10
"""The pause after a failed connection to a cluster. `logs --follow` reads every second."""


@dataclass
class WorkerClients:
    """The clients of the worker clusters, each of which is connected once, when it is first used."""

    settings: Settings
    _apis: dict[str, Api] = field(default_factory=dict)
    _failures: dict[str, tuple[float, ClusterError]] = field(default_factory=dict)
    _connection_locks: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))

    async def api(self, cluster: str) -> Api:
        """Return the client of a worker cluster, or of the environment's own cluster if `cluster` is empty.

        Raises ClusterError if it cannot be reached, and PermanentError if the kubeconfig has no context for it.
        """
        async with self._connection_locks[cluster]:
            if cluster not in self._apis:
                await self._connect(cluster)
        return self._apis[cluster]

    async def _connect(self, cluster: str) -> None:
        if cluster in self._failures:
            failed_at, error = self._failures[cluster]
            if time.monotonic() - failed_at < _RETRY_SECONDS:
                raise error
        context = worker_context(self.settings, cluster) if cluster else self.settings.cluster.context
        try:
            self._apis[cluster] = await connect(context)
        except ClusterError as error:
            self._failures[cluster] = time.monotonic(), error
            raise


def worker_context(settings: Settings, cluster: str) -> str:
    """Return the kubeconfig's context of a worker cluster: the declared one, by default the cluster's name.

    Raises PermanentError if the kubeconfig does not have it.
    """
    context_by_name = {worker.name: worker.context for worker in settings.queues.multi_kueue_clusters}
    context = context_by_name.get(cluster) or cluster
    try:
        kubeconfig.select_context(context)
    except ValueError as error:
        raise PermanentError(
            f"worker cluster {cluster} has the pods, logs and records of the runs that are dispatched to it, and "
            f"{kubeconfig.display_path()} has no context {context!r}",
            f"add a context for that cluster, or name yours in queues.multiKueueClusters[{cluster}].context",
        ) from error
    return context


def settings_of_worker(settings: Settings, cluster: str) -> Settings:
    """Return the settings for reads of a worker cluster's volumes. Raises PermanentError as `worker_context` does.

    The loader's own queue is unset: its pods use the runs' queue, which the worker cluster has too.
    """
    context = worker_context(settings, cluster)
    loader = settings.cluster.loader.model_copy(update={"queue": None})
    cluster_settings = settings.cluster.model_copy(update={"context": context, "local": False, "loader": loader})
    return settings.model_copy(update={"cluster": cluster_settings, "queues": Queues()})
