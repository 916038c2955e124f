"""Several pods of one run: exactly one publishes, even if pods die or are stopped."""

import signal
from contextlib import ExitStack
from pathlib import Path

from tests.integration.wrapper.pods import (
    DEADLINE_SECONDS,
    RUN_ID,
    UNTIL_SIGTERM,
    WRITE_RESULT,
    pod,
    python,
    read_json,
    read_until,
    run,
    tree,
    wait_until,
)

SOON = {"TRAINSTACK_STALE_SECONDS": "0.6"}


def test_many_pods_at_once_one_runs_and_publishes(tmp_path: Path) -> None:
    """The others wait for its end and exit 0."""
    ran = tmp_path / "ran"
    command = python(f"{WRITE_RESULT}; open({str(ran)!r}, 'a').write('x')")
    with ExitStack() as stack:
        pods = [stack.enter_context(pod(tmp_path / "runs", command, name=f"pod-{n}")) for n in range(8)]
        outputs = [process.communicate(timeout=DEADLINE_SECONDS)[0] for process in pods]
    assert [process.returncode for process in pods] == [0] * 8
    assert ran.read_text() == "x"
    assert sum("succeeded: its record is" in output for output in outputs) >= 1
    assert len([path for path in tree(tmp_path / "runs" / RUN_ID) if path.startswith("logs/")]) == 1


def test_a_pod_waits_for_a_living_holder(tmp_path: Path) -> None:
    """The duration of the holder's work does not matter: its heartbeats count, not its age."""
    with pod(tmp_path, python(UNTIL_SIGTERM), name="first", **SOON) as first:
        read_until(first, "ready")
        with pod(tmp_path, python("print('ran')"), name="second", **SOON) as second:
            read_until(second, "first (launch unknown, since")
            claim = tmp_path / RUN_ID / "claims" / "000001"
            created = claim.stat().st_mtime_ns
            wait_until(lambda: claim.stat().st_mtime_ns - created > 1_000_000_000)
            assert second.poll() is None
            assert not (claim.parent / "000002").exists()
            second.send_signal(signal.SIGTERM)
            assert second.wait(DEADLINE_SECONDS) == 143


def test_sigterm_is_sent_to_the_command_and_the_next_pod_starts_at_once(tmp_path: Path) -> None:
    """The wrapper returns the command's exit code and releases the claim, so the next pod does not wait."""
    with pod(tmp_path, python(UNTIL_SIGTERM), name="first") as first:
        read_until(first, "ready")
        first.send_signal(signal.SIGTERM)
        assert first.wait(DEADLINE_SECONDS) == 143
    failure = read_json(tmp_path / RUN_ID / "attempts" / "first-1" / "failure.json")
    assert (failure["exit_code"], failure["stopped_by_sigterm"]) == (143, True)
    code, output = run(tmp_path, python(WRITE_RESULT), name="second", TRAINSTACK_STALE_SECONDS="1000")
    assert code == 0
    assert "waiting" not in output


def test_a_command_that_was_stopped_by_sigterm_has_not_finished(tmp_path: Path) -> None:
    """It may write its checkpoint and exit with 0. Nothing is published, and the next pod resumes."""
    graceful = UNTIL_SIGTERM.replace("sys.exit(143)", "sys.exit(0)")
    with pod(tmp_path, python(graceful), name="first") as first:
        read_until(first, "ready")
        first.send_signal(signal.SIGTERM)
        assert first.wait(DEADLINE_SECONDS) == 143
    assert not (tmp_path / RUN_ID / "_SUCCESS").exists()
    assert read_json(tmp_path / RUN_ID / "attempts" / "first-1" / "failure.json")["stopped_by_sigterm"] is True
    code, _ = run(tmp_path, python(WRITE_RESULT), name="second")
    assert code == 0
    assert (tmp_path / RUN_ID / "_SUCCESS").exists()


def test_the_run_of_a_killed_holder_is_taken_over(tmp_path: Path) -> None:
    """One of the waiting pods takes it over after the stale time."""
    with pod(tmp_path, python(UNTIL_SIGTERM), name="first", **SOON) as first:
        read_until(first, "ready")
        first.send_signal(signal.SIGKILL)
        ran = tmp_path / "ran"
        command = python(f"{WRITE_RESULT}; open({str(ran)!r}, 'a').write('x')")
        with ExitStack() as stack:
            pods = [stack.enter_context(pod(tmp_path, command, name=f"next-{n}", **SOON)) for n in range(3)]
            outputs = [process.communicate(timeout=DEADLINE_SECONDS)[0] for process in pods]
    assert [process.returncode for process in pods] == [0] * 3
    assert ran.read_text() == "x"
    assert "no heartbeat for 0.6 s: taking over the run" in "".join(outputs)


def test_a_suspended_holder_stops_its_command_and_publishes_nothing(tmp_path: Path) -> None:
    """After the takeover it continues and exits with 75; the result is that of the other pod."""
    with pod(tmp_path, python(UNTIL_SIGTERM), name="first", **SOON) as first:
        read_until(first, "ready")
        first.send_signal(signal.SIGSTOP)
        assert run(tmp_path, python(WRITE_RESULT), name="second", **SOON)[0] == 0
        first.send_signal(signal.SIGCONT)
        assert "another pod took over this run" in first.communicate(timeout=DEADLINE_SECONDS)[0]
        assert first.returncode == 75
    assert read_json(tmp_path / RUN_ID / "run.json")["attempt"] == "second-1"
    assert read_json(tmp_path / RUN_ID / "attempts" / "first-1" / "failure.json")["exit_code"] == 143


def test_a_takeover_that_the_heartbeat_missed_is_noticed_before_publishing(tmp_path: Path) -> None:
    """Publishing claims the next generation first, which another pod has."""
    taken = f"{WRITE_RESULT}; open({str(tmp_path / RUN_ID / 'claims' / '000002')!r}, 'w').close()"
    code, output = run(tmp_path, python(taken), TRAINSTACK_HEARTBEAT_SECONDS="1000")
    assert code == 75
    assert "this pod publishes nothing" in output
    assert not (tmp_path / RUN_ID / "result").exists()


def test_a_result_is_never_replaced(tmp_path: Path) -> None:
    """A holder that is suspended between its last check and the rename fails, because the other result exists."""
    result = tmp_path / RUN_ID / "result"
    other = f"{WRITE_RESULT}; os.mkdir({str(result)!r}); open({str(result / 'theirs')!r}, 'w').close()"
    code, output = run(tmp_path, python(other))
    assert code == 75
    assert "already exists" in output
    assert tree(result) == ["theirs"]
    assert not (tmp_path / RUN_ID / "_SUCCESS").exists()


def test_a_record_deleted_under_a_run_ends_it(tmp_path: Path) -> None:
    """The holder does not publish an incomplete record."""
    with pod(tmp_path, python(UNTIL_SIGTERM)) as process:
        read_until(process, "ready")
        (tmp_path / RUN_ID / "claims").rename(tmp_path / "gone")
        process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 75
