"""An object store in the test's process, for the engine's state."""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from moto.server import ThreadedMotoServer

_NAME = "states"


@contextmanager
def bucket() -> Iterator[dict[str, str]]:
    """An empty bucket of an S3-compatible store; the variables by which the engine keeps its states there."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        address = "http://{}:{}".format(*server.get_host_and_port())
        httpx.put(f"{address}/{_NAME}").raise_for_status()
        yield {
            "PULUMI_BACKEND_URL": f"s3://{_NAME}?endpoint={address}&s3ForcePathStyle=true&region=us-east-1",
            "AWS_ACCESS_KEY_ID": "anyone",
            "AWS_SECRET_ACCESS_KEY": "anything",
        }
    finally:
        server.stop()
