"""kubectl calls, for exec and server-side apply."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from trainstack.cli.console import fail
from trainstack.cli.frozen import frozen
from trainstack.dev.toolchain import tools
from trainstack.dev.toolchain.errors import MissingTool


def program() -> Path:
    """Return the kubectl that the toolchain built, else the one on PATH."""
    try:
        return tools.program("kubectl")
    except MissingTool:
        found = shutil.which("kubectl")
        return Path(found) if found else fail("kubectl was not found; install it, or run `make tools`")


def command(*arguments: str, context: str | None = None) -> list[str]:
    return [str(program()), "--kubeconfig", str(frozen(context)), *arguments]


def kubectl(
    *arguments: str, context: str | None = None, stdin: IO[bytes] | bytes | None = None
) -> "subprocess.CompletedProcess[bytes]":
    source: dict[str, Any] = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
    return subprocess.run(
        command(*arguments, context=context), **source, capture_output=True, check=False, env=os.environ
    )


def exec_words(namespace: str, pod: str, container: str, script: str, *arguments: str) -> Sequence[str]:
    """Return the kubectl arguments that run a shell script in a pod, with its stdin open."""
    return ["exec", "-i", "-n", namespace, pod, "-c", container, "--", "sh", "-c", script, "sh", *arguments]
