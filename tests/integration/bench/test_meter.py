"""The meter's view of a command and its processes."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from bench import meter
from bench.audit import USER, counted
from bench.case import Arm
from bench.meter import BenchError, Tree, descendants, measure, program_name
from tests.unit.bench.make import make_command

SPIN = "import time\nwhile time.process_time() < 0.3: pass\n"
MEMORY = "import time\nheld = bytearray(b'x') * (64 << 20)\ntime.sleep(0.3)\n"


def test_processor_time_of_child_processes_counts() -> None:
    """The command itself only waits."""
    sample = measure(Arm(name="a", command=make_command(f"import subprocess, sys\n{_child(SPIN)}")))
    assert 0.3 <= sample.cpu < 2
    assert sample.wall_seconds >= 0.3


def test_memory_of_child_processes_counts() -> None:
    """Both processes are counted."""
    sample = measure(Arm(name="a", command=make_command(f"import subprocess, sys\n{MEMORY}\n{_child(MEMORY)}")))
    assert sample.peak_bytes is not None
    assert 128 << 20 < sample.peak_bytes < 256 << 20


def _child(program: str) -> str:
    return f"subprocess.run([sys.executable, '-c', {program!r}], check=True)\n"


def test_a_command_that_fails_is_no_measurement() -> None:
    """The message has the command's output."""
    with pytest.raises(BenchError, match=r"exited with 3:\nreason"):
        measure(Arm(name="a", command=make_command("print('reason'); raise SystemExit(3)")))


def test_a_command_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would keep the benchmark and its cluster forever."""
    monkeypatch.setattr(meter, "DEADLINE_SECONDS", 0.1)
    with pytest.raises(BenchError, match=r"did not end within 0\.1 s"):
        measure(Arm(name="a", command=make_command("import time; time.sleep(600)")))


def test_a_program_may_report_its_own_seconds() -> None:
    """They are in the last line; without it the measurement fails."""
    line = json.dumps({"wall_seconds": 7, "cpu_seconds": 5})
    sample = measure(Arm(name="a", command=make_command(f"print('x'); print({line!r})"), reports=True))
    assert (sample.wall_seconds, sample.cpu, sample.peak_bytes) == (7, 5, None)
    with pytest.raises(BenchError, match="printed no seconds"):
        measure(Arm(name="a", command=make_command("print('x')"), reports=True))


def test_output_may_show_that_something_else_was_measured() -> None:
    """An example is an update that first builds an image."""

    def check(output: str) -> None:
        if "built" in output:
            raise BenchError(output)

    measure(Arm(name="a", command=make_command("print('found')"), check=check))
    with pytest.raises(BenchError, match="built"):
        measure(Arm(name="a", command=make_command("print('built')"), check=check))


def test_the_wait_for_the_effect_counts_as_wall_time(tmp_path: Path) -> None:
    """The state is measured afterwards."""
    state = tmp_path / "state"

    def until() -> None:
        subprocess.run(["sleep", "0.2"], check=True)
        state.write_text("12345")

    sample = measure(Arm(name="a", command=make_command("pass"), until=until, state=state))
    assert sample.wall_seconds >= 0.2
    assert sample.state_bytes == 5


def test_an_observation_has_the_time_of_other_processes() -> None:
    """Here it is that of this process, while the command runs."""
    spun: list[float] = []

    def until() -> None:
        began = os.times().user
        while os.times().user < began + 0.2:
            spun.append(0.0)

    sample = measure(Arm(name="a", command=make_command("pass"), until=until, members=lambda: {os.getpid()}))
    assert 0.15 <= sample.cpu < 1


def test_descendants_are_found_in_any_order() -> None:
    """Process 5 is the parent of 2, which is the parent of 9."""
    assert descendants(5, {9: 2, 2: 5, 5: 1, 4: 1}) == {5, 2, 9}


def test_a_program_that_has_ended_keeps_its_name(tmp_path: Path) -> None:
    """A zombie has no arguments. Time between samples is `other`, unless there is only one program."""
    write_process(tmp_path, 5, 1, 10, "pulumi\0up\0")
    tree = Tree(5, tmp_path)
    tree.sample()
    write_process(tmp_path, 5, 1, 30, "")
    tree.sample()
    assert tree.cpu_seconds(total=0.5) == {"pulumi": 0.5}
    write_process(tmp_path, 6, 5, 10, "kubectl\0")
    tree.sample()
    assert tree.cpu_seconds(total=0.5) == {"pulumi": 0.3, "kubectl": 0.1, "other": 0.1}
    assert tree.peak_bytes == 2 * 1024


def write_process(proc: Path, pid: int, parent: int, ticks: int, cmdline: str) -> None:
    """Write the files of a process that has used this number of ticks of 10 ms, and 1 KiB of memory."""
    folder = proc / str(pid)
    folder.mkdir(exist_ok=True)
    (folder / "stat").write_text(f"{pid} (a ) b) S {parent} {'0 ' * 9}{ticks} 0 0 0")
    (folder / "cmdline").write_text(cmdline)
    (folder / "smaps_rollup").write_text("Rss: 9 kB\nPss: 1 kB\n")


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["/usr/bin/kubectl", "diff"], "kubectl"),
        (["/x/.venv/bin/python", "-m", "trainstack.cli", "check"], "python trainstack.cli"),
        (["python3.11", "-u", "/x/pulumi-language-python-exec", "--root"], "python pulumi-language-python-exec"),
        (["python3", "-c", "pass"], "python"),
        ([""], ""),
    ],
)
def test_a_python_program_has_the_name_of_its_script(argv: list[str], name: str) -> None:
    """Other programs have the name of their file."""
    assert program_name(argv) == name


def make_event(verb: str = "patch", user: str = USER, uri: str = "/x", **changes: object) -> str:
    """Return a line of an audit log."""
    event = {
        "stage": "ResponseComplete",
        "verb": verb,
        "user": {"username": user},
        "requestURI": uri,
        "responseStatus": {"code": 200},
        **changes,
    }
    return json.dumps(event) + "\n"


def test_writes_and_dry_runs_are_counted_from_an_offset(tmp_path: Path) -> None:
    """Reads, refused writes, access reviews, streams, other users and an incomplete last line do not count."""
    log = tmp_path / "audit.log"
    log.write_text(make_event("create"))
    offset = log.stat().st_size
    with log.open("a") as file:
        file.write(make_event() + make_event("delete") + make_event(uri="/x?dryRun=All"))
        file.write(make_event("get") + make_event(user="kubelet") + make_event(responseStatus={"code": 409}))
        file.write(make_event("create", objectRef={"resource": "pods", "subresource": "exec"}))
        file.write(make_event("create", objectRef={"apiGroup": "authorization.k8s.io"}) + '{"verb": "cre')
    assert counted(log) == (3, 1)
    assert counted(log, offset) == (2, 1)
