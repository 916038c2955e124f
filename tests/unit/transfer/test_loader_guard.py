"""The process that deletes a data loader when its command is killed, with real processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from trainstack.dev.cluster.processes import wait_until
from trainstack.transfer.loader_guard import dismiss, set_guard

ROOT = Path(__file__).resolve().parents[3]
SECONDS = 20.0
COMMAND = """
import sys, time
from pathlib import Path
from trainstack.transfer.loader_guard import set_guard
delete = ["sh", "-c", 'cat "$3" >> "$1"', "sh", sys.argv[1]]
guard = set_guard(delete, Path(sys.argv[2]), pauses=(0, 0))
print(guard.pid, flush=True)
time.sleep(1000)
"""


def make_copy(folder: Path) -> Path:
    """Write a kubeconfig alone in a folder."""
    file = folder / "private" / "kubeconfig"
    file.parent.mkdir()
    file.write_text("a cluster\n")
    return file


def has_ended(process: int) -> bool:
    """Return whether a process has ended.

    It has no command line then, also before the system's first process reaps it.
    """
    try:
        return not Path(f"/proc/{process}/cmdline").read_bytes()
    except FileNotFoundError:
        return True


def test_a_killed_command_has_its_loader_deleted(tmp_path: Path) -> None:
    """SIGKILL of its process group counts too; the guard tries again for a loader created at the last moment."""
    log, kubeconfig = tmp_path / "log", make_copy(tmp_path)
    words = [sys.executable, "-c", COMMAND, str(log), str(kubeconfig)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        guard = int(process.stdout.readline())
        assert not log.exists()
        os.killpg(process.pid, signal.SIGKILL)
    assert wait_until(lambda: log.exists() and log.read_text() == "a cluster\n" * 2, SECONDS)
    assert wait_until(lambda: has_ended(guard), SECONDS)
    assert not kubeconfig.parent.exists()


def test_a_dismissed_guard_does_nothing(tmp_path: Path) -> None:
    """It has ended when `dismiss` returns, and its kubeconfig is removed."""
    kubeconfig = make_copy(tmp_path)
    guard = set_guard(["touch", str(tmp_path / "log")], kubeconfig, pauses=(0,))
    dismiss(guard)
    assert guard.returncode == 0
    assert not (tmp_path / "log").exists()
    assert not kubeconfig.parent.exists()


def test_a_guard_that_has_ended_can_be_dismissed(tmp_path: Path) -> None:
    """Another process may have killed it."""
    guard = set_guard(["true"], make_copy(tmp_path))
    guard.kill()
    dismiss(guard)
    assert guard.returncode == -signal.SIGKILL
