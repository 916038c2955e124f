"""The process that deletes a data loader when its command is killed, with real processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from trainstack.files import temporary
from trainstack.files.temporary import secret_file
from trainstack.local_cluster.processes import wait_until
from trainstack.transfer.loader_guard import end_guard, start_guard

ROOT = Path(__file__).resolve().parents[3]
SECONDS = 20.0
COMMAND = """
import os, sys, time
from trainstack.files.temporary import secret_file
from trainstack.transfer.loader_guard import start_guard
if sys.argv[2] == "folder":
    del os.memfd_create
delete = ["sh", "-c", 'cat "$3" >> "$1"', "sh", sys.argv[1]]
guard = start_guard(delete, secret_file(b"a cluster\\n"), pauses=(0, 1))
print(guard.process.pid, flush=True)
time.sleep(1000)
"""


def has_ended(process: int) -> bool:
    """Return whether a process has ended.

    It has no command line then, also before the system's first process reaps it.
    """
    try:
        return not Path(f"/proc/{process}/cmdline").read_bytes()
    except FileNotFoundError:
        return True


@pytest.mark.parametrize("place", ["memory", "folder"])
def test_a_killed_command_has_its_loader_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """SIGKILL of its process group counts too; the guard tries again for a loader created at the last moment.

    Another command between the attempts does not remove the guard's kubeconfig; the next command after the guard does.
    """
    log = tmp_path / "log"
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    words = [sys.executable, "-c", COMMAND, str(log), place]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True, env=environment) as process:
        assert process.stdout is not None
        guard = int(process.stdout.readline())
        assert not log.exists()
        os.killpg(process.pid, signal.SIGKILL)
    temporary.remove_leftovers()
    assert wait_until(lambda: log.exists() and log.read_text() == "a cluster\n" * 2, SECONDS)
    assert wait_until(lambda: has_ended(guard), SECONDS)

    def is_clean() -> bool:
        # Other processes of the killed group, which hold the lock too, may still be ending.
        temporary.remove_leftovers()
        return list(tmp_path.iterdir()) == [log]

    assert wait_until(is_clean, SECONDS)


def test_a_dismissed_guard_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has ended when `dismiss` returns, and its kubeconfig is removed."""
    monkeypatch.delattr(os, "memfd_create", raising=False)
    kubeconfig = secret_file(b"a cluster\n")
    guard = start_guard(["touch", str(tmp_path / "log")], kubeconfig, pauses=(0,))
    end_guard(guard)
    assert guard.process.returncode == 0
    assert not (tmp_path / "log").exists()
    assert not kubeconfig.path.parent.exists()


def test_a_guard_that_has_ended_can_be_dismissed() -> None:
    """Another process may have killed it."""
    guard = start_guard(["true"], secret_file(b""))
    guard.process.kill()
    end_guard(guard)
    assert guard.process.returncode == -signal.SIGKILL
