"""Reads of a cluster's pending and running Workloads and what their admission depends on, for a forecast."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainstack.forecast.live_workloads import owners_by_workload
from trainstack.forecast.tasks import Owner
from trainstack.live import paths
from trainstack.live.admission import read_admission_objects
from trainstack.live.client import Api, connect, get_all, run
from trainstack.live.environment import kueue_release, read_controllers, read_kueue_configuration
from trainstack.live.snapshot import LiveRuns, read_runs
from trainstack.runs.status.launch_kinds import KINDS
from trainstack.settings.model import Settings

Body = Mapping[str, Any]


@dataclass(frozen=True)
class ClusterWorkloads:
    """A snapshot of a cluster's Workloads and of the objects that their admission depends on."""

    lists: Mapping[str, tuple[Body, ...] | None]
    """The objects that an admission depends on, by kind; None for a kind that was not read."""
    owners: Mapping[Owner, Body]
    """The owners of Workloads, if they are of a known kind and the user may read them."""
    runs: LiveRuns
    kueue: Body | None
    """The running Kueue's Configuration; None if it was not read."""
    kueue_release: str
    """The running Kueue's release; empty if it is unknown."""
    now: float
    """The time of the reads, in seconds since 1970."""

    @property
    def workloads(self) -> tuple[Body, ...]:
        return self.lists.get("Workload") or ()


def read_cluster_workloads(settings: Settings) -> ClusterWorkloads:
    """Read the cluster of an environment. Raises ClusterError."""
    lists, owners, configuration, release = run(_read(settings))
    return ClusterWorkloads(
        lists=lists,
        owners=owners,
        runs=read_runs(settings),
        kueue=configuration,
        kueue_release=release,
        now=time.time(),
    )


async def _read(
    settings: Settings,
) -> tuple[Mapping[str, tuple[Body, ...] | None], Mapping[Owner, Body], Body | None, str]:
    api = await connect(settings.cluster.context)
    lists = await read_admission_objects(api, settings)
    owners = await _read_owners(api, lists.get("Workload") or ())
    installed = await read_controllers(api, settings)
    return lists, owners, await read_kueue_configuration(api, installed), kueue_release(installed)


async def _read_owners(api: Api, workloads: tuple[Body, ...]) -> dict[Owner, Body]:
    owner_by_path = {
        f"{paths.collection_path(KINDS[kind].api_version, kind, namespace)}/{name}": (kind, namespace, name)
        for kind, namespace, name in owners_by_workload(workloads).values()
        if kind in KINDS
    }
    answers = await get_all(api, owner_by_path)
    return {owner_by_path[path]: answer.body for path, answer in answers.items() if answer.is_success}
