"""`trainstack sweep status`, `results`, `best` and `report`, from records on a volume and from live objects."""

import csv
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from arro3.io import read_parquet
from typer.testing import CliRunner, Result

from tests.copies import copy_into
from tests.unit.live_objects import Body, make_condition, make_pending
from tests.unit.make import make_settings, make_sweeps
from tests.unit.sweeps.planned_sweeps import make_indexed, make_planned
from tests.unit.sweeps.test_status import alive
from tests.unit.transfer.volume import LOADER, FakeVolume, make_volume, write
from trainstack.cli import sweep_read
from trainstack.cli.app import app
from trainstack.cli.commands import sweep_status
from trainstack.cli.session import Session
from trainstack.live.client import ClusterError
from trainstack.runs.ledgers import Ledger
from trainstack.runs.status.waiting import Queueing
from trainstack.settings.model import Settings
from trainstack.sweeps.planned_sweep import PlannedSweep
from trainstack.sweeps.search.results import from_json
from trainstack.sweeps.status import LiveTrial, SweepObjects
from trainstack.transfer.trial_records import TrialRecord

ROOT = Path(__file__).resolve().parents[4]
NOW = datetime(2026, 1, 2, 4, tzinfo=UTC)
DONE = make_condition("Complete")
WIDE = """\
method: random
trials: 1
parameters: {batch_size: {int: {low: 1, high: 1000}}}
objective: {metric: val_accuracy, direction: maximize}
args: ["--batch-size=${parameters.batch_size}"]
"""
"""The space of a sweep whose trials had other sets before."""
VALUES = {1: (0.7, 0.8), 2: (0.9, 0.85), 3: (0.9,), 4: (0.95, 0.99)}
"""The validation accuracy of each epoch, by trial. Trial 4 fails."""


class Project:
    """A project with the sweep `search` of four trials, its volume, and the objects of the cluster."""

    def __init__(self, planned: PlannedSweep, volume: FakeVolume) -> None:
        self.planned, self.volume = planned, volume
        self.run_ids = list(planned.trials)
        self.launches: list[Body] = []
        self.ledgers: list[Ledger] = []
        self.queueing: dict[str, Queueing] = {}
        self.loaders = 0

    def finish(self, number: int, *values: float, minutes: int = 1, **more: Any) -> None:
        """Let a trial succeed this long after its start; its test accuracy is the best of all."""
        lines = [{"epoch": epoch, "val_accuracy": value, **more} for epoch, value in enumerate(values, 1)]
        lines.append({"epoch": len(values), "test_accuracy": 0.5 + number / 100})
        times = {"started": "2026-01-02T03:00:00Z", "finished": f"2026-01-02T03:{minutes:02}:00Z", "attempts": 1}
        self.write(
            number,
            {
                "run.json": json.dumps({"state": "succeeded", **times}),
                "result/metrics.jsonl": "".join(json.dumps(line) + "\n" for line in lines),
                "_SUCCESS": "{}",
            },
        )

    def fail(self, number: int, *values: float, **failure: Any) -> None:
        """Let a trial fail with exit code 1 after these epochs."""
        failure_record = {"exit_code": 1, "last_lines": ["Traceback", "ValueError: [bad] value"], **failure}
        metrics = "".join(
            json.dumps({"epoch": epoch, "val_accuracy": value}) + "\n" for epoch, value in enumerate(values, 1)
        )
        files = {"run.json": '{"state": "started", "started": "2026-01-02T03:00:00Z"}', "logs/rank-0.p-1.log": "log\n"}
        attempt = {
            "attempts/p-1/output/metrics.jsonl": metrics,
            "attempts/p-1/failure.json": json.dumps(failure_record),
        }
        self.write(number, files | attempt)

    def write(self, number: int, files: dict[str, str]) -> None:
        """Put files into a trial's record."""
        write(self.volume.root / "runs" / self.run_ids[number - 1], files)

    def launch(self, number: int, *, deleted: bool = False, suspend: bool = False, **status: Any) -> None:
        """Add a launch of a trial; its object has this status, or is deleted."""
        ledger = self.planned.job_ledger(self.run_ids[number - 1])
        self.ledgers.append(ledger)
        if not deleted:
            self.launches.append(alive(ledger, uid=str(number), suspend=suspend, **status))


def make_project(planned: PlannedSweep, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return the project; commands find it from any folder."""
    project = Project(planned, make_volume(tmp_path, monkeypatch))
    copy_into(tmp_path / "project", "workloads")
    session = Session(tmp_path / "project", "test")
    session.__dict__["loaded"] = SimpleNamespace(settings=settings)

    @contextmanager
    def loader(*place: object) -> Iterator[object]:
        assert place[1:] == ("research", "training")
        project.loaders += 1
        yield LOADER

    def read(*_: object) -> SweepObjects:
        return SweepObjects(launches=project.launches, ledgers=project.ledgers, queueing=project.queueing)

    monkeypatch.setattr(Session, "open", lambda _: session)
    monkeypatch.setattr(sweep_read, "data_loader", loader)
    monkeypatch.setattr(sweep_read, "read_sweep", read)
    monkeypatch.setattr(sweep_status, "utc_now", lambda: NOW)
    return project


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Provide a project of form `jobs` without launches."""
    return make_project(make_planned(), make_settings(sweeps=make_sweeps()), tmp_path, monkeypatch)


@pytest.fixture
def ended(project: Project) -> Project:
    """Let three trials succeed, two of them equally well, and the fourth, which was better, fail."""
    for number in (1, 2, 3):
        project.finish(number, *VALUES[number], val_loss=1 - VALUES[number][0])
        project.launch(number, conditions=[DONE])
    project.fail(4, *VALUES[4])
    project.launch(4, conditions=[make_condition("Failed", reason="BackoffLimitExceeded")])
    return project


def run(*words: str) -> Result:
    """Call `trainstack sweep`."""
    return CliRunner().invoke(app, ["sweep", *words], catch_exceptions=False)


def read_accuracies(project: Project) -> dict[int, float]:
    """Read every trial's best validation accuracy from the files of the volume."""
    best = {}
    for number, run_id in enumerate(project.run_ids, 1):
        file = project.volume.root / "runs" / run_id / "result" / "metrics.jsonl"
        if file.exists():
            lines = [json.loads(line) for line in file.read_text().splitlines()]
            best[number] = max(line["val_accuracy"] for line in lines if "val_accuracy" in line)
    return best


def test_the_best_is_that_of_the_metrics_files(ended: Project) -> None:
    """The first of equal trials is best, and the output notes the tie; only the best trial's test metrics are read."""
    expected = read_accuracies(ended)
    output = json.loads(run("best", "search", "--json", "--top", "3").stdout)
    assert [entry["value"] for entry in output["best"]] == sorted(expected.values(), reverse=True)
    assert [(entry["number"], entry["place"], entry["epoch"]) for entry in output["best"]] == [
        (2, 1, 1),
        (3, 1, 1),
        (1, 3, 2),
    ]
    assert output["best"][0]["run_id"] == ended.run_ids[1]
    assert output["best"][0]["parameters"] == {"batch_size": 64}
    assert output["test"] == {"test_accuracy": 0.52}
    assert output["unranked"] == [{"number": 4, "why": "failed: crashed (exit 1)"}]
    assert ended.loaders == 1


def test_the_best_is_printed_in_sentences(ended: Project) -> None:
    """The output explains the choice, and shows where the model is."""
    result = run("best", "search", "--top", "2")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"The best is trial 2 ({ended.run_ids[1]}): val_accuracy 0.9 in epoch 1, with batch_size 64.",
        "On the test data, for this trial only: test_accuracy 0.52.",
        f"place 1: trial 3 ({ended.run_ids[2]}): val_accuracy 0.9, with batch_size 128",
        f"its record: trainstack fetch {ended.run_ids[1]} -s dev",
        "Trials are ranked by val_accuracy, the highest of each trial's epochs; higher is better.",
        "Trial 3 has the same val_accuracy, 0.9; the trial with the lowest number, 2, is ranked first.",
        "Trial 4 has had a better val_accuracy, 0.99, but does not count: failed: crashed (exit 1).",
    ]


def test_results_are_a_table_and_the_last_words_of_what_failed(ended: Project) -> None:
    """The best trial is first; test metrics are not shown."""
    result = run("results", "search")
    rows = [line.split() for line in result.stdout.splitlines()[:5]]
    assert rows == [
        ["TRIAL", "PLACE", "BATCH_SIZE", "VAL_ACCURACY", "EPOCH", "SECONDS", "STATE"],
        ["2", "1", "64", "0.9", "1", "60", "succeeded"],
        ["3", "1", "128", "0.9", "1", "60", "succeeded"],
        ["1", "3", "32", "0.8", "2", "60", "succeeded"],
        ["4", "-", "512", "-", "-", "245", "failed"],
    ]
    assert f"trial 4 ({ended.run_ids[3]}) failed: crashed (exit 1)" in result.stdout
    assert "  | Traceback\n  | ValueError: [bad] value\n" in result.stdout
    assert "test_" not in result.stdout


def test_csv_parquet_and_json_have_the_same_content(ended: Project, tmp_path: Path) -> None:
    """Each trial is a row with the metrics of its best line; JSON has all lines, and `sweep next` reads it."""
    files = ("--csv", str(tmp_path / "a.csv"), "--parquet", str(tmp_path / "a.parquet"))
    stdout = run("results", "search", "--json", *files).stdout
    with (tmp_path / "a.csv").open() as file:
        rows = list(csv.DictReader(file))
    table = read_parquet(tmp_path / "a.parquet").read_all()
    columns = {name: table[name].to_pylist() for name in table.schema.names}
    assert [*rows[0]] == [*columns]
    for index, row in enumerate(rows):
        assert row == {name: "" if cells[index] is None else str(cells[index]) for name, cells in columns.items()}
    assert columns["number"] == [1, 2, 3, 4]
    assert columns["parameters.batch_size"] == [32, 64, 128, 512]
    assert columns["objective"] == columns["metrics.val_accuracy"] == [0.8, 0.9, 0.9, None]
    assert columns["metrics.val_loss"] == [pytest.approx(0.3), pytest.approx(0.1), pytest.approx(0.1), None]
    assert columns["place"] == [3, 1, 1, None]
    assert columns["state"] == ["succeeded", "succeeded", "succeeded", "failed"]
    assert columns["reason"] == [None, None, None, "crashed (exit 1)"]
    assert columns["seconds"] == [60.0, 60.0, 60.0, 245.0]
    results = from_json(stdout, "search")
    assert [trial["objective"] for trial in json.loads(stdout)["trials"]] == [0.8, 0.9, 0.9, 0.99]
    assert [len(result.metrics) for result in results] == [3, 3, 2, 2]
    assert "test_" not in stdout
    assert results[3].last_lines == ("Traceback", "ValueError: [bad] value")


def test_whole_numbers_of_any_length_are_written(project: Project, tmp_path: Path) -> None:
    """Integers too large for an integer column are text, also in Parquet, and also in a column with fractions."""
    for number, (steps, mixed) in enumerate([(2**63 - 1, 0.5), (2**63, 10**400), (1, 1)], start=1):
        project.finish(number, 0.5, small=number, steps=steps, mixed=mixed)
        project.launch(number, conditions=[DONE])
    files = ("--csv", str(tmp_path / "a.csv"), "--parquet", str(tmp_path / "a.parquet"))
    result = run("results", "search", *files)
    assert result.exit_code == 0, result.output
    table = read_parquet(tmp_path / "a.parquet").read_all()
    assert table["metrics.small"].to_pylist() == [1, 2, 3, None]
    assert table["metrics.steps"].to_pylist() == ["9223372036854775807", "9223372036854775808", "1", None]
    assert table["metrics.mixed"].to_pylist() == ["0.5", str(10**400), "1", None]
    with (tmp_path / "a.csv").open() as file:
        assert [row["metrics.mixed"] for row in csv.DictReader(file)] == ["0.5", str(10**400), "1", ""]


def test_next_reads_the_results_itself(ended: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It uses one loader, and proposes the same sets as from these results in a file."""
    space = tmp_path / "project/sweeps/search/space.yaml"
    write(tmp_path / "project", {"Pulumi.yaml": "", "results.json": run("results", "search", "--json").stdout})
    write(space.parent, {"space.yaml": WIDE})
    monkeypatch.chdir(tmp_path / "project")
    before, ended.loaders = space.read_text(encoding="utf-8"), 0
    result = run("next", "search", "--count", "1", "--json")
    assert result.exit_code == 0, result.output
    assert ended.loaders == 1
    added = yaml.safe_load(space.read_text(encoding="utf-8"))["sets"]
    assert [load["hyperparam_set"] for load in json.loads(result.stdout)] == added
    space.write_text(before, encoding="utf-8")
    assert run("next", "search", "--results", "results.json", "--count", "1", "--json").stdout == result.stdout
    assert ended.loaders == 1


def test_numbers_that_json_cannot_represent_are_null(project: Project) -> None:
    """A trial without any other metric is explained."""
    project.finish(1, float("nan"))
    project.launch(1, conditions=[DONE])
    output = json.loads(run("results", "search", "--json").stdout, parse_constant=pytest.fail)
    assert output["trials"][0]["metrics"][0]["val_accuracy"] is None
    best = run("best", "search")
    assert best.exit_code == 1
    assert (
        "no trial of search can be ranked: its val_accuracy was never a number, but nan; not launched yet"
        in best.stderr
    )


def test_metrics_that_cannot_be_read_leave_the_others(ended: Project) -> None:
    """The reason has file, line and value; an incomplete last line of a running trial is ignored."""
    ended.write(1, {"result/metrics.jsonl": '{"epoch": 1, "val_accuracy": 0.9}\nval_accuracy=1.0\n'})
    output = json.loads(run("best", "search", "--json").stdout)
    (why,) = [entry["why"] for entry in output["unranked"] if entry["number"] == 1]
    assert re.match(rf"{ended.run_ids[0]}/result/metrics\.jsonl:2: invalid JSON .*'val_accuracy=1\.0'", why)
    ended.write(4, {"attempts/p-1/output/metrics.jsonl": '{"epoch": 1, "val_accuracy": 0.4}\n{"epoch": 2, "val_a'})
    output = json.loads(run("results", "search", "--json").stdout)
    assert output["trials"][3]["metrics"] == [{"epoch": 1, "val_accuracy": 0.4}]


ODD = (
    *('"two"', "1e400", "-1", "[1]", '{"a": []}', "null", '"2026-01-01T00:00:00"', '"9999-12-31T23:59:59-14:00"'),
    *("[" * 200_000, "[" * 60 + "]" * 60, "9" * 5000, "9" * 400, '"\\ud800"', '""'),
)
"""Values that no wrapper writes, as JSON."""


def test_records_of_any_content_are_shown(project: Project, tmp_path: Path) -> None:
    """A record that its own program has overwritten does not hide the other trials."""
    files = ("--csv", str(tmp_path / "a.csv"), "--parquet", str(tmp_path / "a.parquet"))
    for values in zip(ODD[::2], ODD[1::2], strict=True):
        project.launches.clear()
        for number, value in enumerate(values, 1):
            every = f'"attempts": {value}, "started": {value}, "finished": {value}, "definition": {value}'
            metrics = f'{{"epoch": {value}, "val_accuracy": 0.5, "other": {value}}}\n'
            project.write(number, {"run.json": f"{{{every}}}", "result/metrics.jsonl": metrics, "_SUCCESS": value})
            project.launch(number, conditions=[DONE])
            failure = f'{{"exit_code": {value}, "last_lines": {value}, "finished": {value}, "withdrawn": {value}}}'
            attempt = {"attempts/p-1/failure.json": failure, "attempts/p-1/output/metrics.jsonl": f"{value}\n"}
            project.write(number + 2, {"run.json": f'{{"started": {value}}}', **attempt})
            project.launch(number + 2, conditions=[make_condition("Failed", reason="BackoffLimitExceeded")])
        for words in (("results", "--json", *files), ("results",), ("best", "--json")):
            result = run(words[0], "search", *words[1:])
            assert result.exit_code in (0, 1), [value[:80] for value in values]
            assert "succeeded" in result.stdout or words[0] == "best"
            result.output.encode()


def test_a_managed_trial_that_only_prints_is_read_from_its_recorded_log(project: Project) -> None:
    """All attempts count; the log is not read if a metrics file exists."""
    project.finish(1, 0.7)
    project.launch(1, conditions=[DONE])
    log = "epoch 1/2 done val_loss 0.3 val_accuracy 0.9\n"
    files = {"run.json": '{"state": "succeeded"}', "_SUCCESS": "{}", "logs/rank-0.a-1.log": log}
    project.write(2, {**files, "logs/rank-0.b-1.log": "epoch 2/2 done val_loss 0.2 val_accuracy 0.95\n"})
    project.write(1, {"logs/rank-0.a-1.log": log.replace("0.9", "0.99")})
    project.launch(2, conditions=[DONE])
    trials = json.loads(run("results", "search", "--json").stdout)["trials"]
    assert [trial["objective"] for trial in trials[:2]] == [0.7, 0.95]
    assert trials[1]["metrics"] == [
        {"epoch": 1, "val_loss": 0.3, "val_accuracy": 0.9},
        {"epoch": 2, "val_loss": 0.2, "val_accuracy": 0.95},
    ]


@pytest.mark.usefixtures("undrawn")
def test_the_report_is_a_page_and_its_pictures(ended: Project, tmp_path: Path) -> None:
    """The default folder is results/<sweep>/; few trials have no importance plot."""
    result = run("report", "search")
    folder = tmp_path / "project" / "results" / "search"
    names = ["report.html", "learning-curves.png", "parallel-coordinates.png", "parameters.png"]
    assert result.stdout.splitlines() == [str(folder / name) for name in names]
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)
    page = (folder / "report.html").read_text()
    assert "The best is trial 2" in page
    assert "ValueError: [bad] value" in page
    output = json.loads(run("report", "search", "--to", str(tmp_path / "there"), "--json").stdout)
    assert output == {"sweep": "search", "files": [str(tmp_path / "there" / name) for name in names]}


def test_status_is_a_grid_and_needs_no_volume(project: Project) -> None:
    """It reads live objects: a loader would wait in the queue behind the trials."""
    project.launch(
        1,
        startTime="2026-01-02T03:00:00Z",
        completionTime="2026-01-02T03:40:00Z",
        conditions=[DONE],
    )
    project.launch(2, startTime="2026-01-02T03:50:00Z")
    project.launch(3, suspend=True)
    project.queueing["3"] = Queueing(workload=make_pending("LocalQueue research is stopped"), local_queue=None)
    result = run("status", "search").stdout.splitlines()
    assert result == [
        "search, form jobs, 4 trials: 1 succeeded, 1 running, 1 queued, 1 waiting; about 1h50m left",
        "1  ●◐○·",
        "● 1 succeeded  ◐ 1 running  ○ 1 queued  · 1 waiting",
        "queued 3 (batch_size 128): queue research is stopped (stopPolicy): ask its owner to resume it",
    ]
    assert project.loaders == 0
    data = json.loads(run("status", "search", "--json").stdout)
    assert (data["counts"]["running"], data["seconds_left"]) == (1, 6600)
    assert [trial["state"] for trial in data["trials"]] == ["succeeded", "running", "queued", "waiting"]


def test_status_reads_the_volume_for_trials_whose_objects_are_deleted(project: Project) -> None:
    """It reads the volume once: ended trials do not change."""
    project.finish(1, 0.5)
    project.fail(2, exit_code=143, stopped_by_sigterm=True, finished="2026-01-02T03:30:00Z")
    for number in (1, 2, 3):
        project.launch(number, deleted=True)
    stdout = run("status", "search").stdout
    assert "4 trials: 1 succeeded, 1 waiting, 1 failed, 1 stopped" in stdout
    assert "failed 2 (batch_size 64): stopped by SIGTERM: evicted, deleted, or past its deadline" in stdout
    assert "stopped 3 (batch_size 128): its object was deleted and it has no record: it did not start" in stdout
    assert project.loaders == 1
    trials = json.loads(run("status", "search", "--json").stdout)["trials"]
    assert [trial["finished"] for trial in trials] == ["2026-01-02T03:01:00Z", "2026-01-02T03:30:00Z", None, None]


def test_watching_ends_with_the_last_trial(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch includes trials that wait for a slot, also while none runs: another `up` launches them."""
    project.launch(1, startTime="2026-01-02T03:50:00Z")
    reads = 0

    def finish_trials(_: float) -> None:
        nonlocal reads
        reads += 1
        project.launches.clear()
        project.ledgers.clear()
        for number in range(1, 2 if reads == 1 else 5):
            project.launch(number, conditions=[DONE])

    monkeypatch.setattr(time, "sleep", finish_trials)
    result = run("status", "search", "--watch")
    assert (result.exit_code, reads) == (0, 2)
    assert "4 trials: 4 succeeded" in result.stdout


def test_trials_that_wait_alone_are_reported_with_the_command_that_launches_them(project: Project) -> None:
    """No time left is estimated: it depends on the next `up`."""
    project.launch(1, conditions=[DONE])
    result = run("status", "search").stdout.splitlines()
    assert (
        result[0] == "search, form jobs, 4 trials: 1 succeeded, 3 waiting; `trainstack up` launches the waiting trials"
    )
    assert json.loads(run("status", "search", "--json").stdout)["seconds_left"] is None


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["results", "other"], 1, "test has no sweep 'other' in trainstack:sweeps (its sweeps: search)"),
        (["status", "search", "--watch", "--json"], 2, "--watch and --json cannot be combined"),
        (["results", "search", "--csv", "no/such/folder/a.csv"], 1, "cannot write no/such/folder/a.csv"),
    ],
)
def test_a_persons_mistake_ends_in_one_message(project: Project, words: list[str], code: int, message: str) -> None:
    """The message has the remedy; stdout is empty."""
    result = run(*words)
    assert result.exit_code == code
    assert message in result.stderr
    assert result.stdout == ""


def test_a_cluster_that_does_not_answer_is_reported(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The failure is not reported as a sweep without launches."""

    def fail(*_: object) -> None:
        raise ClusterError("the cluster is away")

    monkeypatch.setattr(sweep_read, "read_sweep", fail)
    for command in ("status", "results", "best", "report"):
        result = run(command, "search")
        assert (result.exit_code, result.stdout) == (5, "")
        assert "error: the cluster is away" in result.stderr


RECORD = TrialRecord(finished=False, attempts=2, facts={}, metrics="", failure={}, last_lines=("the end",))
CASES: list[tuple[str, LiveTrial | None, TrialRecord | None, str, str]] = [
    ("nothing knows it", None, None, "waiting", ""),
    ("a record alone", None, RECORD, "waiting", "it has an unfinished record and no object in the cluster"),
    ("finished", LiveTrial(state="running"), TrialRecord(**{**vars(RECORD), "finished": True}), "succeeded", ""),
    ("failed", LiveTrial(state="failed", reason="deadline"), RECORD, "failed", "deadline"),
    (
        "failed, of which nothing is left",
        LiveTrial(state="failed", controller="BackoffLimitExceeded"),
        RECORD,
        "failed",
        "BackoffLimitExceeded",
    ),
    ("gone", LiveTrial(state="gone"), RECORD, "failed", "its object was deleted before it ended"),
    (
        "withdrawn while it ran",
        LiveTrial(state="gone"),
        TrialRecord(**{**vars(RECORD), "failure": {"exit_code": 143, "withdrawn": True}}),
        "stopped",
        "its set was removed, and `stop` named it",
    ),
    ("withdrawn before", LiveTrial(state="succeeded"), RECORD, "stopped", "its set was removed before it started"),
    ("lost", LiveTrial(state="succeeded"), None, "succeeded", "its record was deleted from the volume"),
    ("stopped", LiveTrial(state="stopped", reason="the target"), None, "stopped", "the target"),
]


@pytest.mark.parametrize(
    ("live", "record", "state", "reason"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_the_state_follows_from_record_and_cluster(
    live: LiveTrial | None, record: TrialRecord | None, state: str, reason: str
) -> None:
    """A finished record takes precedence."""
    planned = make_indexed()
    trial = sweep_read.join_trial(
        *next(iter(planned.trials.items())), live, record, planned.sweep, record_was_read=True
    )
    assert (trial.state, trial.reason) == (state, reason)
    assert trial.last_lines == (("the end",) if state == "failed" else ())
    assert (trial.number, trial.parameters) == (1, {"batch_size": 32})


def test_the_time_left_is_unknown_until_a_trial_has_ended(project: Project) -> None:
    """It is also unknown while no trial runs; a trial that takes longer than the others is reported."""
    project.launch(1, startTime="2026-01-02T03:50:00Z")
    assert "the time left is unknown: no trial has succeeded" in run("status", "search").stdout
    project.launches.clear()
    project.ledgers.clear()
    began = NOW - timedelta(minutes=30)
    project.launch(2, startTime=began.isoformat(), completionTime=NOW.isoformat(), conditions=[DONE])
    project.launch(3, suspend=True)
    assert "the time left is unknown: no trial is running" in run("status", "search").stdout
    project.launches.pop()
    project.launch(4, startTime=(NOW - timedelta(hours=2)).isoformat())
    project.ledgers = project.ledgers[:1] + project.ledgers[2:]
    for number in (1, 3):
        project.launch(number, startTime=began.isoformat(), completionTime=NOW.isoformat(), conditions=[DONE])
    assert "the running trials take longer than the others did" in run("status", "search").stdout
