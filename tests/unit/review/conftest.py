"""Fixtures of the review's tests."""

import threading
from collections.abc import Iterator

import pytest

from tests.unit.review.github_server import Server


@pytest.fixture
def server() -> Iterator[Server]:
    """Run a server on its own port."""
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
