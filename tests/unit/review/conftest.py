"""Fixtures of the review's tests."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.review.github_server import Server


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server on a port of its own."""
    # Otherwise each client reads the certificates of all authorities, though it uses none: 25 ms.
    (tmp_path / "authorities").mkdir()
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "authorities"))
    made = Server()
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()
