"""Reading a live cluster: many small GETs at once, and errors that say what to do.

Everything here reads; nothing writes.
"""

import asyncio
import json
import ssl
import tempfile
import threading
import time
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import kr8s.asyncio
import yaml
from kr8s import APITimeoutError, ServerError

from trainstack.live import kubeconfig

T = TypeVar("T")

NOT_FOUND = 404
"""The status of an answer that there is no such object, or no such kind."""
FORBIDDEN = 403
"""The status of an answer to somebody who lacks the right."""
PAGE = 500
"""Objects in one answer to a list of a kind of which a namespace may hold thousands."""
_AT_ONCE = 16
_CONNECTING = threading.Lock()
_TIMEOUT_SECONDS = 10
_METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
_METADATA_OF_ITEMS = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"


class ClusterError(Exception):
    """The cluster cannot be read. Says which one, why, and what to do about it."""


class PermanentError(ClusterError):
    """Asking again is of no use: a person has to change something, the kubeconfig for one."""


class RightsError(PermanentError):
    """These credentials may not do that. Says who can grant it."""


@dataclass(frozen=True)
class Answer:
    """What the API server said to one GET. `body` is {} where there is nothing (404) or no right (403)."""

    status: int
    body: dict[str, Any]

    @property
    def found(self) -> bool:
        """True when the object, or the list, is there and may be read."""
        return self.status in (httpx.codes.OK, httpx.codes.CREATED)

    @property
    def object(self) -> dict[str, Any] | None:
        """The object, or the list; {} where there is none, None where it may not be read."""
        return self.body if self.found or self.status == NOT_FOUND else None


def read(
    paths: Sequence[str], context: str | None, *, metadata_only: bool = False, metadata_of_items: bool = False
) -> dict[str, Answer]:
    """GET every path, some at a time, and return the answers by path.

    Args:
        paths: absolute API paths, `/api/v1/namespaces/research`.
        context: the kubeconfig's context; None: its current one.
        metadata_only: ask for names and labels alone; a CRD is 200 KB otherwise. The paths are of single objects.
        metadata_of_items: the same of paths that are lists.

    Raises:
        ClusterError: an unreachable server; PermanentError: no kubeconfig, an unknown context, expired credentials.

    """
    return run(_read(paths, context, metadata_only=metadata_only, metadata_of_items=metadata_of_items))


def read_lists(paths: Sequence[str], context: str | None) -> dict[str, Answer]:
    """GET every list, metadata alone, and return the answers by path, each with the objects of all its pages.

    The paths set a `limit`. Raises ClusterError as `read` does.
    """
    return run(_read_lists(paths, context))


def read_text(path: str, context: str | None) -> str:
    """GET one path as text, such as a pod's log; empty where there is nothing to read.

    Raises ClusterError as `read` does.
    """
    return run(_read_text(path, context))


def reach(context: str | None) -> None:
    """Return once the cluster has said its version. Raises ClusterError as `read` does."""
    run(connect(context))


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run to the end on an event loop of its own: the caller (the engine's language host) may be inside another."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


async def connect(context: str | None) -> kr8s.asyncio.Api:
    """A client for the cluster of the kubeconfig as this process first read it."""
    file = kubeconfig.shown_path()
    if not kubeconfig.exists():
        raise PermanentError(
            f"no kubeconfig at {file}; set KUBECONFIG to your cluster's file, or start the local cluster: "
            "trainstack cluster up"
        )
    try:
        chosen: Any = kubeconfig.chosen(context)
        with _no_keys_left_behind():
            api = await kr8s.asyncio.api(kubeconfig=chosen)
    except (KeyError, ValueError, TypeError, OSError, IndexError, yaml.YAMLError) as error:
        where = f"context {context!r} of {file}" if context else file
        remedy = "; the environment names it in trainstack:cluster: context" if context else ""
        raise PermanentError(
            f"{where} is not a usable kubeconfig ({error}); see what is in it: kubectl config get-contexts{remedy}"
        ) from error
    except (httpx.TransportError, APITimeoutError) as error:
        raise _unreachable("the kubeconfig's server", error) from error
    except ServerError as error:
        server, status = "the kubeconfig's server", 0
        if error.response is not None:
            server, status = error.response.url.netloc.decode(), error.response.status_code
        refusal = RightsError if status == FORBIDDEN else ClusterError
        raise _problem(server, "/version", status) or refusal(f"the cluster at {server}: {error}") from error
    api.timeout = _TIMEOUT_SECONDS
    return api


@contextmanager
def _no_keys_left_behind() -> Iterator[None]:
    """What kr8s writes into temporary files, the kubeconfig's keys among it, is removed.

    It does so while connecting only. Where temporary files go is set for the whole process, hence one at a time.
    """
    with _CONNECTING, tempfile.TemporaryDirectory(prefix="trainstack-") as folder:
        before, tempfile.tempdir = tempfile.tempdir, folder
        try:
            yield
        finally:
            tempfile.tempdir = before


def _unreachable(server: str, error: Exception) -> ClusterError:
    return ClusterError(
        f"cannot reach the cluster at {server} ({str(error) or type(error).__name__}); is it up, and is "
        f"{kubeconfig.shown_path()} its kubeconfig? The local cluster starts with: trainstack cluster up"
    )


def _problem(server: str, path: str, status: int) -> ClusterError | None:
    """What an answer of this status means that holds neither an object nor the lack of one."""
    if status == httpx.codes.UNAUTHORIZED:
        return PermanentError(
            f"the cluster at {server} does not accept the credentials in {kubeconfig.shown_path()}; renew them, or "
            "point KUBECONFIG at another file"
        )
    if status == httpx.codes.TOO_MANY_REQUESTS or status >= httpx.codes.INTERNAL_SERVER_ERROR:
        return ClusterError(f"the cluster at {server} answered {status} to {path}; try again when it is well")
    return None


async def _read(
    paths: Sequence[str], context: str | None, *, metadata_only: bool, metadata_of_items: bool
) -> dict[str, Answer]:
    api = await connect(context)
    return await get_all(api, paths, metadata_only=metadata_only, metadata_of_items=metadata_of_items)


async def get_all(
    api: kr8s.asyncio.Api, paths: Iterable[str], *, metadata_only: bool = False, metadata_of_items: bool = False
) -> dict[str, Answer]:
    """GET every path, some at a time, and return the answers by path; a path that is named twice is asked once.

    Args:
        api: the client.
        paths: absolute API paths.
        metadata_only: as for `read`; the paths are of single objects.
        metadata_of_items: the same of paths that are lists.

    """
    asked = list(dict.fromkeys(paths))
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(path: str) -> Answer:
        async with gate:
            return await get(api, path, metadata_only=metadata_only, metadata_of_items=metadata_of_items)

    answers = await asyncio.gather(*(one(path) for path in asked))
    return dict(zip(asked, answers, strict=True))


async def _read_lists(paths: Sequence[str], context: str | None) -> dict[str, Answer]:
    api = await connect(context)
    answers = await asyncio.gather(*(get_list(api, path, metadata_of_items=True) for path in paths))
    return dict(zip(paths, answers, strict=True))


async def _read_text(path: str, context: str | None) -> str:
    status, text = await get_text(await connect(context), path)
    return text if status == httpx.codes.OK else ""


async def get(
    api: kr8s.asyncio.Api, path: str, *, metadata_only: bool = False, metadata_of_items: bool = False
) -> Answer:
    """GET one path; the keywords are those of `get_all`."""
    accept = _METADATA_ONLY if metadata_only else _METADATA_OF_ITEMS if metadata_of_items else "application/json"
    status, text = await _fetch(api, path, accept)
    return Answer(status, json.loads(text) if status == httpx.codes.OK else {})


async def get_list(api: kr8s.asyncio.Api, path: str, *, metadata_of_items: bool = False) -> Answer:
    """GET a list whose path sets a `limit`, page by page; the first page that is refused is the answer."""
    answer = await get(api, path, metadata_of_items=metadata_of_items)
    items = list(answer.body.get("items") or ())
    while token := (answer.body.get("metadata") or {}).get("continue"):
        answer = await get(api, f"{path}&continue={quote(token)}", metadata_of_items=metadata_of_items)
        items += answer.body.get("items") or ()
    return Answer(answer.status, {**answer.body, "items": items}) if answer.found else answer


async def get_text(api: kr8s.asyncio.Api, path: str) -> tuple[int, str]:
    """GET one path as text, such as a pod's log, with the status of the answer."""
    return await _fetch(api, path, "text/plain, application/json")


async def post(api: kr8s.asyncio.Api, path: str, body: Mapping[str, Any]) -> Answer:
    """POST a question to one path: a review, which the API server answers and stores nowhere."""
    status, text = await _fetch(api, path, "application/json", body)
    return Answer(status, json.loads(text) if status == httpx.codes.CREATED else {})


async def _fetch(
    api: kr8s.asyncio.Api, path: str, accept: str, question: Mapping[str, Any] | None = None
) -> tuple[int, str]:
    base, _, rest = path.partition("?")
    parent, _, last = base.rpartition("/")
    url = f"{last}?{rest}" if rest else last
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while True:
        try:
            async with api.call_api(
                "GET" if question is None else "POST",
                base=parent,
                version="",
                url=url,
                raise_for_status=False,
                headers={"Accept": accept},
                json=question,
            ) as response:
                status, text, delay = response.status_code, response.text, _retry_after_seconds(response)
        except (httpx.TransportError, ssl.SSLError, APITimeoutError) as error:
            raise _unreachable(api.auth.server, error) from error
        if delay is None or time.monotonic() + delay > deadline:
            break
        await asyncio.sleep(delay)
    if problem := _problem(api.auth.server, path, status):
        raise problem
    return status, text


def _retry_after_seconds(response: httpx.Response) -> float | None:
    """Return the delay of a 429 answer, which the API server sends while a new CRD's storage is being set up."""
    delay = response.headers.get("Retry-After", "")
    return max(int(delay), 0.1) if response.status_code == httpx.codes.TOO_MANY_REQUESTS and delay.isdecimal() else None
