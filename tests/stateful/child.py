"""One operation of the stand-in for the engine, in a process of its own that can be killed at any moment.

The parent is asked at each moment how to go on: `go`, `kill`, a fault of the network, or the text of a refusal.
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
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx
import pulumi
import yaml
from pulumi.runtime.proto import language_pb2

import trainstack.runs.launches
import trainstack.stacks.assemble
import trainstack.stacks.plan_change
import trainstack.stacks.teardown_hooks
from tests.stateful import commands
from tests.stateful.engine import Engine
from tests.stateful.goal import EVERYTHING, Selection
from tests.stateful.monitor import Hooks, Log, Monitor, serve
from tests.stateful.network import FAULTS, Network
from tests.stateful.provider import RequestFailedError
from tests.stateful.state import PROJECT, State, locked, state_path
from trainstack.toolchain.program_run import run_program

PROGRAM = (trainstack.stacks.assemble, trainstack.stacks.plan_change, trainstack.stacks.teardown_hooks)
"""Imported in the process that all others are forked from."""
KILLED = 137
LATE_SECONDS = 0.2
"""In place of the program's own: what is late arrives before the next `up` asks for it."""
COLLECT_GARBAGE = "settle"
"""What the parent is asked at when the cluster's garbage collector is waited for."""


@dataclass(frozen=True)
class Operation:
    """What to do."""

    root: Path
    """The checkout."""
    stack: str
    mode: str
    """`up`, `preview`, `destroy` or `refresh` of the engine, or one of Trainstack's own commands."""
    backend: Path
    """The folder of the engine's states."""
    kubeconfig: Path
    """The person's."""
    refresh: bool = False
    clock_seconds: float = 0.0
    """By how much the person's clock is ahead."""
    variables: dict[str, str] = field(default_factory=dict)
    selection: Selection = EVERYTHING
    arguments: dict[str, Any] = field(default_factory=dict)
    """Of Trainstack's own command."""


@dataclass(frozen=True)
class OperationResult:
    """What became of it."""

    ok: bool
    text: str
    declared: int
    """How many resources the program registered."""
    code: int = 0
    """The exit code of one of Trainstack's own commands."""


def run(operation: Operation, parent: Connection) -> None:
    """Do it, and send the parent what became of it."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        ended = _run(operation, parent)
    parent.send(replace(ended, text=f"{ended.text}\n{output.getvalue()}".strip()))
    parent.close()
    os._exit(0)


def _run(operation: Operation, parent: Connection) -> OperationResult:
    os.environ.update(operation.variables, KUBECONFIG=str(operation.kubeconfig))
    tempfile.tempdir = str(operation.root / "tmp")
    Path(tempfile.tempdir).mkdir(exist_ok=True)
    # A call to the engine for each line that only the SDK's authors read.
    pulumi.log.debug = lambda *_, **__: None
    _set_clock(operation.clock_seconds)
    _expect_late_requests()
    process = _Process(operation, _asker(parent), Network(parent.send))
    _gate_writes(process.ask, process.network)
    if operation.mode in commands.COMMANDS:
        return process.command()
    return process.engine(operation.mode, refresh=operation.refresh)


@dataclass
class _Process:
    """What one operation does: it is one run of the engine, or several of them by a command."""

    operation: Operation
    ask: Callable[[str, str], str]
    network: Network
    declared: int = 0

    def command(self) -> OperationResult:
        operation = self.operation
        os.chdir(operation.root)
        run_engine = commands.EngineRuns(self.command_engine, operation.backend, operation.stack)
        code, text = commands.run(operation.mode, operation.arguments, run_engine, self.ask)
        return OperationResult(ok=code == 0, text=f"{text}\nexit code {code}", declared=self.declared, code=code)

    def command_engine(self, mode: str, variables: Mapping[str, str], *, refresh: bool) -> OperationResult:
        before = dict(os.environ)
        os.environ.update(variables)
        try:
            result = self.engine(mode, refresh=refresh)
        finally:
            os.environ.clear()
            os.environ.update(before)
        self.declared += 0 if mode == "preview" else result.declared
        return result

    def engine(self, mode: str, *, refresh: bool) -> OperationResult:
        state = state_path(self.operation.backend, self.operation.stack)
        try:
            with contextlib.nullcontext() if mode == "preview" else locked(state):
                return self._execute(mode, State.load(state), refresh=refresh)
        except RequestFailedError as error:
            return OperationResult(ok=False, text=str(error), declared=0)

    def _execute(self, mode: str, state: State, *, refresh: bool) -> OperationResult:
        if state.problem:
            raise RequestFailedError(state.problem)
        hooks, log = Hooks(), Log()
        # The provider is another process: what the program sets in its environment does not reach it.
        kubeconfig = os.environ["KUBECONFIG"]
        engine = Engine(
            state=state,
            mode=mode,
            kubeconfig=lambda: kubeconfig,
            on_moment=self.ask,
            network=self.network,
            run_hook=hooks.run,
            stack_outputs=lambda name: {},
            collect_garbage=self.collect_garbage,
            selection=self.operation.selection,
        )
        monitor = Monitor(engine, hooks, PROJECT, self.operation.stack)
        with serve(monitor, log) as address:
            if refresh or mode == "refresh":
                engine.refresh()
            if mode == "refresh":
                return OperationResult(ok=True, text="", declared=0)
            response = run_program(_request(self.operation, mode, address), address)
        problem = monitor.failure or ("" if monitor.finished else "the program failed")
        if monitor.finished and not engine.is_preview:
            state.save()
            problem = state.problem
        text = "\n".join([*log.lines, response.error, problem, *engine.late_errors]).strip()
        return OperationResult(ok=not (problem or engine.late_errors), text=text, declared=len(engine.declared))

    def collect_garbage(self) -> None:
        self.ask(COLLECT_GARBAGE, "")


def _asker(parent: Connection) -> Callable[[str, str], str]:
    lock = threading.Lock()

    def ask(what: str, name: str) -> str:
        with lock:
            parent.send((what, name))
            reply: str = parent.recv()
        if reply == "kill":
            os._exit(KILLED)
        if reply != "go" and reply not in FAULTS:
            raise RequestFailedError(reply)
        return reply

    return ask


def _request(operation: Operation, mode: str, address: str) -> Any:
    file = operation.root / f"Pulumi.{operation.stack}.yaml"
    config = yaml.safe_load(file.read_text())["config"] if file.exists() else {}
    engine_config = {key: value if isinstance(value, str) else json.dumps(value) for key, value in config.items()}
    return language_pb2.RunRequest(
        project=PROJECT,
        stack=operation.stack,
        pwd=str(operation.root),
        program=".",
        config=engine_config,
        dryRun=mode == "preview",
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


def _expect_late_requests() -> None:
    for module in list(sys.modules.values()):
        if module.__name__.startswith("trainstack.") and hasattr(module, "LATE_SECONDS"):
            module.LATE_SECONDS = LATE_SECONDS  # type: ignore[attr-defined]


def _gate_writes(ask: Callable[[str, str], str], network: Network) -> None:
    """What the program itself writes, by its own client, can be interrupted and refused too."""
    handle = httpx.AsyncHTTPTransport.handle_async_request

    async def gated(self: httpx.AsyncHTTPTransport, request: httpx.Request) -> httpx.Response:
        writes = request.method not in ("GET", "HEAD") and "reviews" not in request.url.path
        if not writes or "dryRun" in request.url.params:
            return await handle(self, request)
        name = f"{request.method} {request.url.path}"
        try:
            fault = await asyncio.to_thread(ask, "program writes", name)
        except RequestFailedError as error:
            body = {"kind": "Status", "status": "Failure", "message": str(error), "reason": "Forbidden", "code": 403}
            return httpx.Response(403, json=body, request=request)
        fault = "" if fault == "go" else fault
        network.before(fault, request)
        response = await handle(self, request)
        network.after(fault, request)
        await asyncio.to_thread(ask, "program wrote", name)
        return response

    httpx.AsyncHTTPTransport.handle_async_request = gated  # type: ignore[method-assign]
