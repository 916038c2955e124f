"""Concurrent reads of a cluster, through one client for each context. This module does not write."""

import asyncio
import json
import threading
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from trainstack.live.access import read_access
from trainstack.live.answers import NOT_FOUND, Answer, ensure_status, read_body, read_write_body
from trainstack.live.api import Api, Reply
from trainstack.live.errors import (
    ClusterError,
    PermanentError,
    RightsError,
    UnavailableError,
    unavailable_error,
    unexpected_answer_error,
)

__all__ = [
    "CONCURRENCY",
    "FORBIDDEN",
    "NOT_FOUND",
    "PAGE_SIZE",
    "Answer",
    "Api",
    "ClusterError",
    "PermanentError",
    "RightsError",
    "SharedClients",
    "connect",
    "get",
    "get_all",
    "get_available",
    "get_list",
    "get_text",
    "post",
    "reach",
    "read",
    "read_lists",
    "read_server_time",
    "read_text",
    "run",
    "shared_clients",
]

T = TypeVar("T")

FORBIDDEN = 403
PAGE_SIZE = 500
"""The `limit` of lists that may have thousands of objects: the number of items in one page."""
CONCURRENCY = 16
"""The maximum number of concurrent requests."""
_current_clients: ContextVar["SharedClients | None"] = ContextVar("_shared", default=None)
"""The clients of the current `shared_clients` block, or of the running event loop."""
_ACCEPT_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
_ACCEPT_METADATA_OF_ITEMS = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"


def read(
    paths: Sequence[str], context: str | None, *, metadata_only: bool = False, metadata_of_items: bool = False
) -> dict[str, Answer]:
    """GET all paths and return the responses by path.

    Args:
        paths: absolute API paths, `/api/v1/namespaces/research`.
        context: the kubeconfig's context; None: its current one.
        metadata_only: read only the metadata of single objects. A whole CRD has up to 200 KB.
        metadata_of_items: read only the metadata of the items of lists.

    Raises:
        ClusterError: the server cannot be reached.
        PermanentError: there is no kubeconfig, no such context, or the credentials have expired.

    """

    async def work() -> dict[str, Answer]:
        api = await connect(context)
        return await get_all(api, paths, metadata_only=metadata_only, metadata_of_items=metadata_of_items)

    return run(work())


def read_lists(
    paths: Sequence[str], context: str | None, *, metadata_of_items: bool = False, managed_fields: bool = True
) -> dict[str, Answer]:
    """GET all pages of lists and return the merged lists by path.

    The paths set a `limit`; the keywords are those of `get_list`. Raises ClusterError as `read` does.
    """

    async def work() -> dict[str, Answer]:
        api, limit = await connect(context), asyncio.Semaphore(CONCURRENCY)

        async def get_one(path: str) -> Answer:
            async with limit:
                return await get_list(api, path, metadata_of_items=metadata_of_items, managed_fields=managed_fields)

        return dict(zip(paths, await asyncio.gather(*map(get_one, paths)), strict=True))

    return run(work())


def read_text(path: str, context: str | None) -> str:
    """GET text, such as a pod's log; return "" unless the status is 200. Raises ClusterError as `read` does."""

    async def work() -> str:
        status, text = await get_text(await connect(context), path)
        return text if status == httpx.codes.OK else ""

    return run(work())


def read_server_time(context: str | None) -> datetime | None:
    """Return the API server's time, to the second, or None if the response has none.

    Timestamps of stored objects are from the API server's clock, which may differ from the user's. Raises
    ClusterError as `read` does.
    """

    async def work() -> str:
        api = await connect(context)
        # Every response has a Date header. This path requires no right, and its response is short.
        async with api.request("GET", "/apis/batch") as response:
            return str(response.headers.get("Date", ""))

    try:
        return parsedate_to_datetime(run(work())).astimezone(UTC)
    except ValueError:
        return None


def reach(context: str | None) -> None:
    """Raise ClusterError as `read` does if the cluster cannot be reached."""
    run(connect(context))


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in another thread's event loop, and return its result.

    The caller, for example Pulumi's language host, may have a running loop of its own. The other loop is a new one, or
    the loop of `shared_clients`.
    """
    if (clients := _current_clients.get()) is not None:
        return clients.run(coroutine)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


class SharedClients:
    """One client for each context, and the event loop of their requests. Any thread may send requests."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._closed = asyncio.Event()
        self._connections: dict[str | None, asyncio.Task[Api]] = {}
        self._thread = threading.Thread(target=self._serve, daemon=True, name="shared-clients")
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run requests in the shared event loop, where `connect` returns the shared clients."""

        async def work() -> T:
            _current_clients.set(self)
            return await coroutine

        return asyncio.run_coroutine_threadsafe(work(), self._loop).result()

    def close(self) -> None:
        """Cancel all requests, and end the loop."""
        self._loop.call_soon_threadsafe(self._closed.set)
        self._thread.join()

    async def client(self, context: str | None) -> Api:
        """Return the client of a context. Raises ClusterError as `read` does."""
        connection = self._connections.get(context)
        if connection is None:
            connection = self._connections[context] = asyncio.ensure_future(_connect(context))
        try:
            return await connection
        except Exception:
            # The next call connects again, instead of raising an error that may be outdated.
            self._connections.pop(context, None)
            raise

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._closed.wait())


@contextmanager
def shared_clients() -> Iterator[None]:
    """Connect once for each context in this block, instead of in each call of `run` and of functions that use it."""
    clients = SharedClients()
    token = _current_clients.set(clients)
    try:
        yield
    finally:
        _current_clients.reset(token)
        clients.close()


async def connect(context: str | None) -> Api:
    """Return a client for a context of the kubeconfig, as this process first read the file."""
    clients = _current_clients.get()
    return await (_connect(context) if clients is None else clients.client(context))


async def _connect(context: str | None) -> Api:
    api = Api(read_access(context))
    await api.open()
    return api


async def get_all(
    api: Api, paths: Iterable[str], *, metadata_only: bool = False, metadata_of_items: bool = False
) -> dict[str, Answer]:
    """GET all paths once and return the responses by path; the keywords are those of `read`."""
    distinct_paths = list(dict.fromkeys(paths))
    limit = asyncio.Semaphore(CONCURRENCY)

    async def get_one(path: str) -> Answer:
        async with limit:
            return await get(api, path, metadata_only=metadata_only, metadata_of_items=metadata_of_items)

    return dict(zip(distinct_paths, await asyncio.gather(*map(get_one, distinct_paths)), strict=True))


async def get_available(api: Api, paths: Iterable[str]) -> dict[str, Answer]:
    """GET all paths; leave out those whose server (an aggregated API, a kubelet) is not available.

    Raises the other ClusterErrors, since a teardown must not treat a broken response as an empty list.
    """
    answers: dict[str, Answer] = {}
    limit = asyncio.Semaphore(CONCURRENCY)

    async def get_one(path: str) -> None:
        async with limit:
            with suppress(UnavailableError, PermanentError):
                answers[path] = await get(api, path)

    await asyncio.gather(*map(get_one, dict.fromkeys(paths)))
    return answers


async def get(api: Api, path: str, *, metadata_only: bool = False, metadata_of_items: bool = False) -> Answer:
    """GET one path; the keywords are those of `read`."""
    accept = (
        _ACCEPT_METADATA if metadata_only else _ACCEPT_METADATA_OF_ITEMS if metadata_of_items else "application/json"
    )
    reply = await _exchange(api, "GET", path, accept)
    if reply.status != httpx.codes.OK:
        ensure_status(api.description, path, reply.status, reply.text)
        return Answer(reply.status, {})
    is_partial = metadata_only or metadata_of_items
    return Answer(reply.status, read_body(api.description, path, reply.status, reply.text, metadata_only=is_partial))


async def get_list(api: Api, path: str, *, metadata_of_items: bool = False, managed_fields: bool = True) -> Answer:
    """GET all pages of a list, whose path sets a `limit`. If a page is refused, return its response.

    Args:
        api: the client.
        path: the list's path.
        metadata_of_items: read only the metadata of the items.
        managed_fields: keep `metadata.managedFields`, which take half of a list's memory.

    """
    page_path, items = path, []
    while True:
        answer = await get(api, page_path, metadata_of_items=metadata_of_items)
        for item in answer.body.get("items") or ():
            if not managed_fields:
                item["metadata"].pop("managedFields", None)
            items.append(item)
        continue_token = answer.body.get("metadata", {}).get("continue")
        if not continue_token:
            return Answer(answer.status, {**answer.body, "items": items}) if answer.is_success else answer
        previous_path, page_path = page_path, f"{path}&continue={quote(continue_token)}"
        if page_path == previous_path:
            fault = "whose next page is itself"
            raise unexpected_answer_error(
                api.description, path, answer.status, fault, json.dumps(answer.body["metadata"])
            )


async def get_text(api: Api, path: str) -> tuple[int, str]:
    """GET text, such as a pod's log; return the status and the text."""
    reply = await _exchange(api, "GET", path, "text/plain, application/json")
    return reply.status, reply.text


async def post(api: Api, path: str, body: Mapping[str, Any]) -> Answer:
    """POST a review, which the API server evaluates but does not store."""
    reply = await _exchange(api, "POST", path, "application/json", json.dumps(body))
    if reply.status >= httpx.codes.BAD_REQUEST:
        ensure_status(api.description, path, reply.status, reply.text)
        return Answer(reply.status, {})
    return Answer(reply.status, read_write_body(api.description, "POST", path, reply.status, reply.text))


async def _exchange(api: Api, verb: str, path: str, accept: str, content: str | None = None) -> Reply:
    headers = {"Accept": accept, **({} if content is None else {"Content-Type": "application/json"})}
    reply = await api.exchange(verb, path, headers=headers, content=content)
    if error := unavailable_error(api.description, path, reply.status, reply.text):
        raise error
    return reply
