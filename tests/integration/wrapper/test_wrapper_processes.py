"""The processes below the wrapper: they are ended before the record is completed, reaped, and get stop signals."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.wrapper.pods import (
    DEADLINE_SECONDS,
    HEAD,
    RUN_ID,
    WRAPPER,
    WRITE_RESULT,
    command,
    pod,
    published,
    python,
    read_json,
    read_until,
    run,
    wait_until,
)
from trainstack.runs.wrapper import run as wrapper

WRITER = """
import os, signal, sys, time
{first}
log = open(sys.argv[1], "a", buffering=1)
while True:
    log.write("line\\n")
    print("line", flush=True)
    time.sleep(0.002)
"""
"""A program that writes to a file and to its output until it is killed."""
STUBBORN = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork():
    signal.signal(signal.SIGTERM, lambda *_: os.fork() and sys.exit())
"""
"""The beginning of a program that ignores SIGTERM, and of one that continues as another process."""


@pytest.fixture(autouse=True)
def default_signals() -> Iterator[None]:
    """Let signals have their default effect, as in a container: a background job, as of `nohup`, ignores some."""
    numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
    before = {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        if handler is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("how", ["background", "own session", "daemon", "stubborn"])
def test_what_the_command_left_running_is_ended_before_its_files_are_hashed(tmp_path: Path, how: str) -> None:
    """The record has all that it wrote, also in the log, and no process of the command exists afterwards."""
    writer = WRITER.format(first=STUBBORN if how == "stubborn" else "")
    start = f"subprocess.Popen([sys.executable, '-S', '-E', '-c', {writer!r}, output + '/log'])"
    if how == "own session":
        start = f"{start[:-1]}, start_new_session=True)"
    if how == "daemon":
        start = f"os.fork() or (os.setsid(), os.fork() or (os.environ.clear(), {start}), os._exit(0))"
    wait = "while not os.path.exists(output + '/log'): time.sleep(0.01)"
    exit_code, output = run(tmp_path, command(f"{start}\n{wait}"))
    assert exit_code == 0, output
    assert "has left processes running" in output
    record = tmp_path / RUN_ID
    before = published(record), (record / "logs" / "rank-0.pod-a-1.log").read_bytes()
    assert all(text.startswith(b"line\n") for text in (before[0]["log"], before[1]))
    assert not processes_with(str(record))
    assert (published(record), (record / "logs" / "rank-0.pod-a-1.log").read_bytes()) == before


def test_a_process_that_does_not_end_fails_the_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may still write: a disk that does not answer holds it, for example. The failure has its name and number."""
    monkeypatch.setattr(wrapper, "adopt_orphans", lambda: None)  # of this test's process
    monkeypatch.setattr(wrapper, "KILL_TIMEOUT_SECONDS", 0)
    monkeypatch.setattr(wrapper, "LEFTOVER_EXIT_SECONDS", 0)
    monkeypatch.setattr(wrapper, "LEFTOVER_GRACE_SECONDS", 0)
    monkeypatch.setattr(wrapper, "reap_orphans", lambda _=0: True)
    monkeypatch.setattr(wrapper, "descendants", lambda: {2**22 + 1: "dd"})
    settings = wrapper.WrapperSettings({"TRAINSTACK_RUN_ID": RUN_ID, "TRAINSTACK_RECORD": str(tmp_path), "PATH": ""})
    record = tmp_path / RUN_ID
    with pytest.raises(wrapper.WrapperError, match=r"do not end: 'dd' \(4194305\)") as caught:
        wrapper.run_rank_0(settings, record, python(WRITE_RESULT))
    assert caught.value.code == 65
    assert "'dd'" in read_json(next(record.glob("attempts/*/failure.json")))["last_lines"][-1]
    assert not (record / "result").exists()


def processes_with(text: str) -> list[str]:
    """Return the command lines with this text of all processes but this one."""
    lines = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if text in line and folder.name != str(os.getpid()):
            lines.append(line)
    return lines


def test_a_process_that_ends_by_itself_completes_its_file(tmp_path: Path) -> None:
    """A writer that outlives the command by a moment is not cut off."""
    writer = "import sys, time; time.sleep(0.3); open(sys.argv[1], 'w').write('whole')"
    start = f"subprocess.Popen([sys.executable, '-S', '-E', '-c', {writer!r}, output + '/model'])"
    code, output = run(tmp_path, command(start))
    assert (code, "left" in output) == (0, False)
    assert published(tmp_path / RUN_ID) == {"model": b"whole"}


CHECKPOINT = """
def stop(number, _):
    time.sleep(0.2)
    write(f"{checkpoints}/state", str(number))
    sys.exit(0)
for name in sys.argv[1:]:
    signal.signal(int(name), stop)
print("re" + "ady", flush=True)
time.sleep(60)
"""
"""A program that writes a checkpoint on each of these signals. The wrapper prints its text, so that has no `ready`."""
TERM, INT, USR1 = signal.SIGTERM, signal.SIGINT, signal.SIGUSR1


@pytest.mark.parametrize(
    ("sent", "handled", "received"),
    [
        (INT, [TERM], TERM),
        (INT, [INT], INT),
        (INT, [INT, TERM], TERM),
        (USR1, [TERM], TERM),
        (USR1, [USR1, TERM], USR1),
        (signal.SIGQUIT, [signal.SIGQUIT], signal.SIGQUIT),
        (signal.SIGHUP, [TERM], TERM),
        (signal.SIGRTMIN + 3, [TERM], TERM),
        (signal.SIGPWR, [signal.SIGPWR], signal.SIGPWR),
        (TERM, [TERM], TERM),
    ],
)
def test_every_stop_signal_leads_to_a_checkpoint(tmp_path: Path, sent: int, handled: list[int], received: int) -> None:
    """An image may have any STOPSIGNAL. The run has not finished; the next pod resumes at once."""
    program = python(f"import signal\n{HEAD}{CHECKPOINT}", *map(str, map(int, handled)))
    with pod(tmp_path, program) as process:
        read_until(process, "ready")
        process.send_signal(sent)
        assert process.wait(DEADLINE_SECONDS) == 143
    record = tmp_path / RUN_ID
    assert (record / "checkpoints" / "state").read_text() == str(int(received))
    assert read_json(record / "attempts" / "pod-a-1" / "failure.json")["stopped_by_sigterm"] is True
    show = f"{WRITE_RESULT}; print('resume', os.environ['TRAINSTACK_RESUME'])"
    code, output = run(tmp_path, python(show), name="pod-b", TRAINSTACK_STALE_SECONDS="1000")
    assert (code, "\nresume 1\n" in output) == (0, True)


def test_the_program_of_a_shell_writes_its_checkpoint(tmp_path: Path) -> None:
    """The shell ends at once on SIGTERM; its child gets the signal then, and the time to handle it."""
    program = python(f"import signal\n{HEAD}{CHECKPOINT}", str(int(TERM)))
    with pod(tmp_path, ["sh", "-c", '"$@"; echo ended', "sh", *program]) as process:
        read_until(process, "ready")
        process.send_signal(TERM)
        assert process.wait(DEADLINE_SECONDS) == 143
    assert (tmp_path / RUN_ID / "checkpoints" / "state").read_text() == str(int(TERM))


def test_a_stop_signal_before_the_command_runs(tmp_path: Path) -> None:
    """The pod waits for its data; the command does not start."""
    data = '{"path": "/nowhere", "manifest": "0"}'
    with pod(tmp_path, python("print('ran')"), TRAINSTACK_DATA=data) as process:
        read_until(process, "waiting for data")
        process.send_signal(USR1)
        output = process.communicate(timeout=DEADLINE_SECONDS)[0]
    assert (process.returncode, "stopped by SIGUSR1 before" in output) == (143, True)


@contextmanager
def process_1(record: Path, program: list[str]) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Start a wrapper as process 1 of a container; yield its parent and its number."""
    if os.getuid() or shutil.which("unshare") is None:
        pytest.skip("needs root and unshare")
    process = subprocess.Popen(
        ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-S", WRAPPER, "--", *program],
        env={"PATH": os.environ["PATH"], "TRAINSTACK_RUN_ID": RUN_ID, "TRAINSTACK_RECORD": str(record)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        wait_until(lambda: process.poll() is not None or children.read_text().split())
        yield process, int(children.read_text().split()[0])
    finally:
        process.kill()
        process.communicate(timeout=DEADLINE_SECONDS)


def test_process_1_reaps_orphans_and_passes_signals_on(tmp_path: Path) -> None:
    """The kernel gives it all orphans of its container, and discards signals that it does not handle."""
    orphans = "for _ in range(20): os.fork() or (os.fork(), os._exit(0))\nfor _ in range(20): os.wait()\n"
    program = python(f"import signal\n{HEAD}{orphans}{CHECKPOINT}", str(int(TERM)))
    with process_1(tmp_path, program) as (process, wrapper):
        read_until(process, "ready")
        wait_until(lambda: len(children_of(wrapper)) == 1)
        os.kill(wrapper, signal.SIGINT)
        assert process.wait(DEADLINE_SECONDS) == 143
    assert (tmp_path / RUN_ID / "checkpoints" / "state").read_text() == str(int(TERM))


def children_of(process: int) -> list[str]:
    """Return the children of a process, ended ones too."""
    return Path(f"/proc/{process}/task/{process}/children").read_text().split()


def test_an_exit_code_counts_where_the_parent_ignores_ended_children(tmp_path: Path) -> None:
    """The kernel would discard it, and a failed command would count as a success."""
    ignoring = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    )
    done = subprocess.run(
        [*python(ignoring), sys.executable, "-S", WRAPPER, "--", *python("raise SystemExit(3)")],
        env={"PATH": os.environ["PATH"], "TRAINSTACK_RUN_ID": RUN_ID, "TRAINSTACK_RECORD": str(tmp_path)},
        check=False,
    )
    assert done.returncode == 3
    assert not (tmp_path / RUN_ID / "_SUCCESS").exists()
