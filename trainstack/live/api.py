"""A client of one API server, which renews credentials and raises ClusterError for every failure of a request."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import kr8s.asyncio

from trainstack.files.temporary import secret_file
from trainstack.live.access import Access
from trainstack.live.answers import ensure_status, read_body
from trainstack.live.credential_plugin import PluginError, UserCredential, command_line
from trainstack.live.credentials import UserCredentials
from trainstack.live.errors import (
    PermanentError,
    RightsError,
    connection_error,
    connection_setup_error,
    proxy_login_error,
    quote_beginning,
    status_message,
    unauthorized_error,
    unavailable_error,
    unexpected_answer_error,
)

_TIMEOUT_SECONDS = 10
"""The timeout of a connection, and of one read of a response."""
_BUSY_RETRY_SECONDS = 10
"""How long a request is repeated while the API server has too many requests (429)."""
_COMPLETE_SECONDS = 300
"""The deadline of a complete response. A broken server may send single bytes, none of which exceeds the timeout."""
_VERSION = "/version/"
_SUCCESS_STATUSES = (httpx.codes.OK, httpx.codes.CREATED, httpx.codes.ACCEPTED)
_DELAY_DIGITS_LIMIT = 6
"""The number of digits from which a Retry-After header is ignored: such a delay is longer than a day."""
_TRANSPORT_ERRORS = (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError)
"""The errors of sending a request or receiving its response."""


@dataclass(frozen=True)
class Reply:
    """A complete response."""

    status: int
    text: str


class Api:
    """A client of a context's API server, for one event loop. Methods raise ClusterError."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.timeout: float = _TIMEOUT_SECONDS
        """The timeout of one read of a response, in seconds."""
        self.version = ""
        """The server's version, `v1.34.2`."""
        self._credentials = UserCredentials(access)
        self._client: httpx.AsyncClient | None = None
        self._client_certificate = ("", "")
        """The certificate and the key of `_client`."""
        self._client_lock = asyncio.Lock()

    @property
    def description(self) -> str:
        """Return `context NAME, SERVER (FILE)`, for messages."""
        return self.access.description

    async def open(self) -> None:
        """Connect, and read the server's version."""
        reply = await self.exchange("GET", _VERSION)
        if reply.status == httpx.codes.FORBIDDEN:
            ensure_status(self.description, _VERSION, reply.status, reply.text)
            raise RightsError(f"the cluster of {self.description}: {status_message(reply.text)}")
        if error := unavailable_error(self.description, _VERSION, reply.status, reply.text):
            raise error
        if reply.status != httpx.codes.OK:
            raise unexpected_answer_error(
                self.description, _VERSION, reply.status, "which is not a version", reply.text
            )
        self.version = read_body(self.description, _VERSION, reply.status, reply.text)["gitVersion"]

    async def exchange(
        self,
        verb: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: str | None = None,
        busy_seconds: float = _BUSY_RETRY_SECONDS,
    ) -> Reply:
        """Send a request to an absolute API path, which may have a query, and return its complete response.

        The request is repeated for up to `busy_seconds` while the server has too many requests. Any status of an API
        server other than 401 is returned; a response that no API server sends raises UnexpectedAnswerError.
        """
        deadline = time.monotonic() + busy_seconds
        while True:
            response_context = self.request(
                verb, path, headers=headers, content=content, deadline_seconds=_COMPLETE_SECONDS
            )
            async with response_context as response:
                await response.aread()
            delay = _retry_after_seconds(response)
            if delay is None or time.monotonic() + delay > deadline:
                break
            await asyncio.sleep(delay)
        reply = Reply(response.status_code, response.content.decode(errors="replace"))
        if fault := _foreign_response_fault(response, reply.text):
            raise unexpected_answer_error(self.description, path, reply.status, fault, reply.text)
        if reply.status == httpx.codes.PROXY_AUTHENTICATION_REQUIRED:
            raise proxy_login_error(self.description, f"it answered {reply.status} to {path}")
        return reply

    @asynccontextmanager
    async def request(
        self,
        verb: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: str | None = None,
        read_timeout: httpx.Timeout | None = None,
        deadline_seconds: float | None = None,
    ) -> AsyncIterator[httpx.Response]:
        """Send a request, and yield its response; after a 401, repeat it once with renewed credentials.

        The block reads the response, and errors of the connection in it become ClusterErrors. `read_timeout`: the
        timeouts, instead of `self.timeout`; `deadline_seconds`: the deadline of the block.
        """
        options = {"content": content, "timeout": read_timeout or self.timeout, "follow_redirects": verb == "GET"}

        def send(credential: UserCredential) -> AbstractAsyncContextManager[httpx.Response]:
            authorization = {"Authorization": f"Bearer {credential.token}"} if credential.token else {}
            request_options = {**options, "headers": {**(headers or {}), **authorization}}
            return self._send(credential, verb, path, request_options, deadline_seconds)

        credential = await self._credentials.current()
        async with AsyncExitStack() as stack:
            response = await stack.enter_async_context(send(credential))
            if response.status_code == httpx.codes.UNAUTHORIZED:
                refused_credential, credential = credential, await self._credentials.replacement(credential)
                if credential == refused_credential:
                    raise self._unauthorized_error(credential)
                await stack.aclose()
                response = await stack.enter_async_context(send(credential))
                if response.status_code == httpx.codes.UNAUTHORIZED:
                    self._credentials.record_refused_replacement()
                    raise self._unauthorized_error(credential)
            yield response

    @asynccontextmanager
    async def _send(
        self,
        credential: UserCredential,
        verb: str,
        path: str,
        options: Mapping[str, Any],
        deadline_seconds: float | None,
    ) -> AsyncIterator[httpx.Response]:
        client = await self._client_for(credential)
        server_name = self.access.cluster.tls_server_name
        try:
            async with (
                asyncio.timeout(deadline_seconds),
                client.stream(
                    verb, path, **options, extensions={"sni_hostname": server_name} if server_name else None
                ) as response,
            ):
                yield response
        except TimeoutError as error:
            reason = f"no complete answer to {path} within {deadline_seconds:g} s" if deadline_seconds else str(error)
            raise connection_error(self.description, TimeoutError(reason)) from error
        except _TRANSPORT_ERRORS as error:
            raise connection_error(self.description, error) from error

    async def _client_for(self, credential: UserCredential) -> httpx.AsyncClient:
        """Return the HTTP client with the credential's certificate. A changed certificate requires a new client."""
        certificate_and_key = (credential.certificate, credential.key)
        async with self._client_lock:
            if self._client is None or certificate_and_key != self._client_certificate:
                self._client, self._client_certificate = await self._new_client(credential), certificate_and_key
            return self._client

    async def _new_client(self, credential: UserCredential) -> httpx.AsyncClient:
        with ExitStack() as files:
            auth = kr8s.asyncio.Api(kubeconfig=self._minimal_kubeconfig(credential, files), bypass_factory=True).auth
            try:
                await auth
                verify: ssl.SSLContext | bool = await auth.ssl_context()  # type: ignore[no-untyped-call]
            except (OSError, ValueError) as error:
                raise self._certificates_error(error) from error
        try:
            return httpx.AsyncClient(base_url=auth.server, verify=verify, proxy=auth.proxy)
        except (ValueError, TypeError, ImportError, httpx.InvalidURL) as error:
            raise connection_setup_error(self.description, error) from error

    def _minimal_kubeconfig(self, credential: UserCredential, files: ExitStack) -> dict[str, Any]:
        """Return a kubeconfig for kr8s, whose certificates are files that `files` deletes.

        kr8s would write certificates in data fields to the disk. The plugin and the token are left out, since this
        class, not kr8s, sends them.
        """

        def write_file(pem: str) -> str:
            file = secret_file(pem.encode("latin-1"))
            files.callback(file.close)
            return str(file.path)

        entry = self.access.cluster_entry
        cluster = {key: value for key, value in entry.items() if not key.startswith("certificate-authority")}
        if authority := self.access.read_authority():
            cluster["certificate-authority"] = write_file(authority)
        user = {}
        if credential.certificate:
            user = {"client-certificate": write_file(credential.certificate), "client-key": write_file(credential.key)}
        return {
            "clusters": [{"name": "cluster", "cluster": cluster}],
            "users": [{"name": "user", "user": user}],
            "contexts": [{"name": "context", "context": {"cluster": "cluster", "user": "user"}}],
            "current-context": "context",
        }

    def _certificates_error(self, error: Exception) -> PermanentError:
        plugin = self.access.user.plugin
        if plugin is not None:
            return PluginError(self.access, plugin, f"or the kubeconfig has a certificate that cannot be used: {error}")
        return self.access.unusable_error(f"its certificates cannot be used: {error}")

    def _unauthorized_error(self, credential: UserCredential) -> PermanentError:
        plugin = self.access.user.plugin
        return unauthorized_error(self.description, command_line(plugin) if plugin else "", credential.expires)


def _retry_after_seconds(response: httpx.Response) -> float | None:
    """Return the delay of a 429, or None. The API server also sends a 429 while it sets up the storage of a new CRD."""
    delay = response.headers.get("Retry-After", "")
    is_delay = (
        response.status_code == httpx.codes.TOO_MANY_REQUESTS and delay.isdecimal() and len(delay) < _DELAY_DIGITS_LIMIT
    )
    return max(int(delay), 0.1) if is_delay else None


def _foreign_response_fault(response: httpx.Response, text: str) -> str:
    """Return why no API server can have sent this response, as a relative clause, or ""."""
    status = response.status_code
    first_response = response.history[0] if response.history else response
    if first_response.url.path.rstrip("/") != response.url.path.rstrip("/"):
        return f"which is that of {quote_beginning(str(response.url))}, to which it redirects"
    is_page = "html" in response.headers.get("Content-Type", "") or text.lstrip()[:1] == "<"
    if is_page and status < httpx.codes.INTERNAL_SERVER_ERROR:
        return "which is a web page"
    if httpx.codes.MULTIPLE_CHOICES <= status < httpx.codes.BAD_REQUEST:
        return f"and redirects to {quote_beginning(response.headers.get('Location', ''))}"
    if status < httpx.codes.BAD_REQUEST and status not in _SUCCESS_STATUSES:
        return "which no API server answers"
    return ""
