"""A process is identified by more than its pid."""

import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

from trainstack.local_cluster.processes import ProcessIdentity, StartRecord, children, start_time


def make_run(identity: ProcessIdentity) -> StartRecord:
    """Return a run whose supervisor is a process of the test."""
    return StartRecord(identity, identity, slot=3, started=1000.0)


def test_a_reused_pid_or_another_boot_is_another_process() -> None:
    """The pid in the file may belong to any process after a crash or reboot: it is neither alive nor signalled."""
    own = ProcessIdentity.of(os.getpid())
    assert own is not None
    assert own.is_alive()
    for other in (replace(own, started=own.started + 1), replace(own, boot="another")):
        assert not other.is_alive()
        other.signal(signal.SIGKILL)


def test_a_zombie_is_not_alive() -> None:
    """A child that ended and was not waited for does not run."""
    child = subprocess.Popen(["sleep", "100"])
    identity = ProcessIdentity.of(child.pid)
    assert identity is not None
    assert child.pid in children(os.getpid())
    identity.signal(signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert start_time(child.pid) is None
    assert not identity.is_alive()
    child.wait()


def test_a_run_is_read_from_its_file_and_a_damaged_file_is_ignored(tmp_path: Path) -> None:
    """A crash during the write must not block the next `up`."""
    run, path = make_run(ProcessIdentity(1, 2, "boot")), tmp_path / "run.json"
    assert StartRecord.read(path) is None
    path.write_text(run.to_json())
    assert StartRecord.read(path) == run
    for damaged in ("", "{", "{}", '{"init": {"pid": 1}}', "[]", run.to_json()[:-20]):
        path.write_text(damaged)
        assert StartRecord.read(path) is None
