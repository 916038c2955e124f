"""The wrapper in a sweep's Indexed Job: each index is a run."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import trainstack.runs.wrapper.run as run_py
from tests.integration.wrapper.pods import UNTIL_SIGTERM, WRITE_RESULT, pod, python, read_json, read_until, run, tree

TARGET = {"metric": "val_accuracy", "direction": "maximize", "epoch": "best", "target": 0.9}
SHARED = {"args": ["--epochs=3"], "env": {"A": "b"}, "commit": "abc"}
SHOW = "import os, sys; print(sys.argv[1:], *(os.environ.get(name) for name in ('JOB_ID', 'LR', 'TRAINSTACK_RUN_ID')))"


def make_entry(number: int, lr: float) -> dict[str, Any]:
    """Return the entry of the trial `digits-…<number>`."""
    return {
        "run_id": f"digits-000000000{number}",
        "number": number,
        "id": f"aaaaaaaaa{number}",
        "parameters": {"lr": lr},
        "args": [f"--lr={lr}", "--output=$TRAINSTACK_OUTPUT"],
        "env": {"LR": str(lr)},
    }


def make_file(folder: Path, objective: dict[str, Any] | None = None, **lists: list[str]) -> Path:
    """Write the file that a Job with two trials mounts, and the lists of withdrawn or stopped trials."""
    folder.mkdir(exist_ok=True)
    file = folder / "trials.json"
    file.write_text(json.dumps({"objective": objective, "trials": [make_entry(7, 0.1), make_entry(3, 0.5)]}))
    for name, run_ids in lists.items():
        (folder / f"{name}.json").write_text(json.dumps(run_ids))
    return file


def pod_variables(file: Path, index: int = 1) -> dict[str, str]:
    """Return the variables of the pod with this completion index."""
    return {
        "TRAINSTACK_RUN_ID": "digits-batch",
        "TRAINSTACK_RUN": json.dumps(SHARED),
        "TRAINSTACK_SWEEP": "digits",
        "TRAINSTACK_TRIALS": str(file),
        "JOB_COMPLETION_INDEX": str(index),
    }


def writes(*lines: str) -> list[str]:
    """Return a command that writes these lines of metrics."""
    path = "os.environ['TRAINSTACK_OUTPUT'] + '/metrics.jsonl'"
    text = "".join(f"{line}\n" for line in lines)
    return python(f"import os; open({path}, 'w').write({text!r})")


def test_an_index_is_the_run_of_its_entry(tmp_path: Path) -> None:
    """Its arguments are last, its variables and number are in the environment, and its record is that of a run."""
    code, output = run(tmp_path / "runs", python(SHOW, "--epochs=3"), **pod_variables(make_file(tmp_path / "sweep")))
    record = tmp_path / "runs" / "digits-0000000003"
    assert code == 0
    written = f"{record}/attempts/pod-a-1/output"
    assert f"\n['--epochs=3', '--lr=0.5', '--output={written}'] 3 0.5 digits-0000000003\n" in output
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [record.name]
    assert tree(record) == ["_SUCCESS", "logs/rank-0.pod-a-1.log", "result/.run.json", "run.json"]
    facts = read_json(record / "run.json")
    assert facts["run_id"] == "digits-0000000003"
    assert "index" not in facts
    assert facts["definition"] == {
        "args": ["--epochs=3", "--lr=0.5", "--output=$TRAINSTACK_OUTPUT"],
        "env": {"A": "b", "LR": "0.5"},
        "commit": "abc",
        "sweep": {"name": "digits", "number": 3, "id": "aaaaaaaaa3", "parameters": {"lr": 0.5}},
    }


def test_a_trial_that_is_finished_is_not_run_again(tmp_path: Path) -> None:
    """Its index and number may have changed."""
    file = make_file(tmp_path / "sweep")
    run(tmp_path / "runs", python(WRITE_RESULT), **pod_variables(file))
    reordered = json.loads(file.read_text())
    reordered["trials"].reverse()
    reordered["trials"][0]["number"] = 1
    file.write_text(json.dumps(reordered))
    code, output = run(tmp_path / "runs", python("raise SystemExit(9)"), **pod_variables(file, 0))
    assert (code, "run digits-0000000003 is finished" in output) == (0, True)


@pytest.mark.parametrize(
    ("objective", "lines", "code"),
    [
        ({}, ['{"epoch": 1, "val_accuracy": 0.9}', '{"epoch": 2, "val_accuracy": 0.2}'], 0),
        ({}, ['{"epoch": 1, "val_accuracy": 0.89}'], 79),
        ({}, ['{"epoch": 1, "val_accuracy": NaN}', '{"epoch": 2, "val_accuracy": Infinity}'], 79),
        ({}, ['{"epoch": 1}', "7", '{"val_accuracy": "0.95"}', '{"val_accuracy": true}'], 79),
        ({}, ["no json"], 79),
        ({}, ["[" * 200_000], 79),
        ({}, ['{"val_accuracy": 1e400}', '{"val_accuracy": %s}' % ("9" * 400), '{"val_accuracy": [0.95]}'], 79),
        ({"epoch": "last"}, ['{"val_accuracy": 0.95}', '{"val_accuracy": 0.5}', '{"test_accuracy": 0.9}'], 79),
        ({"epoch": "last"}, ['{"val_accuracy": 0.5}', '{"val_accuracy": 0.95}', '{"test_accuracy": 0.1}'], 0),
        ({"epoch": 1}, ['{"epoch": 1, "val_accuracy": 0.95}', '{"epoch": 2, "val_accuracy": 0.5}'], 0),
        ({"epoch": 3}, ['{"epoch": 1, "val_accuracy": 0.95}'], 79),
        ({"metric": "val_loss", "direction": "minimize", "target": 0.1}, ['{"val_loss": 0.1}', '{"val_loss": 3}'], 0),
        ({"metric": "val_loss", "direction": "minimize", "target": 0.1}, ['{"val_loss": 0.2}'], 79),
        ({"target": None}, ['{"val_accuracy": 0.1}'], 0),
    ],
)
def test_the_metrics_of_a_trial_decide_whether_the_target_is_reached(
    tmp_path: Path, objective: dict[str, Any], lines: list[str], code: int
) -> None:
    """The best, the last or a given epoch counts; a value that is not finite is ignored."""
    file = make_file(tmp_path / "sweep", {**TARGET, **objective})
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_text("".join(f"{line}\n" for line in lines))
    assert run_py.IndexedTrial("digits", file, 1).exit_code_of_metrics(metrics) == code


@pytest.mark.parametrize(("value", "code"), [(0.9, 0), (0.89, 79)])
def test_the_exit_code_shows_whether_the_target_is_reached(tmp_path: Path, value: float, code: int) -> None:
    """Both when the record is finished, and when a finished record is found."""
    file = make_file(tmp_path / "sweep", TARGET)
    assert (
        run(tmp_path / "runs", writes(json.dumps({"epoch": 1, "val_accuracy": value})), **pod_variables(file))[0]
        == code
    )
    assert (tmp_path / "runs" / "digits-0000000003" / "_SUCCESS").exists()
    assert run(tmp_path / "runs", python("raise SystemExit(9)"), name="pod-b", **pod_variables(file))[0] == code


def test_a_trial_that_fails_ends_with_its_own_exit_code(tmp_path: Path) -> None:
    """That code differs from that of a missed target, so the trial is retried."""
    assert (
        run(tmp_path / "runs", python("raise SystemExit(3)"), **pod_variables(make_file(tmp_path / "sweep", TARGET)))[0]
        == 3
    )


@pytest.mark.parametrize(("objective", "code"), [(None, 0), ({**TARGET, "target": None}, 0), (TARGET, 79)])
def test_a_withdrawn_trial_does_not_start(tmp_path: Path, objective: dict[str, Any] | None, code: int) -> None:
    """It has no attempt. If a success would end the sweep, it does not count as one."""
    file = make_file(tmp_path / "sweep", objective, withdrawn=["digits-0000000003"])
    done, output = run(tmp_path / "runs", python("raise SystemExit(9)"), **pod_variables(file))
    assert (done, "is withdrawn" in output) == (code, True)
    assert tree(tmp_path / "runs" / "digits-0000000003") == []
    assert run(tmp_path / "runs", python("raise SystemExit(9)"), **pod_variables(file, 0))[0] == 9


def test_a_running_withdrawn_trial_continues_until_it_is_stopped(tmp_path: Path) -> None:
    """Then its command gets SIGTERM, and no other pod retries it."""
    file = make_file(tmp_path / "sweep")
    with pod(tmp_path / "runs", python(UNTIL_SIGTERM), **pod_variables(file)) as process:
        read_until(process, "ready")
        (file.parent / "withdrawn.json").write_text('["digits-0000000003"]')
        (file.parent / "stopped.json").write_text('["digits-0000000007"]')
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        (file.parent / "stopped.json").write_text('["digits-0000000003"]')
        read_until(process, "is withdrawn")
        assert process.wait(10) == 0
    failure = read_json(tmp_path / "runs" / "digits-0000000003" / "attempts" / "pod-a-1" / "failure.json")
    assert (failure["exit_code"], failure["withdrawn"]) == (143, True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"JOB_COMPLETION_INDEX": "2"}, "JOB_COMPLETION_INDEX is 2, and"),
        ({"JOB_COMPLETION_INDEX": ""}, "JOB_COMPLETION_INDEX is None, and"),
        ({"TRAINSTACK_TRIALS": "/nowhere/trials.json"}, "No such file or directory: /nowhere/trials.json"),
        ({"TRAINSTACK_SWEEP": ""}, "TRAINSTACK_SWEEP is not set"),
    ],
)
def test_a_pod_without_its_entry_is_refused(tmp_path: Path, change: dict[str, str], message: str) -> None:
    """The exit code is 64, and nothing is written."""
    code, output = run(tmp_path / "runs", ["x"], **{**pod_variables(make_file(tmp_path / "sweep")), **change})
    assert (code, message in output) == (64, True)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("content", ["{", "[]", '{"trials": [], "objective": null, "x": 1}', '{"trials": [{}, {}]}'])
def test_a_file_of_trials_that_was_edited_is_refused(tmp_path: Path, content: str) -> None:
    """The message has the file's name."""
    file = make_file(tmp_path / "sweep")
    file.write_text(content)
    code, output = run(tmp_path / "runs", ["x"], **pod_variables(file))
    assert (code, str(file) in output) == (64, True)
