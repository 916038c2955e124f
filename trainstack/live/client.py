"""Concurrent reads of a live cluster, and errors with remedies. This module does not write."""

import asyncio
import json
import ssl
import tempfile
import threading
import time
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import kr8s.asyncio
import yaml
from kr8s import APITimeoutError, ServerError

from trainstack.errors import ExitCode, TrainstackError
from trainstack.files.temporary import temporary_folder
from trainstack.live import kubeconfig
from trainstack.live.private_kubeconfig import with_files

T = TypeVar("T")

NOT_FOUND = 404
FORBIDDEN = 403
PAGE = 500
"""The `limit` of lists that may have thousands of objects."""
CONCURRENCY = 16
"""Requests at once."""
_CONNECTING = threading.Lock()
_connecting: list[ExitStack] = []
"""For each client that connects now, what removes its temporary files; all of them have the same."""
_shared: ContextVar["SharedClients | None"] = ContextVar("_shared", default=None)
"""The clients of the block of `shared_clients`, or of the event loop that runs."""
_TIMEOUT_SECONDS = 10
_CONNECTION_SECONDS = 60
"""How long a shared client is used; later requests read its credentials again."""
_METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
_METADATA_OF_ITEMS = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"


class ClusterError(TrainstackError):
    """The cluster cannot be read. The message has the server, the reason and the remedy."""

    exit_code = ExitCode.UNREACHABLE


class PermanentError(ClusterError):
    """A retry would fail again: the user has to change something, for example the kubeconfig."""


class RightsError(PermanentError):
    """The user lacks a right. The message has who can grant it."""

    exit_code = ExitCode.FAILED


@dataclass(frozen=True)
class Answer:
    """The response to one request. `body` is {} for any status but 200 and 201."""

    status: int
    body: dict[str, Any]

    @property
    def found(self) -> bool:
        return self.status in (httpx.codes.OK, httpx.codes.CREATED)

    @property
    def object(self) -> dict[str, Any] | None:
        """The object or list; {} if it does not exist, None if the user may not read it."""
        return self.body if self.found or self.status == NOT_FOUND else None

    def items(self, api_version: str, kind: str) -> list[dict[str, Any]]:
        """Return the objects of a list with their type: items have no type, or PartialObjectMetadata."""
        # An empty list of PartialObjectMetadata has null.
        return [{**item, "apiVersion": api_version, "kind": kind} for item in self.body.get("items") or ()]


def read(
    paths: Sequence[str], context: str | None, *, metadata_only: bool = False, metadata_of_items: bool = False
) -> dict[str, Answer]:
    """GET all paths and return the responses by path.

    Args:
        paths: absolute API paths, `/api/v1/namespaces/research`.
        context: the kubeconfig's context; None: its current one.
        metadata_only: read only the metadata of single objects; a CRD has 200 KB otherwise.
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
    """GET all pages of lists, whose paths set a `limit`; the keywords are those of `get_list`.

    Raises ClusterError as `read` does.
    """

    async def work() -> dict[str, Answer]:
        api, limit = await connect(context), asyncio.Semaphore(CONCURRENCY)

        async def get_one(path: str) -> Answer:
            async with limit:
                return await get_list(api, path, metadata_of_items=metadata_of_items, managed_fields=managed_fields)

        return dict(zip(paths, await asyncio.gather(*map(get_one, paths)), strict=True))

    return run(work())


def read_text(path: str, context: str | None) -> str:
    """GET text, such as a pod's log; empty unless the status is 200. Raises ClusterError as `read` does."""

    async def work() -> str:
        status, text = await get_text(await connect(context), path)
        return text if status == httpx.codes.OK else ""

    return run(work())


def reach(context: str | None) -> None:
    """Raise ClusterError as `read` does if the cluster cannot be reached."""
    run(connect(context))


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run in another thread's event loop: the caller, for example the engine's language host, may have a running one.

    The loop is a new one, or that of `shared_clients`.
    """
    if (shared := _shared.get()) is not None:
        return shared.run(coroutine)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


class SharedClients:
    """One client for each context, and the event loop of their requests, which any thread may send."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._closed = asyncio.Event()
        self._connecting: dict[str | None, asyncio.Task[tuple[kr8s.asyncio.Api, float]]] = {}
        self._thread = threading.Thread(target=self._serve, daemon=True, name="shared-clients")
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run requests, whose calls of `connect` return the shared clients."""

        async def work() -> T:
            _shared.set(self)
            return await coroutine

        return asyncio.run_coroutine_threadsafe(work(), self._loop).result()

    def close(self) -> None:
        """Cancel all requests, and end the loop."""
        self._loop.call_soon_threadsafe(self._closed.set)
        self._thread.join()

    async def client(self, context: str | None) -> kr8s.asyncio.Api:
        """Return the client. Raises ClusterError as `read` does."""
        connecting = self._connecting.get(context)
        # Credentials may expire, for example those of a plugin.
        if connecting is None or (
            connecting.done() and time.monotonic() - connecting.result()[1] > _CONNECTION_SECONDS
        ):
            connecting = self._connecting[context] = asyncio.ensure_future(_dated(context))
        try:
            return (await connecting)[0]
        except Exception:
            self._connecting.pop(context, None)
            raise

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._closed.wait())


async def _dated(context: str | None) -> tuple[kr8s.asyncio.Api, float]:
    """Connect; return the client and the time, of `time.monotonic`, from which on it is used."""
    return await _connect(context), time.monotonic()


@contextmanager
def shared_clients() -> Iterator[None]:
    """Connect once for each context in this block, instead of in each call of `run` and of functions that use it."""
    clients = SharedClients()
    token = _shared.set(clients)
    try:
        yield
    finally:
        _shared.reset(token)
        clients.close()


async def connect(context: str | None) -> kr8s.asyncio.Api:
    """Return a client for the cluster of the kubeconfig as this process first read it."""
    shared = _shared.get()
    return await (_connect(context) if shared is None else shared.client(context))


async def _connect(context: str | None) -> kr8s.asyncio.Api:
    file = kubeconfig.shown_path()
    if not kubeconfig.exists():
        own = "set KUBECONFIG to your cluster's file"
        local = f"start the local cluster with `trainstack cluster up`, or {own}"
        raise PermanentError(f"no kubeconfig at {file}", local if kubeconfig.is_local() else own)
    try:
        chosen: Any = with_files(kubeconfig.with_token(kubeconfig.chosen(context)))
        with _temporary_files_removed():
            # The factory `kr8s.asyncio.api` connects without a timeout. A plugin for credentials has no limit, since
            # it may wait for the user's login.
            api = kr8s.asyncio.Api(kubeconfig=chosen, bypass_factory=True)
            api.timeout = _TIMEOUT_SECONDS
            await api
    except (KeyError, ValueError, TypeError, OSError, IndexError, yaml.YAMLError) as error:
        where = f"context {context!r} of {file}" if context else file
        remedy = "; the environment names it in trainstack:cluster: context" if context else ""
        raise PermanentError(
            f"{where} is not a usable kubeconfig ({error}); check it with: kubectl config get-contexts{remedy}"
        ) from error
    except (httpx.TransportError, APITimeoutError) as error:
        raise _unreachable(kubeconfig.described(context), error) from error
    except ServerError as error:
        cluster, status = kubeconfig.described(context), 0
        if error.response is not None:
            status = error.response.status_code
        refusal = RightsError if status == FORBIDDEN else ClusterError
        raise _problem(cluster, "/version", status) or refusal(f"the cluster of {cluster}: {error}") from error
    return api


@contextmanager
def _temporary_files_removed() -> Iterator[None]:
    """Remove the temporary files that kr8s writes while it connects, which include keys that a plugin returned."""
    # The temporary folder is a setting of the whole process, so clients that connect at the same time share one. The
    # lock is not held meanwhile: it would block the event loop.
    with _CONNECTING:
        _connecting.append(_connecting[0] if _connecting else _other_temporary_folder())
    try:
        yield
    finally:
        with _CONNECTING:
            shared = _connecting.pop()
            if not _connecting:
                shared.close()


def _other_temporary_folder() -> ExitStack:
    """Replace the process's folder of temporary files until the result is closed."""
    stack = ExitStack()
    folder = stack.enter_context(temporary_folder())
    stack.callback(setattr, tempfile, "tempdir", tempfile.tempdir)
    tempfile.tempdir = str(folder)
    return stack


def _unreachable(cluster: str, error: Exception) -> ClusterError:
    local = ". Start the local cluster with: trainstack cluster up" if kubeconfig.is_local() else ""
    return ClusterError(
        f"cannot reach the cluster of {cluster}: {str(error) or type(error).__name__}",
        f"check that it is running, and that kubeconfig and context are the right ones{local}",
    )


def _problem(cluster: str, path: str, status: int) -> ClusterError | None:
    """Return the error for a status that does not concern the object of `path`."""
    if status == httpx.codes.UNAUTHORIZED:
        return PermanentError(
            f"the cluster of {cluster} does not accept the credentials",
            "renew them, or point KUBECONFIG at another file",
        )
    if status == httpx.codes.TOO_MANY_REQUESTS or status >= httpx.codes.INTERNAL_SERVER_ERROR:
        return ClusterError(f"the cluster of {cluster} answered {status} to {path}", "retry when it is healthy")
    return None


def _cluster(api: kr8s.asyncio.Api) -> str:
    return f"context {api.auth.active_context}, {api.auth.server} ({kubeconfig.shown_path()})"


async def get_all(
    api: kr8s.asyncio.Api, paths: Iterable[str], *, metadata_only: bool = False, metadata_of_items: bool = False
) -> dict[str, Answer]:
    """GET all paths once and return the responses by path; the keywords are those of `read`."""
    distinct = list(dict.fromkeys(paths))
    limit = asyncio.Semaphore(CONCURRENCY)

    async def get_one(path: str) -> Answer:
        async with limit:
            return await get(api, path, metadata_only=metadata_only, metadata_of_items=metadata_of_items)

    return dict(zip(distinct, await asyncio.gather(*map(get_one, distinct)), strict=True))


async def get_available(api: kr8s.asyncio.Api, paths: Iterable[str]) -> dict[str, Answer]:
    """GET all paths; leave out those whose servers (an aggregated API, a kubelet) are not available."""
    found: dict[str, Answer] = {}
    limit = asyncio.Semaphore(CONCURRENCY)

    async def get_one(path: str) -> None:
        async with limit:
            with suppress(ClusterError):
                found[path] = await get(api, path)

    await asyncio.gather(*map(get_one, dict.fromkeys(paths)))
    return found


async def get(
    api: kr8s.asyncio.Api, path: str, *, metadata_only: bool = False, metadata_of_items: bool = False
) -> Answer:
    """GET one path; the keywords are those of `read`."""
    accept = _METADATA_ONLY if metadata_only else _METADATA_OF_ITEMS if metadata_of_items else "application/json"
    status, text = await _fetch(api, path, accept)
    return Answer(status, json.loads(text) if status == httpx.codes.OK else {})


async def get_list(
    api: kr8s.asyncio.Api, path: str, *, metadata_of_items: bool = False, managed_fields: bool = True
) -> Answer:
    """GET all pages of a list, whose path sets a `limit`; the first refused page is the result.

    Args:
        api: the client.
        path: the list's path.
        metadata_of_items: as of `read`.
        managed_fields: keep `metadata.managedFields`, which take half of the memory of a list.

    """
    page, items = path, []
    while True:
        answer = await get(api, page, metadata_of_items=metadata_of_items)
        for item in answer.body.get("items") or ():
            if not managed_fields:
                item["metadata"].pop("managedFields", None)
            items.append(item)
        token = (answer.body.get("metadata") or {}).get("continue")
        if not token:
            return Answer(answer.status, {**answer.body, "items": items}) if answer.found else answer
        page = f"{path}&continue={quote(token)}"


async def get_text(api: kr8s.asyncio.Api, path: str) -> tuple[int, str]:
    """GET text, such as a pod's log, with the response's status."""
    return await _fetch(api, path, "text/plain, application/json")


async def post(api: kr8s.asyncio.Api, path: str, body: Mapping[str, Any]) -> Answer:
    """POST a review, which the API server answers but does not store."""
    status, text = await _fetch(api, path, "application/json", body)
    return Answer(status, json.loads(text) if status == httpx.codes.CREATED else {})


def request(api: kr8s.asyncio.Api, verb: str, path: str, **options: Any) -> AbstractAsyncContextManager[httpx.Response]:
    """Send a request to an absolute API path, which may have a query. Every status is a response, not an error."""
    base, _, query = path.partition("?")
    parent, _, last = base.rpartition("/")
    url = f"{last}?{query}" if query else last
    return api.call_api(verb, base=parent, version="", url=url, raise_for_status=False, **options)


async def _fetch(
    api: kr8s.asyncio.Api, path: str, accept: str, review: Mapping[str, Any] | None = None
) -> tuple[int, str]:
    verb, headers = "GET" if review is None else "POST", {"Accept": accept}
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while True:
        try:
            async with request(api, verb, path, headers=headers, json=review) as response:
                status, text, delay = response.status_code, response.text, retry_after_seconds(response)
        except (httpx.TransportError, ssl.SSLError, APITimeoutError) as error:
            raise _unreachable(_cluster(api), error) from error
        if delay is None or time.monotonic() + delay > deadline:
            break
        await asyncio.sleep(delay)
    if problem := _problem(_cluster(api), path, status):
        raise problem
    return status, text


def retry_after_seconds(response: httpx.Response) -> float | None:
    """Return the delay of a 429, which the API server also sends while it sets up the storage of a new CRD."""
    delay = response.headers.get("Retry-After", "")
    return max(int(delay), 0.1) if response.status_code == httpx.codes.TOO_MANY_REQUESTS and delay.isdecimal() else None
