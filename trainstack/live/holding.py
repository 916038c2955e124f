"""Reading who waits and who runs on a cluster, for a plan."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kr8s.asyncio import Api

from trainstack.forecast.live_workloads import owners
from trainstack.forecast.tasks import Owner
from trainstack.live import paths
from trainstack.live.admission import read_lists
from trainstack.live.client import connect, get_all, run
from trainstack.live.environment import read_configuration, read_controllers
from trainstack.live.snapshot import Runs, read_runs
from trainstack.runs.status.kinds import KINDS
from trainstack.settings.model import Settings

Body = Mapping[str, Any]


@dataclass(frozen=True)
class Holding:
    """What was read."""

    lists: Mapping[str, tuple[Body, ...] | None]
    """All that an admission depends on, by kind; None of a kind that may not be read."""
    owners: Mapping[Owner, Body]
    """The objects whose pods the Workloads stand for, as far as they are of a known kind and may be read."""
    runs: Runs
    kueue: Body | None
    """The running Kueue's Configuration; None where it may not be read."""
    now: float
    """Seconds since 1970."""

    @property
    def workloads(self) -> tuple[Body, ...]:
        """Kueue's Workloads."""
        return self.lists.get("Workload") or ()


def read_holding(settings: Settings) -> Holding:
    """Read what a cluster holds. Nothing is written. Raises ClusterError where it cannot be read."""
    lists, found, said = run(_read(settings))
    return Holding(lists=lists, owners=found, runs=read_runs(settings), kueue=said, now=time.time())


async def _read(
    settings: Settings,
) -> tuple[Mapping[str, tuple[Body, ...] | None], Mapping[Owner, Body], Body | None]:
    api = await connect(settings.cluster.context)
    lists = await read_lists(api, settings)
    owned = await _owners(api, lists.get("Workload") or ())
    return lists, owned, await read_configuration(api, await read_controllers(api, settings))


async def _owners(api: Api, workloads: tuple[Body, ...]) -> dict[Owner, Body]:
    asked = {
        f"{paths.collection(KINDS[kind].api_version, kind, namespace)}/{name}": (kind, namespace, name)
        for kind, namespace, name in owners(workloads).values()
        if kind in KINDS
    }
    answers = await get_all(api, list(asked))
    return {asked[path]: answer.body for path, answer in answers.items() if answer.found}
