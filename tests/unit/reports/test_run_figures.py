"""A run's figures, from a record or from the logs of its pods."""

import math
from pathlib import Path
from typing import Any

import pytest

from tests.unit.reports.make import make_classic, make_log, make_record, make_stamped
from trainstack.reports.errors import ReportError
from trainstack.reports.run_figures import Definition, add_logs, run_from_logs, run_from_record
from trainstack.runs.logs.training_log import Epoch

METRICS = [
    {"epoch": 1, "step": 14, "train_loss": 0.51, "val_loss": 0.31, "val_accuracy": 0.911, "seconds": 0.211},
    {"epoch": 2, "step": 28, "train_loss": 0.41, "val_loss": 0.21, "val_accuracy": 0.921, "seconds": 0.221},
    {"epoch": 2, "step": 28, "test_loss": 0.04792, "test_accuracy": 0.99164},
]


def test_a_record_has_each_replica_by_its_own_log(tmp_path: Path) -> None:
    """Steps are from the logs, figures from the metrics, which are more exact, and the definition from run.json."""
    logs = {f"{rank}.digits-worker-{rank}-1": make_log(world=2) for rank in range(2)}
    run = run_from_record(make_record(tmp_path / "run", logs, METRICS, world_size=2), "digits-0123456789")
    assert (run.workload, run.source, run.finished, run.world_size) == ("digits", "record", True, 2)
    assert run.steps == {0: 28, 1: 28}
    assert run.epochs[2] == Epoch(steps=14, seconds=0.221, train_loss=0.41, loss=0.21, accuracy=0.921)
    assert (run.loss, run.accuracy) == (0.04792, 0.99164)
    assert run.seconds_per_epoch == pytest.approx(0.216)
    assert run.definition == Definition(
        image="digits:1", command=("train",), args=("--epochs=2",), seed=1, data="0465864d278d"
    )
    assert run.notes == ()


def test_the_revision_of_the_code_is_part_of_what_ran(tmp_path: Path) -> None:
    """The run has checked out its code."""
    definition = {"workload": "vision", "code": {"git": "https://host/path", "revision": "3f78"}}
    run = run_from_record(make_record(tmp_path / "run", {}, definition=definition), "vision-0123456789")
    assert run.definition == Definition(revision="3f78")


def test_values_of_a_log_that_are_no_numbers_are_noted(tmp_path: Path) -> None:
    """They are left out of the figures, unless the metrics have them."""
    log = make_log().replace("val_loss 0.2000", "val_loss 1,234.5")
    note = "not read, because they are not numbers: val_loss '1,234.5'"
    recorded = run_from_record(make_record(tmp_path / "run", {"0.pod-1": log}), "digits-0123456789")
    live = run_from_logs("d-1", {0: make_stamped(log)}, workload="d", finished=True, world_size=1, definition=None)
    assert [run.notes[-1] for run in (recorded, live)] == [note, note]
    assert [run.epochs[2].loss for run in (recorded, live)] == [None, None]
    assert run_from_record(make_record(tmp_path / "other", {"0.pod-1": log}, METRICS), "digits-0123456789").notes == ()


def test_the_attempts_of_a_replica_are_one_training(tmp_path: Path) -> None:
    """A resumed run's steps are counted once, over all its logs."""
    log_lines = make_log().splitlines(keepends=True)
    logs = {"0.pod-1": "".join(log_lines[:4]), "0.pod-2": "".join(log_lines[3:])}
    assert run_from_record(make_record(tmp_path / "run", logs, METRICS), "digits-0123456789").steps == {0: 28}


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    """A progress bar may precede a line about the epoch, and JSON may hold other separators."""
    bars = make_log().replace("epoch 1/2 done", "10%\r100%\u2028\repoch 1/2 done")
    folder = make_record(tmp_path / "run", {"0.pod-1": bars}, METRICS)
    metrics_file = folder / "result" / "metrics.jsonl"
    metrics_file.write_text('{"note": "a\u2028b", "epoch": 1, "seconds": 3}\n', encoding="utf-8")
    run = run_from_record(folder, "digits-0123456789")
    assert (run.steps, run.epochs[1].seconds, run.epochs[2].seconds) == ({0: 28}, 3.0, 0.22)
    stamped = make_stamped(make_log()).replace("epoch 1/2 done", "10%\r100%\u2028\repoch 1/2 done")
    live = run_from_logs("d-1", {0: stamped}, workload="d", finished=True, world_size=1, definition=None)
    assert (live.steps, live.epochs[1].seconds) == ({0: 28}, 0.21)


def test_a_worker_without_the_volume_is_read_from_its_pod(tmp_path: Path) -> None:
    """The record has no log of it; without the pod its steps are unknown, not zero."""
    run = run_from_record(
        make_record(tmp_path / "run", {"0.m-1": make_log()}, METRICS, world_size=3), "digits-0123456789"
    )
    assert (run.steps, run.unlogged_ranks) == ({0: 28, 1: None, 2: None}, [1, 2])
    completed = add_logs(run, {0: "", 2: make_stamped(make_log())})
    assert (completed.steps, completed.unlogged_ranks) == ({0: 28, 1: None, 2: 28}, [1])


def test_a_replica_that_is_behind_lacks_nothing() -> None:
    """The run still trains: only steps before its last epoch would be missing."""
    logs = {0: make_stamped(make_log(epochs=3)), 1: make_stamped(make_log(epochs=2)), 2: make_stamped("no epoch")}
    run = run_from_logs("d-0123456789", logs, workload="d", finished=False, world_size=3, definition=None)
    assert (run.partial_ranks, run.steps) == ([], {0: 42, 1: 28, 2: None})


def test_a_program_without_metrics_is_read_from_its_log(tmp_path: Path) -> None:
    """A note mentions it."""
    run = run_from_record(make_record(tmp_path / "run", {"0.pod-1": make_classic()}), "mnist-0123456789")
    assert (run.step_unit, run.steps, run.accuracy) == ("progress lines", {0: 6}, 0.97)
    assert run.notes == ("no result/metrics.jsonl; its figures are from its log",)


def test_metrics_of_other_names_are_no_error(tmp_path: Path) -> None:
    """Missing metrics are unknown."""
    run = run_from_record(make_record(tmp_path / "run", {}, [{"bleu": 0.3, "note": "a word"}]), "mt-0123456789")
    assert (run.accuracy, run.loss, run.epochs, run.seconds_per_epoch) == (None, None, {}, None)


def test_without_a_test_the_last_evaluation_counts(tmp_path: Path) -> None:
    """The run still trains and has only a log."""
    log = "".join(make_log().splitlines(keepends=True)[:-1])
    run = run_from_record(make_record(tmp_path / "run", {"0.pod-1": log}, state="started"), "digits-0123456789")
    assert (run.finished, run.test_accuracy, run.accuracy, run.loss) == (False, None, 0.92, 0.2)
    assert run.notes == ()


def test_metrics_may_hold_a_loss_that_diverged(tmp_path: Path) -> None:
    """Python's json writes NaN."""
    run = run_from_record(make_record(tmp_path / "run", {}, [{"epoch": 1, "test_loss": math.nan}]), "digits-0123456789")
    assert math.isnan(run.loss or 0.0)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("run.json", "{", "run.json cannot be read"),
        ("run.json", "[]", "run.json is not a JSON object"),
        ("result/metrics.jsonl", '{"epoch": 1}\n{"epoch"', "metrics.jsonl:2: invalid JSON"),
        ("result/metrics.jsonl", "3\n", "metrics.jsonl:1: not a JSON object: '3'"),
    ],
)
def test_a_broken_file_is_named_with_its_line(tmp_path: Path, file: str, content: str, message: str) -> None:
    """The error has the remedy."""
    folder = make_record(tmp_path / "run", {}, [])
    (folder / file).write_text(content)
    with pytest.raises(ReportError, match=message):
        run_from_record(folder, "digits-0123456789")


ODD_VALUES: tuple[Any, ...] = ("two", math.inf, -1, 10**400, [1], {"a": []}, "2026-11-21T12:11:55")


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("attempts", ODD_VALUES),
        ("world_size", (*ODD_VALUES, 10**9)),
        ("started", ODD_VALUES[:1] + ODD_VALUES[3:]),
        ("definition", ODD_VALUES[:-2]),
        ("command", ODD_VALUES),
        ("env", ODD_VALUES[:-2]),
        ("seed", ODD_VALUES[:2]),
        ("image", ODD_VALUES[1:-1]),
        ("code", ODD_VALUES[:-2]),
    ],
)
def test_a_value_that_no_wrapper_writes_is_named(tmp_path: Path, field: str, values: tuple[object, ...]) -> None:
    """Whoever trains can write to the record, and a disk may fail."""
    for number, value in enumerate(values):
        inner = field in ("command", "env", "seed", "image", "code")
        folder = make_record(
            tmp_path / str(number), {}, **({"definition": {field: value}} if inner else {field: value})
        )
        with pytest.raises(ReportError, match=rf"^\S+run\.json cannot be read \((definition\.)?{field}\S*: [^\n]+$"):
            run_from_record(folder, "digits-0123456789")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[" * 200_000, "nested more than 50 levels deep"),
        ('{"a": ' + "[" * 60 + "]" * 60 + "}", "nested more than 50 levels deep"),
        ('{"attempts": ' + "9" * 5000 + "}", "a number of too many digits"),
        ("\0" * 100, "Expecting value"),
    ],
)
def test_json_that_programs_choke_on_is_damage(tmp_path: Path, content: str, reason: str) -> None:
    """The error is one line, for run.json and for metrics."""
    folder = make_record(tmp_path / "run", {}, [])
    (folder / "run.json").write_text(content)
    with pytest.raises(ReportError, match=reason):
        run_from_record(folder, "digits-0123456789")
    other = make_record(tmp_path / "other", {}, [])
    (other / "result" / "metrics.jsonl").write_text(f"{content}\n")
    with pytest.raises(ReportError, match=reason):
        run_from_record(other, "digits-0123456789")


def test_metrics_and_logs_may_hold_any_numbers(tmp_path: Path) -> None:
    """A number that is none of an epoch is ignored, and a world size from a log cannot exhaust the memory."""
    lines = [{"epoch": value, "val_loss": 0.5} for value in (math.inf, math.nan, 10**400, 1e300, 2)]
    folder = make_record(tmp_path / "run", {"0.pod-1": "world size 999999999999999999\n"}, lines)
    with (folder / "result" / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 3, "val_loss": 0.4, "note": "\\ud800"}\n')
    run = run_from_record(folder, "digits-0123456789")
    assert (run.world_size, [*run.epochs], run.loss) == (1, [2, 3], 0.4)


def test_a_folder_without_a_record_is_distinguished_from_one_of_several(tmp_path: Path) -> None:
    """Each index of a Job with completions has its own record, and the user has to choose one."""
    make_record(tmp_path / "multi-0123456789" / "0", {})
    make_record(tmp_path / "multi-0123456789" / "1", {})
    with pytest.raises(ReportError, match=r"has 2 records.*such as multi-0123456789/0"):
        run_from_record(tmp_path / "multi-0123456789", "multi-0123456789")
    with pytest.raises(ReportError, match=r"no run\.json.*fetch the run again"):
        run_from_record(tmp_path / "nothing", "digits-0123456789")


def test_a_run_without_a_record_is_read_from_its_pods() -> None:
    """The world size is that of the pods' variables, else that of the log, else one."""
    logs = {rank: make_stamped(make_classic()) for rank in range(3)}

    def world(world_variable: int | None, texts: dict[int, str]) -> int:
        return run_from_logs(
            "m-0123456789", texts, workload="m", finished=True, world_size=world_variable, definition=None
        ).world_size

    assert world(3, logs) == 3
    assert world(None, {0: make_stamped(make_log(world=2))}) == 2
    assert world(None, {0: make_stamped(make_classic())}) == 1
    run = run_from_logs("m-0123456789", logs, workload="m", finished=True, world_size=3, definition=None)
    assert (run.source, run.steps, run.accuracy) == ("logs", {0: 6, 1: 6, 2: 6}, 0.97)
    assert run.seconds_per_epoch == 5.0
