"""Fixtures of the review's tests."""

import threading
from collections.abc import Iterator

import pytest

from tests.unit.review.github_server import Server


@pytest.fixture
def server() -> Iterator[Server]:
    """A server on a port of its own."""
    made = Server()
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()
