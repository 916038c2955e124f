"""System commands."""

import subprocess
from collections.abc import Mapping, Sequence

from trainstack.local_cluster.errors import LocalClusterError

TIMEOUT_SECONDS = 30.0
"""Timeout of the commands of this package, which are all short."""


def execute(
    command: Sequence[str], timeout_seconds: float | None, environment: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run a command; return its exit code and output.

    Raises LocalClusterError if it cannot be started, or exceeds `timeout_seconds`; None is no timeout.
    """
    try:
        return subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            check=False, timeout=timeout_seconds,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LocalClusterError(f"`{' '.join(command)}` failed: {error}") from error


def run(*argv: str) -> str:
    """Run a short command, and return its output. Raises LocalClusterError if it fails."""
    result = execute(argv, TIMEOUT_SECONDS)
    if result.returncode != 0:
        output = (result.stderr or result.stdout).strip()
        raise LocalClusterError(f"`{' '.join(argv)}` failed with exit code {result.returncode}: {output}")
    return result.stdout


def succeeds(*argv: str) -> bool:
    try:
        run(*argv)
    except LocalClusterError:
        return False
    return True
