"""A data loader's guard: a separate shell that deletes the loader if the command that created it is killed.

A process cannot react to SIGKILL, and nothing in the cluster deletes a Job that a queue holds back. The guard waits at
the other end of a pipe, which the kernel closes when the command ends.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path

PAUSES_SECONDS = (0, 5, 60)
"""Pauses before the deletions: if the command is killed while kubectl creates the loader, that kubectl continues."""
_SCRIPT = """kubeconfig=$1 pauses=$2
shift 2
read -r done || for pause in $pauses; do sleep "$pause"; "$@" --kubeconfig "$kubeconfig"; done
rm -f "$kubeconfig"
rmdir "${kubeconfig%/*}"
"""

Guard = subprocess.Popen[bytes]


def set_guard(deletion: Sequence[str], kubeconfig: Path, pauses: Sequence[int] = PAUSES_SECONDS) -> Guard:
    """Start a guard, which runs kubectl's `deletion` if this process ends without dismissing the guard.

    The guard has its own session: ending the command's process group or closing its terminal does not end the guard.
    `kubeconfig` is a copy that outlives this process, alone in a folder; the guard removes both.
    """
    return subprocess.Popen(
        ["sh", "-c", _SCRIPT, "sh", str(kubeconfig), " ".join(map(str, pauses)), *deletion],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def dismiss(guard: Guard) -> None:
    """End the guard of a loader that was deleted or never created."""
    guard.communicate(b"done\n")
