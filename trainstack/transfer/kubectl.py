"""kubectl, for streams of bytes to and from a pod."""

import subprocess

from trainstack.live.private_kubeconfig import shared_copy
from trainstack.toolchain import tools


def kubectl_command(*arguments: str, context: str | None = None) -> list[str]:
    """Return a kubectl command line. Raises ToolchainError if there is no kubectl."""
    return [str(tools.kubectl()), "--kubeconfig", str(shared_copy(context)), *arguments]


def run_kubectl(
    *arguments: str, context: str | None = None, stdin: bytes | None = None
) -> "subprocess.CompletedProcess[bytes]":
    """Run kubectl; the caller checks the exit code."""
    return subprocess.run(kubectl_command(*arguments, context=context), input=stdin, capture_output=True, check=False)
