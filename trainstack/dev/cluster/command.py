"""Run small system commands."""

import subprocess

from trainstack.dev.cluster.errors import ClusterError

TIMEOUT_SECONDS = 30.0
"""A command of this package that takes longer hangs."""


def run(*argv: str) -> str:
    try:
        result = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClusterError(f"`{' '.join(argv)}` failed: {error}") from error
    if result.returncode != 0:
        output = (result.stderr or result.stdout).strip()
        raise ClusterError(f"`{' '.join(argv)}` failed with exit code {result.returncode}: {output}")
    return result.stdout


def succeeds(*argv: str) -> bool:
    try:
        run(*argv)
    except ClusterError:
        return False
    return True
