"""The records of many trials, read from a volume in one stream."""

import json
import os
from pathlib import Path

import pytest

from tests.unit.transfer.volume import LOADER, FakeVolume, make_volume, transfer_fails, write
from trainstack.transfer import trial_records as sweep_records
from trainstack.transfer.trial_records import LAST_LINES, TrialRecord, read_records

METRICS = '{"epoch": 1, "val_accuracy": 0.5}\n{"epoch": 2, "val_accuracy": 0.75}\n'


@pytest.fixture(params=["busybox", "gnu"])
def volume(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeVolume:
    """Provide a volume behind a loader of either image."""
    return make_volume(tmp_path, monkeypatch, request.param)


def make_finished(volume: FakeVolume, run: str, metrics: str | None = METRICS, **facts: object) -> None:
    """Write a record as the wrapper leaves it after a success."""
    files = {"run.json": json.dumps({"run_id": run, "state": "succeeded", **facts}, indent=2), "_SUCCESS": "{}\n"}
    if metrics is not None:
        files["result/metrics.jsonl"] = metrics
    write(volume.root / "runs" / run, {**files, "logs/rank-0.pod-1.log": "fine\n", "result/model.pt": "m" * 9})


def make_unfinished(volume: FakeVolume, run: str, **attempts: str) -> None:
    """Write an unfinished record with the metrics of its attempts, the newest last."""
    folder = write(volume.root / "runs" / run, {"run.json": '{"state": "started"}'})
    for number, (attempt, metrics) in enumerate(attempts.items()):
        write(
            folder, {f"attempts/{attempt}/output/metrics.jsonl": metrics, f"logs/rank-0.{attempt}.log": f"{attempt}\n"}
        )
        for file in (f"attempts/{attempt}/output/metrics.jsonl", f"logs/rank-0.{attempt}.log"):
            os.utime(folder / file, (number, number))


def test_a_finished_record_has_its_definition_and_metrics(volume: FakeVolume) -> None:
    """The record has the published metrics byte for byte, whatever other files exist."""
    make_finished(volume, "digits-1", attempts=2, finished="2026-11-21T12:00:00Z")
    make_finished(volume, "digits-2", metrics=None)
    make_finished(volume, "digits-3", metrics="no newline at the end")
    records = read_records(LOADER, "runs", ["digits-1", "digits-2", "digits-3", "digits-4"])
    assert [*records] == ["digits-1", "digits-2", "digits-3"]
    assert records["digits-1"] == TrialRecord(
        finished=True,
        attempts=2,
        facts={"run_id": "digits-1", "state": "succeeded", "attempts": 2, "finished": "2026-11-21T12:00:00Z"},
        metrics=METRICS,
        failure={},
        last_lines=(),
    )
    assert (records["digits-2"].metrics, records["digits-3"].metrics) == ("", "no newline at the end")


def test_an_unfinished_record_has_its_newest_attempt(volume: FakeVolume) -> None:
    """The record has its metrics so far, its failure, and the last lines of its log."""
    make_unfinished(volume, "digits-1", zz="old\n", aa=METRICS)
    make_unfinished(volume, "digits-2", pod="")
    folder = volume.root / "runs" / "digits-1"
    write(folder, {"attempts/zz/failure.json": '{"exit_code": 1}', "logs/rank-1.other.log": "of another rank\n"})
    write(folder, {"logs/rank-0.aa.log": "".join(f"line {number}\n" for number in range(500)) + "10%\r20%\r"})
    records = read_records(LOADER, "runs", ["digits-1", "digits-2"])
    first = records["digits-1"]
    assert (first.finished, first.attempts, first.facts) == (False, 2, {"state": "started"})
    assert first.metrics == METRICS
    assert first.failure == {"exit_code": 1}
    assert first.last_lines == (*(f"line {number}" for number in range(482, 500)), "10%", "20%")
    assert len(first.last_lines) == LAST_LINES
    assert (records["digits-2"].metrics, records["digits-2"].attempts) == ("", 1)


def test_logs_are_read_where_there_are_no_metrics_or_they_are_requested(volume: FakeVolume) -> None:
    """The logs are those of every attempt of rank 0, the newest last: some programs only print their metrics."""
    make_unfinished(volume, "digits-1", zz="", aa="")
    make_finished(volume, "digits-1", metrics="")
    make_finished(volume, "digits-2")
    records = read_records(LOADER, "runs", ["digits-1", "digits-2"])
    assert (records["digits-2"].log, records["digits-2"].last_lines) == ("", ())
    assert records["digits-1"].log.split() == ["aa", "zz", "fine"]
    records_with_logs = read_records(LOADER, "runs", ["digits-1", "digits-2"], with_logs=True)
    assert (records_with_logs["digits-2"].log, records_with_logs["digits-2"].metrics) == ("fine\n", METRICS)


def test_what_is_published_counts_before_the_record_is_finished(volume: FakeVolume) -> None:
    """This is the state between the rename of the output and the last file."""
    make_unfinished(volume, "digits-1", pod="old\n")
    write(volume.root / "runs" / "digits-1", {"result/metrics.jsonl": METRICS})
    assert read_records(LOADER, "runs", ["digits-1"])["digits-1"].metrics == METRICS


def test_an_incomplete_file_is_ignored(volume: FakeVolume) -> None:
    """The same holds for a file that looks like our marker."""
    write(volume.root / "runs" / "digits-1", {"run.json": '{"state": "st', "attempts/a/failure.json": "[]"})
    write(volume.root / "runs" / "digits-1", {"logs/rank-0.a.log": "part end\n\xff\nend 0\n"})
    record = read_records(LOADER, "runs", ["digits-1"])["digits-1"]
    assert (record.facts, record.failure, record.last_lines) == ({}, {}, ("part end", "\xff", "end 0"))


def test_an_odd_number_of_attempts_counts_as_one(volume: FakeVolume) -> None:
    """A trial's own record does not fail the report of its sweep."""
    odd = ['"two"', "1e400", "-1", "0", "[1]", "true", "9" * 400, "null", "9" * 5000, "[" * 200_000]
    for number, attempts in enumerate(odd):
        make_finished(volume, f"digits-{number}")
        write(volume.root / "runs" / f"digits-{number}", {"run.json": f'{{"attempts": {attempts}}}'})
    records = read_records(LOADER, "runs", [f"digits-{number}" for number in range(len(odd))])
    assert [record.attempts for record in records.values()] == [1] * len(odd)


def test_content_of_any_bytes_arrives_as_it_is(volume: FakeVolume) -> None:
    """The content may look like frames, and names of attempts and logs may have line breaks."""
    hostile = "3\0log\0\n1\0end\0\n end\n"
    write(volume.root / "runs" / "digits-1", {"run.json": "{}", "attempts/a\nb/output/metrics.jsonl": hostile})
    write(volume.root / "runs" / "digits-1", {"logs/rank-0.c\nd.log": f"{hostile}last"})
    make_finished(volume, "digits-2", metrics=hostile)
    records = read_records(LOADER, "runs", ["digits-1", "digits-2"])
    assert (records["digits-1"].metrics, records["digits-2"].metrics) == (hostile, hostile)
    assert records["digits-1"].attempts == 1
    assert records["digits-1"].last_lines == ("3\0log\0", "1\0end\0", " end", "last")


@pytest.mark.parametrize("fault", ["it fails half-way", "it may not be opened"])
def test_a_file_of_a_record_that_cannot_be_read_ends_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fault: str
) -> None:
    """It counts neither as absent nor as shorter."""
    volume = make_volume(tmp_path, monkeypatch, "gnu")
    make_finished(volume, "digits-1")
    if fault == "it fails half-way":
        volume.program_does("base64", "echo eyJh\nexit 1")
    else:
        # No mode closes a file for root, who may run the tests.
        unreadable = sweep_records._READ.replace("give() {", "content() { return 2; }\ngive() {")
        monkeypatch.setattr(sweep_records, "_READ", unreadable)
    with transfer_fails():
        read_records(LOADER, "runs", ["digits-1"])
    assert "a file of runs/digits-1 on the volume cannot be read" in capsys.readouterr().err


def test_a_volume_without_records_has_none(volume: FakeVolume) -> None:
    """The first run creates the folder."""
    assert read_records(LOADER, "runs", ["digits-1"]) == {}


def test_a_broken_connection_is_resumed(volume: FakeVolume, tmp_path: Path) -> None:
    """Complete records are not requested again; the cut one is."""
    for number in range(1, 5):
        make_finished(volume, f"digits-{number}")
    requests, state = tmp_path / "asked", tmp_path / "state"
    cut = 'pod "$@" | head -c 600; exit 0'
    volume.kubectl_does(f'tee -a {requests} | if [ -f {state} ]; then pod "$@"; else touch {state}; {cut}; fi')
    records = read_records(LOADER, "runs", [f"digits-{number}" for number in range(1, 5)])
    assert [*records] == [f"digits-{number}" for number in range(1, 5)]
    assert all(record.metrics == METRICS and record.facts["run_id"] == run for run, record in records.items())
    repeated = requests.read_text().splitlines()[4:]
    assert repeated
    assert len(repeated) < 4


def test_a_fault_there_ends_the_command(volume: FakeVolume, capsys: pytest.CaptureFixture[str]) -> None:
    """The error has the message."""
    volume.kubectl_does("cat >/dev/null; echo 'command terminated with exit code 2' >&2; exit 2")
    with transfer_fails():
        read_records(LOADER, "runs", ["digits-1"])
    assert "the reading of records failed: command terminated with exit code 2" in capsys.readouterr().err


def test_many_records_are_one_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One script reads all of them."""
    volume = make_volume(tmp_path, monkeypatch)
    calls = tmp_path / "calls"
    volume.kubectl_does(f'echo call >>{calls}; pod "$@"')
    runs = [f"digits-{number:010x}" for number in range(250)]
    for run in runs:
        make_finished(volume, run)
    records = read_records(LOADER, "runs", runs)
    assert [*records] == runs
    assert calls.read_text() == "call\n"
