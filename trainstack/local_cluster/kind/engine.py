"""The container engine that runs a kind cluster: docker, podman or nerdctl."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from trainstack.local_cluster.command import execute
from trainstack.local_cluster.errors import LocalClusterError

EngineName = Literal["docker", "nerdctl", "podman"]
ENGINE_NAMES: tuple[EngineName, ...] = get_args(EngineName)
"""The supported engines, in the order in which kind searches for them."""
PROVIDER_VARIABLE = "KIND_EXPERIMENTAL_PROVIDER"
"""kind's variable for the engine. Without it, kind uses the first program on PATH, even if its engine is stopped."""
TIMEOUT_SECONDS = 60.0
"""Timeout of commands that download nothing."""
_DELEGATION_REMEDY = (
    "delegate the cgroup controllers to your account: put `Delegate=yes` below `[Service]` into "
    "/etc/systemd/system/user@.service.d/delegate.conf, run `sudo systemctl daemon-reload`, and log in again"
)


@dataclass(frozen=True)
class Container:
    """A container of an engine."""

    id: str
    running: bool
    pid: int
    """0 unless the container runs."""
    exit_code: int


@dataclass(frozen=True)
class ContainerEngine:
    """A container engine. Its methods raise LocalClusterError with the engine's message."""

    name: EngineName

    def environment(self) -> Mapping[str, str]:
        """Return the variables with which kind uses this engine."""
        return {**os.environ, PROVIDER_VARIABLE: self.name}

    def run(self, *arguments: str, timeout_seconds: float | None = TIMEOUT_SECONDS) -> str:
        """Run a command of the engine; return its output. `timeout_seconds` None is no timeout."""
        result = execute([self.name, *arguments], timeout_seconds)
        if result.returncode != 0:
            raise LocalClusterError(
                f"`{self.name} {' '.join(arguments)}` failed: {_last_output_line(result)}", _remedy(result)
            )
        return result.stdout

    def container(self, name: str) -> Container | None:
        """Return a container; None if it does not exist."""
        result = execute([self.name, "container", "inspect", name], TIMEOUT_SECONDS)
        if result.returncode != 0:
            if "no such" in _last_output_line(result).lower():
                return None
            raise LocalClusterError(f"`{self.name} container inspect {name}` failed: {_last_output_line(result)}")
        inspection = json.loads(result.stdout)[0]
        state = inspection["State"]
        return Container(
            inspection["Id"], state["Status"] == "running", int(state.get("Pid", 0)), int(state.get("ExitCode", 0))
        )

    def has_image(self, name: str) -> bool:
        return execute([self.name, "image", "inspect", name], TIMEOUT_SECONDS).returncode == 0


def installed_engines() -> list[ContainerEngine]:
    """Return the engines on PATH, or the one in kind's variable, without a check whether they respond."""
    chosen_name = os.environ.get(PROVIDER_VARIABLE, "")
    if chosen_name and chosen_name not in ENGINE_NAMES:
        raise LocalClusterError(
            f"{PROVIDER_VARIABLE} is {chosen_name!r}, which is not supported", f"set it to {', '.join(ENGINE_NAMES)}"
        )
    return [ContainerEngine(name) for name in ENGINE_NAMES if chosen_name in ("", name) and shutil.which(name)]


def find_engine(name: str = "") -> ContainerEngine:
    """Return the first engine that can run kind; with `name`, only the engine of that name qualifies.

    Raises LocalClusterError with the problem of each engine.
    """
    engines = [engine for engine in installed_engines() if name in ("", engine.name)]
    if not engines:
        missing = name or " or ".join(ENGINE_NAMES)
        raise LocalClusterError(f"No container engine for kind: {missing} is not on PATH", "install one of them")
    problems = []
    for engine in engines:
        try:
            problem = next(_engine_problems(engine), "")
        except LocalClusterError as error:  # it hangs, or cannot be started
            problem = str(error)
        if not problem:
            return engine
        problems.append(problem)
    raise LocalClusterError("\n  - ".join(["No container engine can run kind:", *problems]))


def _engine_problems(engine: ContainerEngine) -> Iterator[str]:
    """Yield why an engine cannot run kind."""
    version = execute([engine.name, "-v"], TIMEOUT_SECONDS)
    if not version.stdout.lower().startswith(f"{engine.name} version"):
        # For example a `docker` that runs podman, which kind would not use either.
        yield f"{engine.name} on PATH is another program: `{engine.name} -v` prints {version.stdout.strip()!r}"
        return
    info = execute(
        [engine.name, "info", "--format", "json" if engine.name == "podman" else "{{json .}}"], TIMEOUT_SECONDS
    )
    if info.returncode != 0:
        yield f"{engine.name} does not respond ({_last_output_line(info)}); {_start_advice(engine, info)}"
        return
    yield from rootless_problems(engine.name, json.loads(info.stdout))


def rootless_problems(engine: EngineName, info: Mapping[str, Any]) -> Iterator[str]:
    """Yield why a rootless engine cannot run kind, which requires cgroup v2 with delegated controllers.

    `info` is the parsed output of the engine's `info` command.
    """
    if engine == "podman":
        host = info["host"]
        rootless, version = host.get("security", {}).get("rootless", False), host.get("cgroupVersion", "")
        delegated = {"cpu", "memory", "pids"} <= {*(host.get("cgroupControllers") or ())}
    else:
        rootless = any("name=rootless" in option for option in info.get("SecurityOptions") or ())
        version = f"v{info.get('CgroupVersion', '')}"
        delegated = all(info.get(name) for name in ("MemoryLimit", "PidsLimit", "CPUShares"))
    if rootless and version != "v2":
        yield f"{engine} is rootless, for which kind requires cgroup v2; boot with it, or use the engine as root"
    elif rootless and not delegated:
        yield f"{engine} is rootless and may not limit cpu, memory and pids; {_DELEGATION_REMEDY}"


def _start_advice(engine: ContainerEngine, info: "subprocess.CompletedProcess[str]") -> str:
    if "permission denied" in _last_output_line(info).lower():
        return f"give your account access to it (group {engine.name}), or use a rootless engine"
    return f"start it, for example with `sudo systemctl start {engine.name}`"


def _remedy(result: "subprocess.CompletedProcess[str]") -> str:
    output = _last_output_line(result).lower()
    if "already allocated" in output or "already in use" in output:
        return (
            "another program uses a port of this cluster: stop it, or recreate the cluster on other ports with "
            "`trainstack cluster reset`"
        )
    return ""


def _last_output_line(result: "subprocess.CompletedProcess[str]") -> str:
    """Return the last line of a failed command's output, which has the cause."""
    lines = (result.stderr.strip() or result.stdout.strip()).splitlines()
    return lines[-1] if lines else f"exit code {result.returncode}"
