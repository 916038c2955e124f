"""A proxy in front of an API server that loses, delays or answers requests that a test chooses."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

from tests.apiserver import ApiServer

_HOP_BY_HOP = {"connection", "content-length", "transfer-encoding", "host", "accept-encoding", "keep-alive"}


@dataclass(frozen=True)
class Request:
    """A request of a client."""

    verb: str
    path: str
    """With the query."""
    headers: dict[str, str]
    body: bytes

    def writes(self, plural: str) -> bool:
        """Return whether it is a write of objects of a kind that is not a dry run."""
        folders = self.path.partition("?")[0].split("/")
        return self.verb not in ("GET", "HEAD") and plural in folders and "dryRun" not in self.path


@dataclass(frozen=True)
class Lost:
    """The connection breaks without a response."""

    arrives_after_seconds: float | None
    """When the API server receives the request nevertheless; None: never."""


@dataclass(frozen=True)
class Answered:
    """The client receives this response; the API server does not receive the request."""

    code: int
    message: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        """Return the status of the API, or no JSON at all where there is no message."""
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": self.code, "message": self.message}
        return json.dumps(status).encode() if self.message else b"<html>"


Fault = Callable[[Request], Lost | Answered | None]
"""What happens to a request; None: it is forwarded."""


@dataclass
class Proxy:
    """A running proxy, whose clients are administrators."""

    server: ApiServer
    kubeconfig: Path
    fault: Fault = lambda _: None
    faults: int = 0
    """How many requests were not simply forwarded."""
    late: list[threading.Thread] = field(default_factory=list)
    """Send the lost requests."""

    def forward(self, request: Request) -> Any:
        """Send a request to the API server."""
        headers = {key: value for key, value in request.headers.items() if key.lower() not in _HOP_BY_HOP}
        return self.server.client.request(request.verb, request.path, headers=headers, content=request.body)

    def lose(self, request: Request, lost: Lost) -> None:
        """Forward a request later, or never."""
        if lost.arrives_after_seconds is None:
            return

        def arrive() -> None:
            time.sleep(lost.arrives_after_seconds or 0)
            self.forward(request)

        thread = threading.Thread(target=arrive, daemon=True)
        thread.start()
        self.late.append(thread)

    def await_late(self) -> None:
        """Wait until all lost requests have arrived."""
        while self.late:
            self.late.pop().join()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    # The default of 5 is less than the connections that the engine's provider and the program open at once. The kernel
    # drops the packets of others, which are sent again after seconds.
    request_queue_size = 128


@contextmanager
def proxy(server: ApiServer, folder: Path) -> Iterator[Proxy]:
    """Run a proxy until the block ends."""
    running = Proxy(server, folder / "proxied")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            request = Request(self.command, self.path, dict(self.headers.items()), self.rfile.read(length))
            fault = running.fault(request)
            if fault is not None:
                running.faults += 1
            if isinstance(fault, Lost):
                running.lose(request, fault)
                self.close_connection = True
                return
            if isinstance(fault, Answered):
                self.answer(fault.code, {"Content-Type": "application/json", **fault.headers}, fault.body)
                return
            try:
                response = running.forward(request)
            except httpx.HTTPError:  # a watch that the end of the API server cuts
                self.close_connection = True
                return
            headers = {key: value for key, value in response.headers.items() if key.lower() not in _HOP_BY_HOP}
            headers.pop("content-encoding", None)
            self.answer(response.status_code, headers, response.content)

        def answer(self, code: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response_only(code)
            for key, value in headers.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Write nothing."""

    for verb in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        setattr(Handler, f"do_{verb}", Handler.handle_any)
    listener = _Listener(("127.0.0.1", 0), Handler)
    cluster = {"server": f"http://127.0.0.1:{listener.server_port}"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "proxied", "cluster": cluster}],
        "users": [{"name": "proxied", "user": {}}],
        "contexts": [{"name": "proxied", "context": {"cluster": "proxied", "user": "proxied"}}],
        "current-context": "proxied",
    }
    running.kubeconfig.write_text(json.dumps(config))
    thread = threading.Thread(target=listener.serve_forever, daemon=True)
    thread.start()
    try:
        yield running
    finally:
        listener.shutdown()
        listener.server_close()
