"""Following a container's log through broken connections and restarts, against a fake API server."""

import asyncio
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlparse

import pytest

from tests.unit.live_objects import write_kubeconfig
from tests.unit.make import make_settings
from trainstack.live.client import ClusterError
from trainstack.live.logs import LogSource, follow_log, read_logs
from trainstack.live.worker_clusters import WorkerClients
from trainstack.runs.logs.log_merge import Cursor

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SOURCE = LogSource("team", "a-1", "uid-1", "training")


class Server(ThreadingHTTPServer):
    """An API server with one pod, whose log it returns in pieces."""

    lines: tuple[str, ...] = ()
    """The log of the current container."""
    previous: tuple[str, ...] = ()
    """The log of the container before its restart."""
    cuts: tuple[int, ...] = ()
    """The number of lines of the log after which each stream breaks; later streams do not break."""
    restarts_after = 10**6
    """The number of streams after which the container has restarted."""
    restarts = 0
    """The number of earlier restarts."""
    status = 200
    streams = 0


def stamped(lines: tuple[str, ...], first: int, since: datetime | None) -> list[str]:
    """Return the lines since a time with timestamps, four lines per second."""
    times = [START + timedelta(seconds=(first + number) // 4) for number in range(len(lines))]
    selected = [(time, text) for time, text in zip(times, lines, strict=True) if since is None or time >= since]
    return [f"{time.strftime('%Y-%m-%dT%H:%M:%S')}.000000000Z {text}" for time, text in selected]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        """Answer with the version, the pod or its log."""
        address = urlparse(self.path)
        if address.path.endswith("/log"):
            self._log({key: value[0] for key, value in parse_qs(address.query).items()})
        elif "/pods/" in address.path:
            restarted = self.server.streams >= self.server.restarts_after
            ended = self.server.streams > len(self.server.cuts)
            status = {
                "phase": "Succeeded" if ended else "Running",
                "containerStatuses": [{"name": "training", "restartCount": self.server.restarts + restarted}],
            }
            self._send(
                json.dumps({"metadata": {"name": "a-1", "uid": "uid-1"}, "spec": {"containers": []}, "status": status})
            )
        else:
            self._send(json.dumps({"gitVersion": "v1.34.4"}))

    def _log(self, query: dict[str, str]) -> None:
        server = self.server
        if server.status != 200:
            self.send_error(server.status)
            return
        since = datetime.fromisoformat(query["sinceTime"]) if "sinceTime" in query else None
        not_restarted = server.streams < server.restarts_after
        old = server.previous
        if "previous" in query:
            self._send("\n".join(stamped(old, 0, since)))
            return
        log, first = (old, 0) if not_restarted and old else (server.lines, len(old))
        served = stamped(log, first, since)
        if "follow" in query:
            cut = server.cuts[server.streams] if server.streams < len(server.cuts) else len(log)
            server.streams += 1
            served = served[: max(0, cut - (len(log) - len(served)))]
        self._send("".join(f"{line}\n" for line in served))

    def _send(self, text: str) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Keep the test output free of request logs."""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Start a server that KUBECONFIG points to."""
    with Server(("127.0.0.1", 0), Handler) as api_server:
        monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path, api_server.server_port)))
        monkeypatch.setattr("trainstack.live.logs._PAUSE_SECONDS", 0.01)
        threading.Thread(target=api_server.serve_forever, args=(0.01,), daemon=True).start()
        yield api_server
        api_server.shutdown()


def followed(source: LogSource = SOURCE, *, after: int = 0) -> list[str]:
    """Return the followed lines of the container until its end; `after` is the number of lines printed before."""
    lines: list[str] = []
    cursor = Cursor()

    async def follow() -> None:
        workers = WorkerClients(make_settings())
        if after:
            for line in (await read_logs(workers, [source]))[source][:after]:
                cursor.read_if_new(line)
        await follow_log(workers, source, cursor, lambda _, line: lines.append(line.text))

    asyncio.run(follow())
    return lines


@pytest.mark.parametrize("cuts", [(), (3,), (4,), (5, 5, 6), (0, 1, 2, 3, 11, 12)])
def test_a_broken_stream_is_resumed_without_loss(server: Server, cuts: tuple[int, ...]) -> None:
    """The position within a second does not matter: four lines have the same timestamp."""
    server.lines, server.cuts = tuple(f"line {number}" for number in range(13)), cuts
    assert followed() == list(server.lines)


def test_a_stream_is_split_at_line_feeds_alone(server: Server) -> None:
    """A progress bar is one line, and so is a line with another separator."""
    server.lines = ("\r 10%\r100%", "a\x0cb\x85c\u2028d", "end")
    assert followed() == ["100%", "a\x0cb\x85c\u2028d", "end"]


def test_the_log_of_a_restarted_container_is_followed_on(server: Server) -> None:
    """The unread lines from before the restart are first."""
    server.previous, server.lines = ("a", "b", "c", "d", "e", "f"), ("g", "h")
    server.cuts, server.restarts_after = (5,), 1
    assert followed() == list("abcdefgh")


def test_restarts_before_the_first_read_repeat_nothing(server: Server) -> None:
    """Lines of the current container that were printed before are not printed again."""
    server.lines, server.restarts = ("a", "b", "c", "d", "e"), 2
    assert followed(after=3) == ["d", "e"]


def test_the_log_of_a_container_that_failed_between_two_reads_is_complete(server: Server) -> None:
    """The container ended and restarted between two reads."""
    server.previous, server.lines = ("a", "b"), ("c",)
    server.cuts, server.restarts_after = (0,), 1
    assert followed() == list("abc")


def read_at_once(*, tail: int | None = None) -> list[str]:
    """Return the lines of a container whose previous attempt succeeded."""

    async def read_lines() -> list[str]:
        logs = await read_logs(WorkerClients(make_settings()), [SOURCE], tail=tail, with_previous=[SOURCE])
        return [line.text for line in logs[SOURCE]]

    return asyncio.run(read_lines())


def test_the_log_of_the_previous_attempt_is_read_first(server: Server) -> None:
    """It is not read twice while the container waits for its restart: then the API server returns it for both."""
    server.previous, server.lines = ("a", "b", "c"), ("d",)
    assert read_at_once() == list("abc")
    server.restarts_after = 0
    assert read_at_once() == list("abcd")


def test_the_tail_counts_the_lines_of_both_logs(server: Server) -> None:
    """The tail is the end of the concatenated logs."""
    server.previous, server.lines, server.restarts_after = ("a", "b", "c"), ("d",), 0
    assert read_at_once(tail=2) == ["c", "d"]


def test_the_log_of_a_new_pod_with_the_same_name_is_not_followed(server: Server) -> None:
    """The new pod has another uid and is a source of its own."""
    server.lines = ("a",)
    assert followed(LogSource("team", "a-1", "uid-of-the-one-before", "training")) == []


def test_the_error_about_a_missing_right_names_who_can_grant_it(server: Server) -> None:
    server.status = 403
    with pytest.raises(ClusterError, match=r"log of pod team/a-1 .* ask the namespace's administrator for the right"):
        followed()
