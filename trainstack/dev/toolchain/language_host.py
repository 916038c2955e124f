"""Pulumi's language host for Python, for machines without the official one.

The engine starts it, reads the port from its first line of output and calls it over gRPC. The official host starts
another process for the program; this one runs the program in its main thread. The output is the same: both run the same
`__main__.py` and report its errors in the same format.
"""

import asyncio
import json
import logging
import os
import queue
import re
import runpy
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import grpc
import pulumi
from google.protobuf import empty_pb2
from pulumi.automation._server import LanguageServer
from pulumi.runtime import reset_options, run_in_stack, set_all_config
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2

_MAX_MESSAGE_BYTES = 400 * 1024 * 1024
"""The engine's own message limit (rpcutil.GrpcChannelOptions); CRDs are large."""

_ORPHAN_CHECK_SECONDS = 2.0
"""Interval of the check that the engine is alive."""


class LanguageHost(LanguageServer):
    """The gRPC server. The SDK's server for inline programs implements the methods not overridden here."""

    def __init__(self, engine_address: str) -> None:
        super().__init__(lambda: None)
        self._engine_address = engine_address
        self.runs: queue.Queue[tuple[Any, Future[Any]]] = queue.Queue()
        """Programs for the main thread, the only one that may set signal handlers."""

    def Handshake(self, request: Any, context: object) -> Any:  # noqa: N802, ARG002  the name is the protocol's
        self._engine_address = request.engine_address or self._engine_address
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: object, context: object) -> Any:  # noqa: N802, ARG002
        return plugin_pb2.PluginInfo(version=metadata.version("pulumi"))

    def GetRequiredPackages(self, request: object, context: object) -> Any:  # noqa: N802, ARG002
        return language_pb2.GetRequiredPackagesResponse(packages=list(required_packages()))

    def InstallDependencies(self, request: Any, context: object) -> Iterator[Any]:  # noqa: N802
        """`pulumi install`: run the script that installs the locked packages."""
        del context
        folder = request.info.program_directory or request.directory
        script = Path(folder) / "trainstack" / "dev" / "toolchain" / "bootstrap.sh"
        if not script.exists():
            yield language_pb2.InstallDependenciesResponse(stdout=b"The program uses the current environment.\n")
            return
        result = subprocess.run([script], cwd=folder, capture_output=True, check=False)
        yield language_pb2.InstallDependenciesResponse(stdout=result.stdout, stderr=result.stderr)
        if result.returncode != 0:
            raise RuntimeError(f"{script} failed with exit code {result.returncode}")

    def RuntimeOptionsPrompts(self, request: object, context: object) -> Any:  # noqa: N802, ARG002
        return language_pb2.RuntimeOptionsResponse()

    def Template(self, request: object, context: object) -> Any:  # noqa: N802, ARG002
        return empty_pb2.Empty()

    def GetProgramDependencies(self, request: Any, context: object) -> Any:  # noqa: N802, ARG002
        """`pulumi about`: return the installed packages; by default only those that no other package requires."""
        hidden = set() if request.transitiveDependencies else set(_dependencies())
        dependencies = [
            language_pb2.DependencyInfo(name=name, version=version)
            for name, version in sorted(_installed().items())
            if name not in hidden
        ]
        return language_pb2.GetProgramDependenciesResponse(dependencies=dependencies)

    def Run(self, request: Any, context: object) -> Any:  # noqa: N802, ARG002
        response: Future[Any] = Future()
        self.runs.put((request, response))
        return response.result()

    def run_program(self, request: Any) -> Any:
        """Run one program to completion, as pulumi-language-python-exec does; report a failure in the response."""
        reset_options(
            project=request.project,
            stack=request.stack,
            root_directory=request.info.root_directory,
            parallel=request.parallel,
            engine_address=self._engine_address,
            monitor_address=request.monitor_address,
            preview=request.dryRun,
            organization=request.organization or "organization",
        )
        set_all_config(dict(request.config), list(request.configSecretKeys))
        program = _program(request)
        sys.argv = [program, *request.args]
        os.chdir(request.pwd or request.info.program_directory)
        # As in the official host: asyncio would report every future that a failed program did not await.
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        executor = ThreadPoolExecutor(max_workers=max(request.parallel, 1) * 4)
        loop.set_default_executor(executor)
        loop.set_exception_handler(self._exception_handler)
        try:
            loop.run_until_complete(run_in_stack(lambda: _execute(program)))
        except BaseException as error:  # noqa: BLE001  whatever a program raises is the program's failure
            return _failure(error, program)
        finally:
            _end_tasks(loop)
            executor.shutdown(wait=True, cancel_futures=True)
            loop.close()
            sys.stdout.flush()
            sys.stderr.flush()
        return language_pb2.RunResponse()


def required_packages() -> Iterator[Any]:
    """Return the provider plugins of the installed packages, as named in their pulumi-plugin.json."""
    for folder in dict.fromkeys(sys.path):
        for description in sorted(Path(folder or ".").glob("*/pulumi-plugin.json")):
            plugin = json.loads(description.read_text())
            if plugin.get("resource"):
                name = plugin.get("name") or description.parent.name.removeprefix("pulumi_")
                version = str(plugin.get("version") or "").removeprefix("v")
                yield plugin_pb2.PackageDependency(
                    name=name, kind="resource", version=f"v{version}", server=plugin.get("server", "")
                )


def traceback_of(error: BaseException, program: str) -> str:
    """Format an error's traceback, starting at the program's first own frame."""
    frames = traceback.extract_tb(error.__traceback__)
    main = str(Path(program).resolve() / "__main__.py") if Path(program).is_dir() else str(Path(program).resolve())
    own = next((index for index, frame in enumerate(frames) if Path(frame.filename).resolve() == Path(main)), 0)
    return "".join(traceback.format_exception(error, limit=own - len(frames) if frames else None))


def _program(request: Any) -> str:
    """Return the program's folder, or its main file if Pulumi.yaml names one."""
    folder = Path(request.info.program_directory or request.pwd)
    return str(folder / (request.info.entry_point or request.program or "."))


def _execute(program: str) -> None:
    if Path(program).is_dir() and not (Path(program) / "__main__.py").exists():
        raise pulumi.RunError(f"unable to find main python program `__main__.py` in `{Path(program).resolve()}`")
    runpy.run_path(program, run_name="__main__")


def _failure(error: BaseException, program: str) -> Any:
    """Report the error to the user, then return a response with `bail` so that the engine does not report it again."""
    if isinstance(error, grpc.RpcError) and error.code() == grpc.StatusCode.UNAVAILABLE:
        # The engine has closed the resource monitor: it has ended the operation and reported why.
        return language_pb2.RunResponse()
    if isinstance(error, SystemExit):
        if error.code in (None, 0):
            return language_pb2.RunResponse()
        code = error.code if isinstance(error.code, int) else 1
        if not isinstance(error.code, int):
            sys.stderr.write(f"{error.code}\n")
        return language_pb2.RunResponse(error=f"Program exited with non-zero exit code: {code}")
    # The message must arrive before the response.
    with suppress(grpc.RpcError):
        if isinstance(error, pulumi.RunError):
            pulumi.log.error(str(error))
        else:
            pulumi.log.error(f"Program failed with an unhandled exception:\n{traceback_of(error, program)}")
    return language_pb2.RunResponse(bail=True)


def _end_tasks(loop: asyncio.AbstractEventLoop) -> None:
    for task in asyncio.all_tasks(loop):
        task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            loop.run_until_complete(task)


def _installed() -> dict[str, str]:
    return {distribution.name: distribution.version for distribution in metadata.distributions()}


def _dependencies() -> Iterator[str]:
    """Yield the names of installed packages that another one requires."""
    normal = {re.sub(r"[-_.]+", "-", name).lower(): name for name in _installed()}
    for distribution in metadata.distributions():
        for requirement in distribution.requires or []:
            if match := re.match(r"[A-Za-z0-9._-]+", requirement):
                yield normal.get(re.sub(r"[-_.]+", "-", match[0]).lower(), "")


def _end_with_engine() -> None:
    """Exit when the engine does: a killed engine cannot stop its plugins."""
    engine = os.getppid()
    pause = threading.Event()
    while not pause.wait(_ORPHAN_CHECK_SECONDS):
        if os.getppid() != engine:
            os._exit(0)


def main() -> None:
    # The engine stops its plugins with SIGINT, and after five seconds by force. They do not receive a Ctrl-C in the
    # terminal: they run in process groups of their own, and the engine stops them once operations in flight finish.
    # Python would run a handler in the main thread only, which may be waiting while another thread gets the signal.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_end_with_engine, daemon=True).start()
    host = LanguageHost(sys.argv[-1])
    options = [(f"grpc.max_{direction}_message_length", _MAX_MESSAGE_BYTES) for direction in ("send", "receive")]
    server = grpc.server(ThreadPoolExecutor(max_workers=4), options=options)
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    while True:
        request, response = host.runs.get()
        try:
            response.set_result(host.run_program(request))
        except Exception as error:  # noqa: BLE001  the host's error, not the program's: the engine shows it
            response.set_exception(error)


if __name__ == "__main__":
    main()
