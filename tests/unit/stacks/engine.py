"""Pulumi's mock of the engine."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from pulumi.runtime import mocks

M = TypeVar("M", bound=mocks.MockMonitor)


@contextmanager
def mocked_engine(monitor: M) -> Iterator[M]:
    """Register resources with a monitor, in an event loop of their own, until the block ends."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    mocks.set_mocks(monitor.mocks, monitor=monitor)
    try:
        yield monitor
    finally:
        asyncio.set_event_loop(None)
        loop.close()
