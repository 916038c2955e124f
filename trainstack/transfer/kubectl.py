"""kubectl, for streams of bytes to and from a pod."""

import shutil
import subprocess
from pathlib import Path

from trainstack.dev.toolchain import tools
from trainstack.dev.toolchain.errors import MissingTool, ToolchainError
from trainstack.live.private_kubeconfig import shared_copy


def program() -> Path:
    """Return the kubectl that the toolchain built, or the one on the PATH. Raises ToolchainError."""
    try:
        return tools.program("kubectl")
    except MissingTool:
        found = shutil.which("kubectl")
        if found is None:
            raise ToolchainError("kubectl is not installed; install it, or run `trainstack dev tools`") from None
        return Path(found)


def kubectl_command(*arguments: str, context: str | None = None) -> list[str]:
    return [str(program()), "--kubeconfig", str(shared_copy(context)), *arguments]


def kubectl(
    *arguments: str, context: str | None = None, stdin: bytes | None = None
) -> "subprocess.CompletedProcess[bytes]":
    """Run kubectl; the caller checks the exit code."""
    return subprocess.run(kubectl_command(*arguments, context=context), input=stdin, capture_output=True, check=False)
