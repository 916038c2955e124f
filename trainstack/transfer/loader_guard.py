"""A data loader's guard: a separate shell that deletes the loader if the command that created it is killed.

A process cannot react to SIGKILL, and nothing in the cluster deletes a Job that a queue holds back. The guard reads
from a pipe, which the kernel closes when the command ends.
"""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from trainstack.files.temporary import SecretFile

PAUSES_SECONDS = (0, 5, 60)
"""Pauses before three deletions: a kubectl that creates the loader outlives the command that started it."""
_SCRIPT = """pauses=$1
shift
read -r done || for pause in $pauses; do sleep "$pause"; "$@"; done
"""


@dataclass(frozen=True)
class LoaderGuard:
    """A running guard."""

    process: subprocess.Popen[bytes]
    kubeconfig: SecretFile


def start_guard(deletion: Sequence[str], kubeconfig: SecretFile, pauses: Sequence[int] = PAUSES_SECONDS) -> LoaderGuard:
    """Start a guard, which runs the `deletion` by kubectl if this process ends before `end_guard`.

    The guard has its own session: ending the command's process group or closing its terminal does not end the guard.
    `kubeconfig`: a copy for the guard alone, whose descriptor it inherits.
    """
    command = [*deletion, "--kubeconfig", str(kubeconfig.inherited_path)]
    process = subprocess.Popen(
        ["sh", "-c", _SCRIPT, "sh", " ".join(map(str, pauses)), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        pass_fds=[kubeconfig.descriptor],
    )
    return LoaderGuard(process, kubeconfig)


def end_guard(guard: LoaderGuard) -> None:
    """End the guard of a loader that was deleted or never created."""
    guard.process.communicate(b"done\n")
    guard.kubeconfig.close()
