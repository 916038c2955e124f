"""kubectl, where bytes have to go in and out of a pod: exec is the one thing that it does best."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from trainstack.cli.console import fail
from trainstack.cli.frozen import frozen
from trainstack.dev.toolchain import tools
from trainstack.dev.toolchain.errors import MissingTool


def program() -> Path:
    """The kubectl that the toolchain built, or the machine's own."""
    try:
        return tools.program("kubectl")
    except MissingTool:
        found = shutil.which("kubectl")
        return Path(found) if found else fail("kubectl is not installed, and `make tools` has not been run")


def command(*words: str, context: str | None = None) -> list[str]:
    """The words of a kubectl call, on the cluster that this command reads."""
    return [str(program()), "--kubeconfig", str(frozen(context)), *words]


def kubectl(
    *words: str,
    context: str | None = None,
    stdin: IO[bytes] | bytes | None = None,
) -> "subprocess.CompletedProcess[bytes]":
    """Run kubectl to its end. The caller judges its exit code."""
    words_ = command(*words, context=context)
    if isinstance(stdin, bytes):
        return subprocess.run(words_, input=stdin, capture_output=True, check=False, env=os.environ)
    return subprocess.run(words_, stdin=stdin, capture_output=True, check=False, env=os.environ)


def exec_words(namespace: str, pod: str, container: str, script: str, *arguments: str) -> Sequence[str]:
    """The words that run a shell script in a pod, its input kept open."""
    return ["exec", "-i", "-n", namespace, pod, "-c", container, "--", "sh", "-c", script, "sh", *arguments]
