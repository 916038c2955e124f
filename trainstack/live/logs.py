"""Reading the logs of pods, once or for as long as they are written."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Collection, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote

import httpx
from kr8s import APITimeoutError
from kr8s.asyncio import Api

from trainstack.live.client import FORBIDDEN, ClusterError, PermanentError, RightsError, get, get_text
from trainstack.runs.logs.log_lines import LogLine, log_line, log_lines
from trainstack.runs.logs.log_merge import Cursor

_PAUSE_SECONDS = 0.5
_SILENCE_SECONDS = 60
"""A stream without a line for so long is opened anew: the connection may be gone without a word."""


@dataclass(frozen=True)
class Source:
    """One container of a pod."""

    namespace: str
    pod: str
    uid: str
    """The pod's: one that took its name later is another source."""
    container: str

    @property
    def path(self) -> str:
        """Its log's, for further parameters."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.pod}/log?container={self.container}&timestamps=true"


Say = Callable[[Source, LogLine], None]


async def read_logs(
    api: Api,
    sources: Iterable[Source],
    *,
    tail: int | None = None,
    since: datetime | None = None,
    repeated: Collection[Source] = (),
) -> dict[Source, list[LogLine]]:
    """The logs as they are now; that of a container which has not started is empty.

    Args:
        api: the connection.
        sources: the containers.
        tail: this many lines of each at most; None: all.
        since: lines from this moment on; None: from the beginning.
        repeated: those whose attempt before the present one succeeded: its log is read too.

    Raises RightsError where a log may not be read.

    """
    wanted = "" if tail is None else f"&tailLines={tail}"
    wanted += "" if since is None else f"&sinceTime={quote(since.astimezone(UTC).strftime('%Y-%m-%dT%H:%M:%SZ'))}"
    asked = list(sources)
    present, before = await asyncio.gather(
        asyncio.gather(*(_text(api, source, wanted) for source in asked)),
        asyncio.gather(*(_text(api, source, f"{wanted}&previous=true") for source in asked if source in repeated)),
    )
    logs = {source: log_lines(text) for source, text in zip(asked, present, strict=True)}
    for source, text in zip((each for each in asked if each in repeated), before, strict=True):
        earlier = log_lines(text)
        # While a container waits for its restart, both are the log of the attempt that ended last.
        if earlier[-1:] != logs[source][-1:]:
            logs[source] = [*earlier, *logs[source]][-tail if tail else None :]
    return logs


async def follow_log(api: Api, source: Source, cursor: Cursor, say: Say) -> None:
    """Tell each new line of a container until its pod has ended or is gone.

    A stream that breaks off is taken up where it was, without a line lost or told twice; so is the log of a container
    that was started again, whose earlier log is told to its end first.

    Raises RightsError where the log may not be read, PermanentError where nothing may be any more.
    """
    restarts: int | None = None
    while True:
        try:
            state = await _state(api, source)
        except PermanentError:
            raise
        except ClusterError:  # it is away for a while; the run goes on without us
            await asyncio.sleep(_PAUSE_SECONDS)
            continue
        if state is None:
            return
        # Earlier restarts than the first look are none of ours: what was told before is of the container as it is now.
        if restarts is not None and state.restarts != restarts:
            await _rest(api, source, cursor, say, "&previous=true")
            cursor.anew()
        restarts = state.restarts
        if state.ended:
            await _rest(api, source, cursor, say)
            return
        async with aclosing(_stream(api, source, cursor)) as lines:
            async for line in lines:
                say(source, line)
        await asyncio.sleep(_PAUSE_SECONDS)


@dataclass(frozen=True)
class _State:
    restarts: int
    ended: bool
    """Nothing more will be written: the pod has ended, or the container that prepared it."""


async def _state(api: Api, source: Source) -> _State | None:
    """None when the pod is gone."""
    answer = await get(api, f"/api/v1/namespaces/{source.namespace}/pods/{source.pod}")
    if not answer.found or answer.body["metadata"]["uid"] != source.uid:
        return None
    status = answer.body.get("status", {})
    preparing = {each["name"]: each for each in status.get("initContainerStatuses") or ()}
    every = {**preparing, **{each["name"]: each for each in status.get("containerStatuses") or ()}}
    own = every.get(source.container, {})
    exit_code = ((own.get("state") or {}).get("terminated") or {}).get("exitCode")
    return _State(
        restarts=own.get("restartCount", 0),
        ended=status.get("phase") in ("Succeeded", "Failed") or (source.container in preparing and exit_code == 0),
    )


async def _rest(api: Api, source: Source, cursor: Cursor, say: Say, more: str = "") -> None:
    """What there is beyond the cursor, at once."""
    cursor.resume()
    for line in log_lines(await _text(api, source, _from(cursor) + more)):
        if cursor.take(line):
            say(source, line)


def _from(cursor: Cursor) -> str:
    if cursor.second is None:
        return ""
    return f"&sinceTime={quote(datetime.fromtimestamp(cursor.second, UTC).strftime('%Y-%m-%dT%H:%M:%SZ'))}"


async def _stream(api: Api, source: Source, cursor: Cursor) -> AsyncGenerator[LogLine]:
    """New lines until the stream ends, for whatever reason."""
    cursor.resume()
    path = f"{source.path}{_from(cursor)}&follow=true"
    base, _, last = path.partition("?")[0].rpartition("/")
    try:
        async with api.call_api(
            base=base,
            version="",
            url=f"{last}?{path.partition('?')[2]}",
            raise_for_status=False,
            stream=True,
            timeout=httpx.Timeout(10, read=_SILENCE_SECONDS, pool=None),
        ) as response:
            _refuse(response.status_code, source)
            if response.status_code != httpx.codes.OK:  # its container has not started, or its node is away
                return
            async for text in _lines(response.aiter_text()):
                line = log_line(text)
                if line is not None and cursor.take(line):
                    yield line
    except (httpx.TransportError, APITimeoutError, OSError):
        return


async def _lines(pieces: AsyncIterable[str]) -> AsyncGenerator[str]:
    """The lines of a stream. Not `aiter_lines`, for which more than the line feed ends a line."""
    begun = ""
    async for piece in pieces:
        *whole, begun = (begun + piece).split("\n")
        for line in whole:
            yield line
    if begun:
        yield begun


async def _text(api: Api, source: Source, more: str) -> str:
    try:
        status, text = await get_text(api, source.path + more)
    except ClusterError:  # a log comes from the pod's node, which may be away while the cluster is well
        return ""
    _refuse(status, source)
    return text if status == httpx.codes.OK else ""


def _refuse(status: int, source: Source) -> None:
    if status == FORBIDDEN:
        raise RightsError(
            f"the log of pod {source.namespace}/{source.pod} may not be read with these credentials; who administers "
            "the namespace can grant it: the right to get pods/log"
        )
