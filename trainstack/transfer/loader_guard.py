"""A data loader's guard: a separate shell that deletes the loader if the command that created it is killed.

No code of a process runs after SIGKILL, and nothing in a cluster ends a Job that a queue holds back. The guard waits at
the other end of a pipe, which the kernel closes with the command.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path

PAUSES_SECONDS = (0, 5, 60)
"""Before each deletion: when the command is killed while kubectl creates the loader, that kubectl goes on."""
_SCRIPT = """kubeconfig=$1 pauses=$2
shift 2
read -r done || for pause in $pauses; do sleep "$pause"; "$@" --kubeconfig "$kubeconfig"; done
rm -f "$kubeconfig"
rmdir "${kubeconfig%/*}"
"""

Guard = subprocess.Popen[bytes]


def set_guard(delete: Sequence[str], kubeconfig: Path, pauses: Sequence[int] = PAUSES_SECONDS) -> Guard:
    """Start a guard that deletes a loader when this process ends without having dismissed it.

    In a session of its own: what ends the command's process group or closes its terminal does not end the guard.

    Args:
        delete: the words of kubectl that delete the loader.
        kubeconfig: a copy that outlives this process, alone in a folder; the guard removes both.
        pauses: before each deletion, in seconds.

    """
    return subprocess.Popen(
        ["sh", "-c", _SCRIPT, "sh", str(kubeconfig), " ".join(map(str, pauses)), *delete],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def dismiss(guard: Guard) -> None:
    """End a guard whose loader has been deleted, or was never created."""
    guard.communicate(b"done\n")
