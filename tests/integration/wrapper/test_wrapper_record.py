"""The record that the wrapper writes for a run with one pod."""

import ast
import hashlib
import json
import os
import sys
from pathlib import Path

import pytest

from tests.integration.wrapper.pods import (
    RUN_ID,
    UNTIL_SIGTERM,
    WRAPPER,
    WRITE_RESULT,
    pod,
    published,
    python,
    read_json,
    read_until,
    run,
    tree,
)


def test_a_successful_run_leaves_a_complete_record(tmp_path: Path) -> None:
    """It has the result, the log and the completed run.json with hashes; _SUCCESS has the hash of run.json."""
    definition = {"commit": "abc", "seed": 1}
    code, _ = run(
        tmp_path / "runs",
        python(WRITE_RESULT),
        TRAINSTACK_LAUNCH="digits-l1",
        TRAINSTACK_RUN=json.dumps(definition),
        RANK="0",
        WORLD_SIZE="3",
    )
    record = tmp_path / "runs" / RUN_ID
    assert code == 0
    assert tree(record) == [
        "_SUCCESS",
        "logs/rank-0.pod-a-1.log",
        "result/.run.json",
        "result/metrics.jsonl",
        "run.json",
    ]
    written = read_json(record / "run.json")
    times = {key: written.pop(key) for key in ("started", "finished", "attempt_started")}
    assert all(value.endswith("Z") for value in times.values())
    assert written == {
        "run_id": RUN_ID,
        "launch": "digits-l1",
        "definition": definition,
        "world_size": 3,
        "state": "succeeded",
        "exit_code": 0,
        "attempt": "pod-a-1",
        "attempts": 1,
        "log": "logs/rank-0.pod-a-1.log",
        "files": {"result/metrics.jsonl": {"sha256": hashlib.sha256(b"{}\n").hexdigest(), "size": 3}},
    }
    digest = hashlib.sha256((record / "run.json").read_bytes()).hexdigest()
    assert read_json(record / "_SUCCESS") == {"run_id": RUN_ID, "run_json_sha256": digest}


def test_run_json_exists_while_the_command_runs(tmp_path: Path) -> None:
    """Users can read it before the run has ended."""
    with pod(tmp_path, python(UNTIL_SIGTERM)) as process:
        read_until(process, "ready")
        written = read_json(tmp_path / RUN_ID / "run.json")
    assert (written["state"], written["run_id"]) == ("started", RUN_ID)


def test_output_and_errors_go_to_the_pod_and_to_the_log(tmp_path: Path) -> None:
    """Both streams are copied byte for byte, in order."""
    command = python("import os; os.write(1, b'one\\n'); os.write(2, b'two \\xff\\n'); os.write(1, b'no newline')")
    with pod(tmp_path, command) as process:
        assert process.stdout is not None
        with open(process.stdout.fileno(), "rb", closefd=False) as stream:
            output = stream.read()
    log = (tmp_path / RUN_ID / "logs" / "rank-0.pod-a-1.log").read_bytes()
    assert log == b"one\ntwo \xff\nno newline"
    assert log in output


def test_a_finished_run_is_not_run_again(tmp_path: Path) -> None:
    """The next pod exits 0 without starting its command."""
    run(tmp_path, python(WRITE_RESULT))
    code, output = run(tmp_path, python("raise SystemExit(9)"), name="pod-b")
    assert code == 0
    assert "is finished" in output


def test_a_published_run_without_success_file_is_completed(tmp_path: Path) -> None:
    """A pod died between publishing and _SUCCESS: the next one only completes the record, with the same bytes."""
    run(tmp_path, python(WRITE_RESULT))
    record = tmp_path / RUN_ID
    before = {path: (record / path).read_bytes() for path in ("_SUCCESS", "run.json")}
    (record / "_SUCCESS").unlink()
    (record / "run.json").write_text("{}")
    assert run(tmp_path, python("raise SystemExit(9)"), name="pod-b")[0] == 0
    assert {path: (record / path).read_bytes() for path in before} == before


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\0" * 4096, b"[]", b"{}", b'{"started": 5}', b'{"started": [', b"\xff", b"[" * 200_000, b"9" * 5_000],
    ids=["empty", "cut off", "zeros", "list", "no fields", "number", "cut off in a list", "bytes", "nested", "digits"],
)
def test_a_damaged_run_json_does_not_fail_a_run(tmp_path: Path, content: bytes) -> None:
    """The volume kept half of the file, for example. It is replaced when the run succeeds, at the first attempt."""
    record = tmp_path / RUN_ID
    record.mkdir()
    (record / "run.json").write_bytes(content)
    code, output = run(tmp_path, python(WRITE_RESULT))
    assert (code, "Traceback" in output) == (0, False)
    written = read_json(record / "run.json")
    assert (written["state"], written["started"]) == ("succeeded", written["attempt_started"])
    assert published(record) == {"metrics.jsonl": b"{}\n"}


@pytest.mark.parametrize("kind", ["folder", "pipe", "broken link"])
def test_a_run_json_that_is_no_file_ends_the_pod_before_the_command_runs(tmp_path: Path, kind: str) -> None:
    """No training is lost, and the message has the remedy."""
    record = tmp_path / RUN_ID
    record.mkdir()
    if kind == "folder":
        (record / "run.json").mkdir()
    elif kind == "pipe":
        os.mkfifo(record / "run.json")
    else:
        (record / "run.json").symlink_to("nowhere")
    code, output = run(tmp_path, python("print('r' + 'an')"))
    assert (code, "run.json is not a file: move it away" in output, "ran\n" in output) == (73, True, False)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"[" * 200_000])
def test_a_damaged_result_is_named(tmp_path: Path, content: bytes) -> None:
    """The record cannot be completed from it; the command does not run again unless the user moves it away."""
    run(tmp_path, python(WRITE_RESULT))
    record = tmp_path / RUN_ID
    (record / "_SUCCESS").unlink()
    (record / "result" / ".run.json").write_bytes(content)
    code, output = run(tmp_path, python("print('r' + 'an')"), name="pod-b")
    assert (code, ".run.json is damaged" in output, "Traceback" in output, "ran\n" in output) == (
        73,
        True,
        False,
        False,
    )
    (record / "result").rename(tmp_path / "away")
    assert run(tmp_path, python(WRITE_RESULT), name="pod-c")[0] == 0


def test_a_claim_that_is_no_text_is_taken_over(tmp_path: Path) -> None:
    """It counts by its age alone."""
    claims = tmp_path / RUN_ID / "claims"
    claims.mkdir(parents=True)
    (claims / "000001").write_bytes(b"\xff\xfe")
    code, output = run(tmp_path, python(WRITE_RESULT), TRAINSTACK_STALE_SECONDS="0.3")
    assert (code, "taking over the run" in output) == (0, True)


def test_a_failed_attempt_is_recorded_and_the_next_resumes(tmp_path: Path) -> None:
    """The failure has the exit code and the last lines, without a result. The next attempt resumes and publishes."""
    fails = (
        "import os; open(os.environ['TRAINSTACK_CHECKPOINT'] + '/c', 'w').close();"
        "print(os.environ['TRAINSTACK_RESUME']);"
        "[print('line', n) for n in range(60)]; raise SystemExit(3)"
    )
    code, output = run(tmp_path, python(fails), TRAINSTACK_LAUNCH="l1")
    record = tmp_path / RUN_ID
    failure = read_json(record / "attempts" / "pod-a-1" / "failure.json")
    assert code == 3
    assert "exit code 3" in output
    assert (failure["exit_code"], failure["pod"], failure["launch"]) == (3, "pod-a", "l1")
    assert failure["last_lines"] == [f"line {number}" for number in range(11, 60)]
    assert not (record / "result").exists()
    assert (record / "logs" / "rank-0.pod-a-1.log").read_text().startswith("0\n")

    code, output = run(tmp_path, python(f"{WRITE_RESULT}; print('resume', os.environ['TRAINSTACK_RESUME'])"))
    assert code == 0
    assert "\nresume 1\n" in output
    written = read_json(record / "run.json")
    assert (written["attempt"], written["attempts"]) == ("pod-a-2", 2)


def test_the_command_ended_by_a_signal_gives_128_and_its_number(tmp_path: Path) -> None:
    """A shell does the same."""
    assert run(tmp_path, python("import os; os.kill(os.getpid(), 9)"))[0] == 137


def test_a_missing_command(tmp_path: Path) -> None:
    """The exit code is 127 with a message, and the attempt is recorded as failed."""
    code, output = run(tmp_path, ["no-such-program"])
    assert code == 127
    assert "cannot start 'no-such-program'" in output
    assert read_json(tmp_path / RUN_ID / "attempts" / "pod-a-1" / "failure.json")["exit_code"] == 127


def test_tokens_in_the_command_are_replaced(tmp_path: Path) -> None:
    """They are replaced also within an argument; other dollar signs are kept."""
    show = "import sys; print(sys.argv[1:])"
    arguments = ["--output=$TRAINSTACK_OUTPUT/x", "$TRAINSTACK_CHECKPOINT", "$TRAINSTACK_RUN_ID", "$HOME"]
    _, output = run(tmp_path, python(show, *arguments))
    record = tmp_path / RUN_ID
    expected = [f"--output={record}/attempts/pod-a-1/output/x", f"{record}/checkpoints", RUN_ID, "$HOME"]
    assert f"\n{expected}\n" in output


@pytest.mark.parametrize(
    ("environment", "command", "message"),
    [
        (
            {},
            ["x", "$TRAINSTACK_OUTPTU"],
            "unknown variables in the command: $TRAINSTACK_OUTPTU; valid are $TRAINSTACK_OUTPUT,",
        ),
        ({"TRAINSTACK_RUN_ID": ""}, ["x"], "TRAINSTACK_RUN_ID is not set"),
        ({"TRAINSTACK_RUN_ID": "../x"}, ["x"], "TRAINSTACK_RUN_ID is '../x'"),
        ({"TRAINSTACK_RECORD": ""}, ["x"], "TRAINSTACK_RECORD is not set"),
        ({"TRAINSTACK_RUN": "{"}, ["x"], "TRAINSTACK_RUN is not JSON"),
        ({"TRAINSTACK_DATA": "{}"}, ["x"], "TRAINSTACK_DATA must be"),
        ({"TRAINSTACK_RUN": "[" * 50_000}, ["x"], "TRAINSTACK_RUN is not JSON"),
        ({"RANK": "one"}, ["x"], "the rank is 'one'"),
        ({"RANK": "1e400"}, ["x"], "the rank is '1e400'"),
        ({"RANK": "nan"}, ["x"], "the rank is 'nan'"),
        ({"JOB_COMPLETION_INDEX": "7" * 5000}, ["x"], "JOB_COMPLETION_INDEX is '777"),
        ({"TRAINSTACK_HEARTBEAT_SECONDS": "inf"}, ["x"], "TRAINSTACK_HEARTBEAT_SECONDS is 'inf'"),
        ({"TRAINSTACK_STALE_SECONDS": "nan"}, ["x"], "TRAINSTACK_STALE_SECONDS is 'nan'"),
        ({"TRAINSTACK_DATA_TIMEOUT": "-1"}, ["x"], "TRAINSTACK_DATA_TIMEOUT is '-1'"),
        ({}, [], "usage:"),
    ],
)
def test_a_wrong_environment_is_refused(
    tmp_path: Path, environment: dict[str, str], command: list[str], message: str
) -> None:
    """The exit code is 64, the message names the fault, and nothing is written."""
    with pod(tmp_path / "runs", command, **environment) as process:
        output = process.communicate()[0]
    assert process.returncode == 64
    assert message in output
    assert "Traceback" not in output
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("folder", ["file/runs", "/proc/runs"])
def test_a_record_that_cannot_be_written_is_an_error(tmp_path: Path, folder: str) -> None:
    """The exit code is 73, the message has the path and a hint, and the command does not run."""
    (tmp_path / "file").touch()
    code, output = run(tmp_path / folder, python("print('ran')"))
    assert code == 73
    assert "cannot write the run's record" in output
    assert "is the volume mounted" in output
    assert "ran\n" not in output


def test_the_wrapper_needs_python_3_8_and_its_library_only() -> None:
    """It runs in users' images, whose Python may be old: the syntax is checked against 3.8."""
    parsed = ast.parse(WRAPPER.read_text(), feature_version=(3, 8))
    imports = [name.name for node in ast.walk(parsed) if isinstance(node, ast.Import) for name in node.names]
    imports += [str(node.module) for node in ast.walk(parsed) if isinstance(node, ast.ImportFrom)]
    assert {name.partition(".")[0] for name in imports} <= sys.stdlib_module_names
