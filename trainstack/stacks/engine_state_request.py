"""The request for the stack's state in the engine.

This module has few imports, so that the engine reads its state while the other modules load.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, cast

import grpc
import pulumi
from google.protobuf.struct_pb2 import Struct
from pulumi.runtime.proto import resource_pb2
from pulumi.runtime.settings import get_monitor, grpc_error_to_exception

_READ_OUTPUTS = "pulumi:pulumi:readStackResourceOutputs"
"""A function of the engine's built-in provider, which returns the outputs of every resource of a stack by URN."""


def request_engine_state() -> "Future[Struct]":
    """Start to read the running operation's state; return the future response."""
    request = resource_pb2.ResourceInvokeRequest(tok=_READ_OUTPUTS)
    request.args["stackName"] = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
    # `pulumi.runtime.invoke` would wait, and convert the outputs of all resources.
    pool = ThreadPoolExecutor(1)
    future = pool.submit(_invoke, get_monitor(), request)
    pool.shutdown(wait=False)
    return future


def _invoke(monitor: Any, request: Any) -> Struct:
    try:
        response = monitor.Invoke(request)
    except grpc.RpcError as error:
        raise grpc_error_to_exception(error) from error
    if response.failures:
        raise RuntimeError(f"{_READ_OUTPUTS} failed: {response.failures[0].reason}")
    return cast("Struct", getattr(response, "return"))
