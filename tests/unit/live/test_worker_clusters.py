"""Worker clusters that accept connections and never answer."""

import asyncio
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
import yaml

from tests.unit.live_objects import make_condition, make_endpoint, make_launch_body, make_workload
from tests.unit.preflight.environment_cases import check_of, dispatching
from trainstack.live import api, kubeconfig, run_views, worker_clusters
from trainstack.live.client import Answer, Api, ClusterError
from trainstack.live.worker_clusters import WorkerClients
from trainstack.settings.sections.queues import MULTI_KUEUE_CONTROLLER

SENT = dispatching(check_of("west"), queue={})


@pytest.fixture
def silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Open a socket that never answers; the kubeconfig's contexts `west` and `east` point to it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        file = tmp_path / "kubeconfig"
        names = ("west", "east")
        config = {
            "clusters": [{"name": "c", "cluster": make_endpoint(listener.getsockname()[1])}],
            "users": [{"name": name, "user": {"token": name}} for name in names],
            "contexts": [{"name": name, "context": {"cluster": "c", "user": name}} for name in names],
            "current-context": "west",
        }
        file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **config}))
        monkeypatch.setenv("KUBECONFIG", str(file))
        monkeypatch.setattr(api, "_TIMEOUT_SECONDS", 0.2)
        kubeconfig.clear_cache()
        yield listener
        kubeconfig.clear_cache()


def connections(listening: socket.socket) -> int:
    """Return the number of connections since the last call."""
    listening.setblocking(False)
    count = 0
    while True:
        try:
            listening.accept()[0].close()
        except BlockingIOError:
            return count
        count += 1


def problems_of(*clusters: str) -> list[str]:
    """Return the problems of the launches in these clusters; fail after a timeout."""
    paths = run_views.paths_of_launch(make_launch_body(), ())
    problems: list[str] = []

    async def read_progress() -> None:
        workloads = [make_workload(clusterName=cluster) for cluster in clusters]
        remote = await run_views._read_worker_objects(WorkerClients(SENT), [paths] * len(clusters), workloads)
        problems.extend(remote[index].problem for index in sorted(remote))

    # A blocked event loop would not process its own timeout.
    thread = threading.Thread(target=lambda: asyncio.run(read_progress()), daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    return problems


def test_a_silent_cluster_is_a_problem_of_its_launches(silent: socket.socket) -> None:
    """One connection is tried for all of them."""
    problems = problems_of("west", "west", "west")
    assert len(problems) == 3
    assert all("cannot reach the cluster of context west" in problem for problem in problems)
    assert connections(silent) == 1


def test_silent_clusters_are_tried_at_the_same_time(silent: socket.socket) -> None:
    """No cluster waits for the others, and no file with keys is left."""
    temporary_folder = tempfile.gettempdir()
    problems = problems_of("west", "east", "west")
    assert [problem.partition(",")[0].rpartition(" ")[2] for problem in problems] == ["west", "east", "west"]
    assert connections(silent) == 2
    assert tempfile.gettempdir() == temporary_folder


def test_an_unreachable_cluster_is_retried_later(silent: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that follows runs reads them until they end."""
    counts: list[int] = []

    async def connect() -> None:
        clients = WorkerClients(SENT)
        for retry in (60, 60, 0):
            monkeypatch.setattr(worker_clusters, "_RETRY_SECONDS", retry)
            with pytest.raises(ClusterError, match="cannot reach"):
                await clients.api("west")
            counts.append(connections(silent))

    asyncio.run(connect())
    assert counts == [1, 0, 1]


def test_only_clusters_that_a_launch_may_use_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The selected cluster, else those of the queue, else the nominated ones; a local launch has none."""
    reasons = {"west": "no route", "east": "no Secret"}
    clusters = [
        {"metadata": {"name": name}, "status": {"conditions": [make_condition("Active", "False", message=reason)]}}
        for name, reason in reasons.items()
    ]
    clusters.append({"metadata": {"name": "north"}, "status": {"conditions": [make_condition("Active")]}})

    async def get_all(_: object, paths: list[str]) -> dict[str, Answer]:
        return {path: Answer(200, {"items": clusters}) for path in paths}

    monkeypatch.setattr(run_views, "get_all", get_all)
    unconnected = asyncio.run(run_views._read_unconnected_reasons(cast("Api", None)))
    assert unconnected == reasons
    local, other = make_launch_body(), make_launch_body(queue="other")
    dispatched, other = (
        {**body, "spec": {**body["spec"], "managedBy": MULTI_KUEUE_CONTROLLER}} for body in (local, other)
    )
    for body, workload, expected in (
        (local, make_workload(), ()),
        (dispatched, make_workload(), ("west",)),
        (dispatched, make_workload(clusterName="east"), ("east",)),
        (dispatched, make_workload(clusterName="north"), ()),
        (other, make_workload(nominatedClusterNames=["east", "north"]), ("east",)),
    ):
        assert run_views._unconnected_reasons_of_launch(unconnected, body, workload, SENT) == {
            name: reasons[name] for name in expected
        }
