"""Two fetches into one folder."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.unit.transfer.volume import LOADER, make_volume, write
from trainstack.cli.transfers import TerminalProgress
from trainstack.transfer import folder_lock
from trainstack.transfer.fetch import fetch
from trainstack.transfer.folder_lock import lock_folder

HOLD = (
    "import sys; from pathlib import Path; from trainstack.cli.transfers import TerminalProgress\n"
    "from trainstack.transfer.folder_lock import lock_folder\n"
    "with lock_folder(Path(sys.argv[1]), TerminalProgress()):\n"
)
HOLD += "    print('held', flush=True); sys.stdin.read()"


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a condition that is met within seconds."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_second_fetch_waits_for_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names the process that it waits for, and fetches what the first one did not."""
    monkeypatch.setattr(folder_lock, "_QUIET_SECONDS", 0)
    volume = make_volume(tmp_path, monkeypatch)
    folder = write(volume.root / "data", {"a": "x", "b": "y"})
    started, proceed = tmp_path / "going", tmp_path / "go"
    wait = f": > {started}; while [ ! -e {proceed} ]; do sleep 0.05; done"
    volume.set_fetch(f'[ -e {started} ] || {{ {wait}; }}; pod "$@"')
    target = tmp_path / "target"
    with ThreadPoolExecutor(2) as pool:
        try:
            first = pool.submit(fetch, LOADER, "data", target)
            wait_until(started.exists)
            second = pool.submit(fetch, LOADER, "data", target)
            stderr = ""

            def waiting() -> bool:
                nonlocal stderr
                stderr += capsys.readouterr().err
                return "waiting for" in stderr

            wait_until(waiting)
            assert not second.done()
            write(folder, {"c": "new"})
        finally:
            proceed.touch()
        assert first.result().changed == ("c",)
        assert (second.result().sent, second.result().changed) == (1, ())
    assert f"waiting for process {os.getpid()} (" in stderr
    assert f"which is also fetching into {str(target)!r}" in stderr
    assert sorted(path.name for path in target.iterdir()) == ["a", "b", "c"]


def test_a_killed_command_holds_nothing(tmp_path: Path) -> None:
    """It also leaves no lock file."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        taken: list[bool] = []

        def take() -> None:
            with lock_folder(tmp_path, TerminalProgress()) as waited:
                taken.append(waited)

        thread = threading.Thread(target=take)
        thread.start()
        holder.send_signal(signal.SIGKILL)
        thread.join(60)
    assert len(taken) == 1
    assert list(tmp_path.iterdir()) == []
    with lock_folder(tmp_path, TerminalProgress()) as waited:
        assert not waited
