"""The record of each pod, by rank and completion index."""

from pathlib import Path

import pytest

from tests.integration.wrapper.pods import RUN_ID, WRITE_RESULT, python, read_json, run, tree

SHOW = "import os; print(os.path.isdir(os.environ['TRAINSTACK_OUTPUT']), os.environ['TRAINSTACK_CHECKPOINT'])"


def test_another_rank_writes_its_log_only(tmp_path: Path) -> None:
    """It can read the checkpoints on the volume. Its output folder is separate and not published."""
    for _ in range(2):
        code, output = run(tmp_path, python(f"{WRITE_RESULT}; {SHOW}"), name="worker-0", RANK="1")
        assert code == 0
        assert f"True {tmp_path / RUN_ID / 'checkpoints'}\n" in output
    assert tree(tmp_path / RUN_ID) == ["logs/rank-1.worker-0-1.log", "logs/rank-1.worker-0-2.log"]


@pytest.mark.parametrize("record", [None, Path("/proc/no-volume/runs")])
def test_another_rank_runs_without_the_volume(record: Path | None) -> None:
    """It gets separate folders and returns the command's exit code."""
    code, output = run(record, python(f"{WRITE_RESULT}; {SHOW}; raise SystemExit(5)"), RANK="2")
    assert code == 5
    assert "True " in output


def test_another_rank_runs_although_the_run_is_finished(tmp_path: Path) -> None:
    """Only rank 0 checks the record; the operator ends the workers when the master has succeeded."""
    run(tmp_path, python(WRITE_RESULT), RANK="0")
    assert "ran\n" in run(tmp_path, python("print('ran')"), RANK="1")[1]


def test_each_completion_index_has_its_own_record(tmp_path: Path) -> None:
    """Each index of an Indexed Job is a run."""
    for index in ("0", "2"):
        assert run(tmp_path, python(WRITE_RESULT), name=f"pod-{index}", JOB_COMPLETION_INDEX=index)[0] == 0
    record = tmp_path / RUN_ID
    assert sorted(path.name for path in record.iterdir()) == ["0", "2"]
    assert read_json(record / "2" / "run.json")["index"] == 2
    assert (record / "2" / "_SUCCESS").exists()


def test_the_index_of_a_pod_with_a_rank_has_no_own_record(tmp_path: Path) -> None:
    """A TrainJob's pods have both an index and PET_NODE_RANK: they are one run."""
    run(tmp_path, python(WRITE_RESULT), JOB_COMPLETION_INDEX="1", PET_NODE_RANK="1")
    run(tmp_path, python(WRITE_RESULT), JOB_COMPLETION_INDEX="0", PET_NODE_RANK="0")
    assert (tmp_path / RUN_ID / "_SUCCESS").exists()
    assert "index" not in read_json(tmp_path / RUN_ID / "run.json")
