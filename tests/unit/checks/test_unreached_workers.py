"""Worker clusters that accept connections and never answer."""

import asyncio
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.unit.checks.environment_cases import check_of, dispatching
from tests.unit.checks.live import make_endpoint, make_launch_body, make_workload
from trainstack.live import client, kubeconfig, progress, workers
from trainstack.live.client import ClusterError
from trainstack.live.workers import Workers

SENT = dispatching(check_of("west"), queue={})


@pytest.fixture
def silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A socket that listens and never answers; the kubeconfig's contexts `west` and `east` lead to it."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        file = tmp_path / "kubeconfig"
        names = ("west", "east")
        config = {
            "clusters": [{"name": "c", "cluster": make_endpoint(made.getsockname()[1])}],
            "users": [{"name": name, "user": {"token": name}} for name in names],
            "contexts": [{"name": name, "context": {"cluster": "c", "user": name}} for name in names],
            "current-context": "west",
        }
        file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **config}))
        monkeypatch.setenv("KUBECONFIG", str(file))
        monkeypatch.setattr(client, "_TIMEOUT_SECONDS", 0.2)
        kubeconfig.forget()
        yield made
        kubeconfig.forget()


def connections(listening: socket.socket) -> int:
    """How many were made and not yet counted."""
    listening.setblocking(False)
    count = 0
    while True:
        try:
            listening.accept()[0].close()
        except BlockingIOError:
            return count
        count += 1


def problems_of(*clusters: str) -> list[str]:
    """Why the launches in these clusters are unknown; fails if that is not known in time."""
    paths = progress.paths_of(make_launch_body(), ())
    found: list[str] = []

    async def look() -> None:
        sent = [make_workload(clusterName=cluster) for cluster in clusters]
        elsewhere = await progress._elsewhere(Workers(SENT), [paths] * len(clusters), sent)
        found.extend(elsewhere[index].problem for index in sorted(elsewhere))

    # A blocked event loop would not notice a timeout of its own.
    thread = threading.Thread(target=lambda: asyncio.run(look()), daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    return found


def test_a_silent_cluster_is_a_problem_of_its_launches(silent: socket.socket) -> None:
    """It is tried once for all of them."""
    found = problems_of("west", "west", "west")
    assert len(found) == 3
    assert all("cannot reach the cluster of context west" in problem for problem in found)
    assert connections(silent) == 1


def test_silent_clusters_are_tried_at_the_same_time(silent: socket.socket) -> None:
    """None waits for the others, and no file with keys is left."""
    before = tempfile.gettempdir()
    found = problems_of("west", "east", "west")
    assert [problem.partition(",")[0].rpartition(" ")[2] for problem in found] == ["west", "east", "west"]
    assert connections(silent) == 2
    assert tempfile.gettempdir() == before


def test_an_unreached_cluster_is_tried_again_later(silent: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that follows runs reads until they end."""
    tried: list[int] = []

    async def look() -> None:
        clients = Workers(SENT)
        for retry in (60, 60, 0):
            monkeypatch.setattr(workers, "_RETRY_SECONDS", retry)
            with pytest.raises(ClusterError, match="cannot reach"):
                await clients.api("west")
            tried.append(connections(silent))

    asyncio.run(look())
    assert tried == [1, 0, 1]
