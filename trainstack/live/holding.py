"""Reads of a cluster's pending and running Workloads and what their admission depends on, for a forecast."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainstack.forecast.live_workloads import owners_by_workload
from trainstack.forecast.tasks import Owner
from trainstack.live import paths
from trainstack.live.admission import read_lists
from trainstack.live.client import Api, connect, get_all, run
from trainstack.live.environment import read_configuration, read_controllers
from trainstack.live.snapshot import Runs, read_runs
from trainstack.runs.status.kinds import KINDS
from trainstack.settings.model import Settings

Body = Mapping[str, Any]


@dataclass(frozen=True)
class Holding:
    """A snapshot of a cluster's Workloads and of the objects that their admission depends on."""

    lists: Mapping[str, tuple[Body, ...] | None]
    """The objects that an admission depends on, by kind; None for a kind that was not read."""
    owners: Mapping[Owner, Body]
    """The owners of Workloads, if they are of a known kind and the user may read them."""
    runs: Runs
    kueue: Body | None
    """The running Kueue's Configuration; None if it was not read."""
    now: float
    """The time of the reads, in seconds since 1970."""

    @property
    def workloads(self) -> tuple[Body, ...]:
        return self.lists.get("Workload") or ()


def read_holding(settings: Settings) -> Holding:
    """Read the cluster of an environment. Raises ClusterError."""
    lists, found, configuration = run(_read(settings))
    return Holding(lists=lists, owners=found, runs=read_runs(settings), kueue=configuration, now=time.time())


async def _read(
    settings: Settings,
) -> tuple[Mapping[str, tuple[Body, ...] | None], Mapping[Owner, Body], Body | None]:
    api = await connect(settings.cluster.context)
    lists = await read_lists(api, settings)
    owned = await _owners(api, lists.get("Workload") or ())
    return lists, owned, await read_configuration(api, await read_controllers(api, settings))


async def _owners(api: Api, workloads: tuple[Body, ...]) -> dict[Owner, Body]:
    by_path = {
        f"{paths.collection(KINDS[kind].api_version, kind, namespace)}/{name}": (kind, namespace, name)
        for kind, namespace, name in owners_by_workload(workloads).values()
        if kind in KINDS
    }
    answers = await get_all(api, by_path)
    return {by_path[path]: answer.body for path, answer in answers.items() if answer.found}
