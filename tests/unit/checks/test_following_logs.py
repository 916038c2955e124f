"""Following a container's log through broken connections and restarts, against an API server of our own."""

import asyncio
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlparse

import pytest
import yaml

from tests.unit.checks.live import make_endpoint
from tests.unit.make import make_settings
from trainstack.live.client import ClusterError
from trainstack.live.logs import Source, follow_log, read_logs
from trainstack.live.workers import Workers
from trainstack.runs.logs.log_merge import Cursor

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SOURCE = Source("team", "a-1", "uid-1", "training")


class Server(ThreadingHTTPServer):
    """An API server with one pod, whose log it gives in pieces."""

    lines: tuple[str, ...] = ()
    """The log of the container as it is now."""
    previous: tuple[str, ...] = ()
    """That of the container before its restart."""
    cuts: tuple[int, ...] = ()
    """After how many lines of all its log each stream breaks off; then none does."""
    restarts_after = 10**6
    """The stream after which the container has been started again."""
    restarts = 0
    """How often it had been before."""
    status = 200
    streams = 0


def stamped(lines: tuple[str, ...], first: int, since: datetime | None) -> list[str]:
    """The lines, four to a second, from a moment on."""
    moments = [START + timedelta(seconds=(first + number) // 4) for number in range(len(lines))]
    told = [(at, text) for at, text in zip(moments, lines, strict=True) if since is None or at >= since]
    return [f"{at.strftime('%Y-%m-%dT%H:%M:%S')}.000000000Z {text}" for at, text in told]


class Handler(BaseHTTPRequestHandler):
    """Its answers."""

    server: Server

    def do_GET(self) -> None:
        """The version, the pod or its log."""
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
            self._send(json.dumps({"metadata": {"uid": "uid-1"}, "status": status}))
        else:
            self._send(json.dumps({"gitVersion": "v1.34.4"}))

    def _log(self, asked: dict[str, str]) -> None:
        server = self.server
        if server.status != 200:
            self.send_error(server.status)
            return
        since = datetime.fromisoformat(asked["sinceTime"]) if "sinceTime" in asked else None
        before = server.streams < server.restarts_after
        old = server.previous
        if "previous" in asked:
            self._send("\n".join(stamped(old, 0, since)))
            return
        now, first = (old, 0) if before and old else (server.lines, len(old))
        served = stamped(now, first, since)
        if "follow" in asked:
            cut = server.cuts[server.streams] if server.streams < len(server.cuts) else len(now)
            server.streams += 1
            served = served[: max(0, cut - (len(now) - len(served)))]
        self._send("".join(f"{line}\n" for line in served))

    def _send(self, text: str) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server that KUBECONFIG names."""
    with Server(("127.0.0.1", 0), Handler) as made:
        file = tmp_path / "kubeconfig"
        config = {
            "clusters": [{"name": "c", "cluster": make_endpoint(made.server_port)}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **config}))
        monkeypatch.setenv("KUBECONFIG", str(file))
        monkeypatch.setattr("trainstack.live.logs._PAUSE_SECONDS", 0.01)
        threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
        yield made
        made.shutdown()


def followed(source: Source = SOURCE, *, after: int = 0) -> list[str]:
    """The lines that are told of the container, to its end; `after`: so many were told before."""
    told: list[str] = []
    cursor = Cursor()

    async def follow() -> None:
        workers = Workers(make_settings())
        if after:
            for line in (await read_logs(workers, [source]))[source][:after]:
                cursor.take(line)
        await follow_log(workers, source, cursor, lambda _, line: told.append(line.text))

    asyncio.run(follow())
    return told


@pytest.mark.parametrize("cuts", [(), (3,), (4,), (5, 5, 6), (0, 1, 2, 3, 11, 12)])
def test_a_stream_that_breaks_off_is_taken_up_where_it_was(server: Server, cuts: tuple[int, ...]) -> None:
    """Wherever in a second that is: four lines bear the same moment here."""
    server.lines, server.cuts = tuple(f"line {number}" for number in range(13)), cuts
    assert followed() == list(server.lines)


def test_a_stream_is_split_at_line_feeds_alone(server: Server) -> None:
    """A progress bar is one line, and so is what holds another separator."""
    server.lines = ("\r 10%\r100%", "a\x0cb\x85c\u2028d", "end")
    assert followed() == ["100%", "a\x0cb\x85c\u2028d", "end"]


def test_the_log_of_a_container_that_was_started_again_is_told_on(server: Server) -> None:
    """What it wrote before, and was not told yet, first."""
    server.previous, server.lines = ("a", "b", "c", "d", "e", "f"), ("g", "h")
    server.cuts, server.restarts_after = (5,), 1
    assert followed() == list("abcdefgh")


def test_restarts_before_the_first_look_repeat_nothing(server: Server) -> None:
    """What was told of the container as it is now stays told."""
    server.lines, server.restarts = ("a", "b", "c", "d", "e"), 2
    assert followed(after=3) == ["d", "e"]


def test_a_container_that_failed_before_its_first_line_was_told_is_told_whole(server: Server) -> None:
    """It ended and was started again between two looks."""
    server.previous, server.lines = ("a", "b"), ("c",)
    server.cuts, server.restarts_after = (0,), 1
    assert followed() == list("abc")


def read_at_once(*, tail: int | None = None) -> list[str]:
    """The lines of a container whose attempt before the present one succeeded."""

    async def look() -> list[str]:
        logs = await read_logs(Workers(make_settings()), [SOURCE], tail=tail, repeated=[SOURCE])
        return [line.text for line in logs[SOURCE]]

    return asyncio.run(look())


def test_the_log_of_the_attempt_before_is_read_first(server: Server) -> None:
    """And is not read twice while the container waits for its restart: then the API server gives it for both."""
    server.previous, server.lines = ("a", "b", "c"), ("d",)
    assert read_at_once() == list("abc")
    server.restarts_after = 0
    assert read_at_once() == list("abcd")


def test_the_end_of_both_logs_is_cut_to_what_was_asked_for(server: Server) -> None:
    """As of one log."""
    server.previous, server.lines, server.restarts_after = ("a", "b", "c"), ("d",), 0
    assert read_at_once(tail=2) == ["c", "d"]


def test_a_pod_that_took_the_name_of_another_is_not_its_log(server: Server) -> None:
    """It is followed by itself."""
    server.lines = ("a",)
    assert followed(Source("team", "a-1", "uid-of-the-one-before", "training")) == []


def test_a_missing_right_is_a_sentence(server: Server) -> None:
    """With who can grant it."""
    server.status = 403
    with pytest.raises(ClusterError, match=r"log of pod team/a-1 .* ask the namespace's administrator for the right"):
        followed()
