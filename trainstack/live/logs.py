"""Reads of the logs of pods, once or until the pods end."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Collection, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote

import httpx

from trainstack.live.client import FORBIDDEN, Api, ClusterError, PermanentError, RightsError, get, get_text
from trainstack.live.worker_clusters import WorkerClients
from trainstack.runs.logs.log_lines import LogLine, log_line, log_lines
from trainstack.runs.logs.log_merge import Cursor

_PAUSE_SECONDS = 0.5
_IDLE_SECONDS = 60
"""The time after which a stream without a new line is opened again, since the connection may be broken."""


@dataclass(frozen=True)
class LogSource:
    """A container of a pod, whose log is read."""

    namespace: str
    pod: str
    uid: str
    """The pod's UID. A later pod of the same name is a different source."""
    container: str
    cluster: str = ""
    """The pod's worker cluster of MultiKueue; "": the environment's own cluster."""

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.pod}/log?container={self.container}&timestamps=true"


ShowLine = Callable[[LogSource, LogLine], None]


async def read_logs(
    workers: WorkerClients,
    sources: Iterable[LogSource],
    *,
    tail: int | None = None,
    since: datetime | None = None,
    with_previous: Collection[LogSource] = (),
) -> dict[LogSource, list[LogLine]]:
    """Return the current logs. The log of a container that has not started is empty.

    Args:
        workers: the clients.
        sources: the containers.
        tail: the maximum number of lines of each log; None: all.
        since: the earliest time of a line; None: the beginning of the log.
        with_previous: the containers whose previous attempt succeeded. Its log is read too.

    Raises RightsError if the user may not read a log.

    """
    query = "" if tail is None else f"&tailLines={tail}"
    query += "" if since is None else f"&sinceTime={quote(since.astimezone(UTC).strftime('%Y-%m-%dT%H:%M:%SZ'))}"
    containers = list(sources)
    restarted = [source for source in containers if source in with_previous]
    current, previous = await asyncio.gather(
        asyncio.gather(*(_read_log(workers, source, query) for source in containers)),
        asyncio.gather(*(_read_log(workers, source, f"{query}&previous=true") for source in restarted)),
    )
    logs = {source: log_lines(text) for source, text in zip(containers, current, strict=True)}
    for source, text in zip(restarted, previous, strict=True):
        previous_lines = log_lines(text)
        # While a container waits for its restart, both logs are that of the last attempt.
        if previous_lines[-1:] != logs[source][-1:]:
            logs[source] = [*previous_lines, *logs[source]][-tail if tail else None :]
    return logs


async def _read_log(workers: WorkerClients, source: LogSource, query: str) -> str:
    return await _read_text(await workers.api(source.cluster), source, query)


async def follow_log(workers: WorkerClients, source: LogSource, cursor: Cursor, show: ShowLine) -> None:
    """Call `show` once for each new line of a container, until its pod has ended or no longer exists.

    An interrupted stream continues after its last line. After a restart of the container, the remaining lines of the
    previous log are first. Raises RightsError if the user may not read the log, and other PermanentErrors.
    """
    api = await workers.api(source.cluster)
    restarts: int | None = None
    while True:
        try:
            state = await _read_state(api, source)
        except PermanentError:
            raise
        except ClusterError:  # the cluster is temporarily unavailable
            await asyncio.sleep(_PAUSE_SECONDS)
            continue
        if state is None:
            return
        # Restarts before the first read do not matter, since no line of an earlier log was shown.
        if restarts is not None and state.restarts != restarts:
            await _show_remaining(api, source, cursor, show, "&previous=true")
            cursor.restart()
        restarts = state.restarts
        if state.is_complete:
            await _show_remaining(api, source, cursor, show)
            return
        async with aclosing(_stream_lines(api, source, cursor)) as lines:
            async for line in lines:
                show(source, line)
        await asyncio.sleep(_PAUSE_SECONDS)


@dataclass(frozen=True)
class _ContainerState:
    """The state of a container with a log."""

    restarts: int
    is_complete: bool
    """Whether the log is complete: the pod has ended, or the init container has succeeded."""


async def _read_state(api: Api, source: LogSource) -> _ContainerState | None:
    answer = await get(api, f"/api/v1/namespaces/{source.namespace}/pods/{source.pod}")
    if not answer.is_success or answer.body["metadata"]["uid"] != source.uid:
        return None
    status = answer.body.get("status", {})
    init_containers = {item["name"]: item for item in status.get("initContainerStatuses") or ()}
    containers = {**init_containers, **{item["name"]: item for item in status.get("containerStatuses") or ()}}
    container = containers.get(source.container, {})
    exit_code = ((container.get("state") or {}).get("terminated") or {}).get("exitCode")
    return _ContainerState(
        restarts=container.get("restartCount", 0),
        is_complete=status.get("phase") in ("Succeeded", "Failed")
        or (source.container in init_containers and exit_code == 0),
    )


async def _show_remaining(api: Api, source: LogSource, cursor: Cursor, show: ShowLine, query: str = "") -> None:
    cursor.resume()
    for line in log_lines(await _read_text(api, source, _since_query(cursor) + query)):
        if cursor.read_if_new(line):
            show(source, line)


def _since_query(cursor: Cursor) -> str:
    if cursor.second is None:
        return ""
    return f"&sinceTime={quote(datetime.fromtimestamp(cursor.second, UTC).strftime('%Y-%m-%dT%H:%M:%SZ'))}"


async def _stream_lines(api: Api, source: LogSource, cursor: Cursor) -> AsyncGenerator[LogLine]:
    cursor.resume()
    path = f"{source.path}{_since_query(cursor)}&follow=true"
    timeout = httpx.Timeout(10, read=_IDLE_SECONDS, pool=None)
    try:
        async with api.request("GET", path, read_timeout=timeout) as response:
            _check_right(response.status_code, source)
            if response.status_code != httpx.codes.OK:  # the container has not started, or its node is unavailable
                return
            async for text in _split_lines(response.aiter_bytes()):
                line = log_line(text)
                if line is not None and cursor.read_if_new(line):
                    yield line
    except PermanentError:
        raise
    except ClusterError:
        return


async def _split_lines(chunks: AsyncIterable[bytes]) -> AsyncGenerator[str]:
    # httpx's `aiter_lines` also splits at characters other than the line feed, and decodes with the header's encoding,
    # which may be absent.
    incomplete_line = b""
    async for chunk in chunks:
        *lines, incomplete_line = (incomplete_line + chunk).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace")
    if incomplete_line:
        yield incomplete_line.decode(errors="replace")


async def _read_text(api: Api, source: LogSource, query: str) -> str:
    try:
        status, text = await get_text(api, source.path + query)
    except ClusterError:  # the pod's node, which serves the log, may be unavailable
        return ""
    _check_right(status, source)
    return text if status == httpx.codes.OK else ""


def _check_right(status: int, source: LogSource) -> None:
    if status == FORBIDDEN:
        raise RightsError(
            f"the log of pod {source.namespace}/{source.pod} may not be read with these credentials; ask the "
            "namespace's administrator for the right to get pods/log"
        )
