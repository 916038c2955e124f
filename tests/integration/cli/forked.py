"""Run commands in forks of one process, each with its own standard streams.

The cases are read from stdin as JSON: `[words, stdout, stderr]`, where a stream is `kept`, `full`, `closed` or `left`,
which is a pipe whose reader has left. The results are printed as JSON: `[exit code, stdout, stderr]`, as far as they
are kept. With the argument `--full-disk`, no command can write to a file.
"""

import json
import os
import resource
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

from trainstack.cli.app import COMMANDS, main
from trainstack.local_cluster import cluster as local_cluster
from trainstack.local_cluster.errors import LocalClusterError
from trainstack.toolchain import tools
from trainstack.toolchain.errors import ToolchainError


def absent(*_: object, **__: object) -> None:
    """Fail as without the tools."""
    raise ToolchainError("the tools are not built")


def stopped(*_: object, **__: object) -> None:
    """Fail as where the local cluster cannot run."""
    raise LocalClusterError("the local cluster cannot be made here")


def redirect(descriptor: int, place: str, pipe: tuple[int, int]) -> None:
    """Replace a standard stream."""
    if place == "closed":
        os.close(descriptor)
    else:
        os.dup2(os.open("/dev/full", os.O_WRONLY) if place == "full" else pipe[1], descriptor)
    os.close(pipe[1])


def end_of(words: list[str], places: list[str]) -> tuple[int, str, str]:
    """Run a command in a fork; return its exit code and what is kept of its output."""
    pipes = [os.pipe(), os.pipe()]
    for place, (reader, _) in zip(places, pipes, strict=True):
        os.set_inheritable(reader, False)
        if place == "left":
            os.close(reader)
    process = os.fork()
    if not process:
        start(words, places, pipes)
    for _, writer in pipes:
        os.close(writer)
    kept = ["" if place == "left" else read(reader) for place, (reader, _) in zip(places, pipes, strict=True)]
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), kept[0], kept[1]


def read(reader: int) -> str:
    """Read a pipe to its end."""
    with os.fdopen(reader, encoding="utf-8", errors="replace") as stream:
        return stream.read()


def start(words: list[str], places: list[str], pipes: list[tuple[int, int]]) -> NoReturn:
    """Run the command as it runs after a start with these streams."""
    for descriptor, place in enumerate(places, start=1):
        redirect(descriptor, place, pipes[descriptor - 1])
    sys.stdout = sys.__stdout__ if places[0] != "closed" else None
    sys.stderr = sys.__stderr__ if places[1] != "closed" else None
    sys.argv = ["trainstack", *words]
    try:
        main()
    except SystemExit as ended:
        leave(ended.code)
    except BaseException:  # noqa: BLE001 (a fork must not go on)
        with suppress(Exception):
            traceback.print_exc()
    leave(1)


def leave(code: int | str | None) -> NoReturn:
    """End a fork as the interpreter does, which takes half a second to free all modules."""
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except Exception:  # noqa: BLE001 (whatever it is)
        os._exit(120)
    os._exit(int(code or 0))


if __name__ == "__main__":
    for missing in ("ensure", "engine", "program"):
        setattr(tools, missing, absent)
    for change in ("up", "down"):
        setattr(local_cluster, change, stopped)
    for command in COMMANDS:
        # Each fork would import it.
        import_module(f"trainstack.cli.commands.{COMMANDS[command][0]}")
    cases = json.load(sys.stdin)
    if "--full-disk" in sys.argv:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    json.dump([end_of(words, places) for words, *places in cases], sys.stdout)
