"""Run small system commands."""

import subprocess

from trainstack.dev.cluster.errors import ClusterError

TIMEOUT_SECONDS = 30.0
"""A command of this package that takes longer hangs."""


def run(*argv: str) -> str:
    """Output of a command; an error names the command and what it said."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClusterError(f"`{' '.join(argv)}` failed: {error}") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise ClusterError(f"`{' '.join(argv)}` failed with exit code {done.returncode}: {said}")
    return done.stdout


def succeeds(*argv: str) -> bool:
    """Whether a command ends with 0."""
    try:
        run(*argv)
    except ClusterError:
        return False
    return True
