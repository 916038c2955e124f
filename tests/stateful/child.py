"""One operation of the stand-in for the engine, in a process of its own that can be killed at any moment.

The parent is asked at each moment how to go on: `go`, `kill`, `lose` (the connection breaks), or the text of a refusal.
"""

import asyncio
import contextlib
import ctypes
import datetime as dt
import io
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx
import pulumi
import yaml
from pulumi.runtime.proto import language_pb2

import trainstack.components.launch_claims
import trainstack.runs.launches
import trainstack.stacks.assemble
import trainstack.stacks.plan_change
import trainstack.stacks.teardown
from tests.stateful.engine import Engine
from tests.stateful.monitor import Hooks, Log, Monitor, serve
from tests.stateful.provider import LostAnswerError, RequestFailedError
from tests.stateful.state import State
from trainstack.dev.toolchain.program_run import run_program

PROGRAM = (trainstack.stacks.assemble, trainstack.stacks.plan_change, trainstack.stacks.teardown)
"""Imported in the process that all others are forked from."""
PROJECT = "trainstack"
KILLED = 137
COLLECT_GARBAGE = "settle"
"""What the parent is asked at when the cluster's garbage collector is waited for."""


@dataclass(frozen=True)
class Operation:
    """What to do."""

    root: Path
    """The checkout."""
    stack: str
    mode: str
    state: Path
    kubeconfig: Path
    """The person's."""
    refresh: bool = False
    clock_seconds: float = 0.0
    """By how much the person's clock is ahead."""
    variables: dict[str, str] = field(default_factory=dict)
    late_seconds: float = 0.2
    """In place of LATE_SECONDS."""


@dataclass(frozen=True)
class OperationResult:
    """What became of it."""

    ok: bool
    text: str
    declared: int
    """How many resources the program registered."""


def run(operation: Operation, parent: Connection) -> None:
    """Do it, and send the parent what became of it."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        ended = _run(operation, parent)
    parent.send(OperationResult(ended.ok, f"{ended.text}\n{output.getvalue()}".strip(), ended.declared))
    parent.close()
    os._exit(0)


def _run(operation: Operation, parent: Connection) -> OperationResult:
    os.environ.update(operation.variables, KUBECONFIG=str(operation.kubeconfig))
    # A call to the engine for each line that only the SDK's authors read.
    pulumi.log.debug = lambda *_, **__: None
    _set_clock(operation.clock_seconds)
    for module in (trainstack.components.launch_claims, trainstack.runs.launches):
        vars(module)["LATE_SECONDS"] = operation.late_seconds
    ask = _asker(parent)
    _gate_writes(ask)
    hooks, log = Hooks(), Log()
    # The provider is another process: what the program sets in its environment does not reach it.
    engine = Engine(
        state=State.load(operation.state),
        mode=operation.mode,
        kubeconfig=lambda: str(operation.kubeconfig),
        on_moment=ask,
        run_hook=hooks.run,
        stack_outputs=lambda name: {},
        collect_garbage=lambda: ask(COLLECT_GARBAGE, ""),
    )
    monitor = Monitor(engine, hooks, PROJECT, operation.stack)
    with serve(monitor, log) as address:
        if operation.refresh:
            try:
                engine.refresh()
            except RequestFailedError as error:
                return OperationResult(ok=False, text=f"refresh: {error}", declared=0)
        response = run_program(_request(operation, address), address)
    problem = monitor.failure or ("" if monitor.finished else "the program failed")
    if monitor.finished and not engine.is_preview:
        engine.state.save()
    text = "\n".join([*log.lines, response.error, problem, *engine.late_errors]).strip()
    return OperationResult(ok=not (problem or engine.late_errors), text=text, declared=len(engine.declared))


def _asker(parent: Connection) -> Callable[[str, str], None]:
    lock = threading.Lock()

    def ask(what: str, name: str) -> None:
        with lock:
            parent.send((what, name))
            reply = parent.recv()
        if reply == "kill":
            os._exit(KILLED)
        if reply == "lose":
            raise LostAnswerError
        if reply != "go":
            raise RequestFailedError(reply)

    return ask


def _request(operation: Operation, address: str) -> Any:
    file = operation.root / f"Pulumi.{operation.stack}.yaml"
    config = yaml.safe_load(file.read_text())["config"] if file.exists() else {}
    engine_config = {key: value if isinstance(value, str) else json.dumps(value) for key, value in config.items()}
    return language_pb2.RunRequest(
        project=PROJECT,
        stack=operation.stack,
        pwd=str(operation.root),
        program=".",
        config=engine_config,
        dryRun=operation.mode == "preview",
        parallel=8,
        monitor_address=address,
        organization="organization",
        info=language_pb2.ProgramInfo(
            root_directory=str(operation.root), program_directory=str(operation.root), entry_point="."
        ),
    )


def _set_clock(ahead_seconds: float) -> None:
    if not ahead_seconds:
        return
    real = trainstack.runs.launches.utc_now

    def shifted() -> dt.datetime:
        return real() + dt.timedelta(seconds=ahead_seconds)

    for module in list(sys.modules.values()):
        if getattr(module, "utc_now", None) is real:
            module.utc_now = shifted  # type: ignore[attr-defined]


def _gate_writes(ask: Callable[[str, str], None]) -> None:
    """What the program itself writes, by its own client, can be interrupted and refused too."""
    handle = httpx.AsyncHTTPTransport.handle_async_request

    async def gated(self: httpx.AsyncHTTPTransport, request: httpx.Request) -> httpx.Response:
        writes = request.method not in ("GET", "HEAD") and "reviews" not in request.url.path
        if not writes or "dryRun" in request.url.params:
            return await handle(self, request)
        name = f"{request.method} {request.url.path}"
        try:
            await asyncio.to_thread(ask, "program writes", name)
        except LostAnswerError as error:
            raise httpx.ReadError(str(error)) from error
        except RequestFailedError as error:
            body = {"kind": "Status", "status": "Failure", "message": str(error), "reason": "Forbidden", "code": 403}
            return httpx.Response(403, json=body, request=request)
        response = await handle(self, request)
        try:
            await asyncio.to_thread(ask, "program wrote", name)
        except LostAnswerError as error:
            raise httpx.ReadError(str(error)) from error
        return response

    httpx.AsyncHTTPTransport.handle_async_request = gated  # type: ignore[method-assign]
