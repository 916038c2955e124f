"""Pulumi's language host for Python, for machines without the official one.

The engine starts it, reads the port from its first line of output and calls it over gRPC. The official host starts
another process for the program; this one runs the program in its main thread. The output is the same: both run the same
`__main__.py` and report its errors in the same format.

For most commands the engine starts two hosts, and requests only facts about the project from the first one. The SDK is
therefore imported only when a program runs (`program_run`).
"""

import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import empty_pb2

from trainstack.toolchain.protocol import language_pb2, language_pb2_grpc, plugin_pb2

_MAX_MESSAGE_BYTES = 400 * 1024 * 1024
"""The engine's own message limit (rpcutil.GrpcChannelOptions); CRDs are large."""

_ORPHAN_CHECK_SECONDS = 2.0
"""Interval of the check that the engine is alive."""


class LanguageHost(language_pb2_grpc.LanguageRuntimeServicer):
    """The gRPC server."""

    def __init__(self, engine_address: str) -> None:
        self.engine_address = engine_address
        self.runs: queue.Queue[tuple[Any, Future[Any]]] = queue.Queue()
        """Programs for the main thread, the only one that may set signal handlers."""

    def Handshake(self, request: Any, context: object) -> Any:  # noqa: N802, ARG002  the name is the protocol's
        self.engine_address = request.engine_address or self.engine_address
        return language_pb2.LanguageHandshakeResponse()

    def About(self, request: object, context: object) -> Any:  # noqa: N802, ARG002
        return language_pb2.AboutResponse(executable=sys.executable, version=".".join(map(str, sys.version_info[:3])))

    def GetPluginInfo(self, request: object, context: object) -> Any:  # noqa: N802, ARG002
        return plugin_pb2.PluginInfo(version=metadata.version("pulumi"))

    def GetRequiredPackages(self, request: object, context: object) -> Any:  # noqa: N802, ARG002
        return language_pb2.GetRequiredPackagesResponse(packages=list(required_packages()))

    def InstallDependencies(self, request: Any, context: object) -> Iterator[Any]:  # noqa: N802
        """Run the script that installs the locked packages, for `pulumi install`."""
        del context
        folder = request.info.program_directory or request.directory
        script = Path(folder) / "trainstack" / "toolchain" / "bootstrap.sh"
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
        """Return the installed packages, by default those that no other package requires, for `pulumi about`."""
        hidden = set() if request.transitiveDependencies else set(_required_names())
        dependencies = [
            language_pb2.DependencyInfo(name=name, version=version)
            for name, version in sorted(_installed_versions().items())
            if name not in hidden
        ]
        return language_pb2.GetProgramDependenciesResponse(dependencies=dependencies)

    def Run(self, request: Any, context: object) -> Any:  # noqa: N802, ARG002
        response: Future[Any] = Future()
        self.runs.put((request, response))
        return response.result()


def required_packages() -> Iterator[Any]:
    """Yield the provider plugins of the installed packages, as their pulumi-plugin.json names them."""
    for folder in dict.fromkeys(sys.path):
        for description in sorted(Path(folder or ".").glob("*/pulumi-plugin.json")):
            plugin = json.loads(description.read_text())
            if plugin.get("resource"):
                name = plugin.get("name") or description.parent.name.removeprefix("pulumi_")
                version = str(plugin.get("version") or "").removeprefix("v")
                yield plugin_pb2.PackageDependency(
                    name=name, kind="resource", version=f"v{version}", server=plugin.get("server", "")
                )


def _installed_versions() -> dict[str, str]:
    return {distribution.name: distribution.version for distribution in metadata.distributions()}


def _required_names() -> Iterator[str]:
    """Yield the names of installed packages that another one requires."""
    names_by_normalized = {re.sub(r"[-_.]+", "-", name).lower(): name for name in _installed_versions()}
    for distribution in metadata.distributions():
        for requirement in distribution.requires or []:
            if match := re.match(r"[A-Za-z0-9._-]+", requirement):
                yield names_by_normalized.get(re.sub(r"[-_.]+", "-", match[0]).lower(), "")


def _exit_with_engine() -> None:
    """Exit when the engine has ended: a killed engine cannot stop its plugins."""
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
    threading.Thread(target=_exit_with_engine, daemon=True).start()
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
            from trainstack.toolchain.program_run import run_program  # noqa: PLC0415 (imports the SDK)

            response.set_result(run_program(request, host.engine_address))
        except Exception as error:  # noqa: BLE001  the host's error, not the program's: the engine shows it
            # The response has only the message, for example of an SDK that cannot be imported.
            traceback.print_exc()
            response.set_exception(error)


if __name__ == "__main__":
    main()
