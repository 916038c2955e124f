"""An API server with given objects that records patches."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import pytest

from tests.unit.live_objects import write_kubeconfig


class PatchServer(ThreadingHTTPServer):
    """An API server whose objects do not change."""

    def __init__(self, bodies: Mapping[str, Mapping[str, Any]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bodies = {"/version": {"gitVersion": "v1.36.1"}, **bodies}
        """The responses to GET requests, by path."""
        self.patches: list[tuple[str, Any]] = []
        """The path and body of each PATCH, in order."""
        self.refused: dict[tuple[str, str], int] = {}
        """The status of the response, by method and path."""
        self.lock = Lock()


class _Handler(BaseHTTPRequestHandler):
    server: PatchServer

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].rstrip("/")
        self._answer("GET", path, self.server.bodies.get(path))

    def do_PATCH(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.patches.append((self.path, body))
        self._answer("PATCH", self.path, self.server.bodies.get(self.path.removesuffix("/status")))

    def _answer(self, method: str, path: str, body: Mapping[str, Any] | None) -> None:
        status = self.server.refused.get((method, path), 404 if body is None else 200)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        failure = {"kind": "Status", "message": "not allowed"}
        self.wfile.write(json.dumps(body if status == 200 else failure).encode())

    def log_message(self, *_: object) -> None:
        """Keep the test output free of request logs."""


@contextmanager
def patch_server(
    bodies: Mapping[str, Mapping[str, Any]], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PatchServer]:
    """Start a server that KUBECONFIG points to."""
    with PatchServer(bodies) as server:
        monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(folder, server.server_port)))
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()
