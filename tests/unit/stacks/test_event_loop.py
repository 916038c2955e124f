"""The server of a program's hooks."""

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pulumi
import pytest
from google.protobuf import empty_pb2
from pulumi.runtime import reset_options, run_in_stack
from pulumi.runtime.proto import resource_pb2, resource_pb2_grpc
from pulumi.runtime.settings import SETTINGS

from trainstack.stacks.event_loop import serve_hooks

HOOKS = 3


class Monitor(resource_pb2_grpc.ResourceMonitorServicer):
    """A monitor that accepts the stack and the hooks of a program without resources."""

    def __init__(self) -> None:
        self.servers: list[str] = []
        """The address with which each hook is registered."""

    def SupportsFeature(self, request: Any, context: Any) -> Any:  # noqa: N802 (the protocol's name)
        return resource_pb2.SupportsFeatureResponse(hasSupport=True)

    def RegisterResource(self, request: Any, context: Any) -> Any:  # noqa: N802
        return resource_pb2.RegisterResourceResponse(urn=f"urn:pulumi:dev::trainstack::{request.type}::{request.name}")

    def RegisterResourceOutputs(self, request: Any, context: Any) -> Any:  # noqa: N802
        return empty_pb2.Empty()

    def RegisterResourceHook(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.servers.append(request.callback.target)
        return empty_pb2.Empty()

    def SignalAndWaitForShutdown(self, request: Any, context: Any) -> Any:  # noqa: N802
        return empty_pb2.Empty()


def run(address: str, *, is_served: bool) -> int:
    """Run a program with hooks. Return the number of registrations that have started when the program ends."""
    started = []

    def program() -> None:
        if is_served:
            serve_hooks()
        for number in range(HOOKS):
            pulumi.ResourceHook(f"hook-{number}", lambda _: None)
        started.append(len(SETTINGS.rpc_manager.rpcs))

    reset_options(project="trainstack", stack="dev", monitor_address=address)
    asyncio.run(run_in_stack(program))
    return started[0]


@pytest.mark.parametrize("is_served", [False, True])
def test_all_hooks_have_one_server(is_served: bool) -> None:
    """Without `serve_hooks`, each has its own, and no registration has started: a new SDK may need neither."""
    monitor, server = Monitor(), grpc.server(ThreadPoolExecutor())
    resource_pb2_grpc.add_ResourceMonitorServicer_to_server(monitor, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        started = contextvars.copy_context().run(run, f"127.0.0.1:{port}", is_served=is_served)
    finally:
        server.stop(grace=None).wait()
    assert (len(monitor.servers), len({*monitor.servers})) == (HOOKS, 1 if is_served else HOOKS)
    assert started == (1 if is_served else 0)
