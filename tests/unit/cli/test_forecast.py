"""`trainstack forecast`: what it prints and writes, and what it says where it cannot."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.unit.checks.admission.make import make_admitted
from trainstack.cli import console
from trainstack.cli import forecast as command
from trainstack.cli.app import app
from trainstack.declared.declared import Declared
from trainstack.forecast.live_workloads import LiveWorkloads
from trainstack.kueue.from_objects import declared_model
from trainstack.kueue.model import QueueState
from trainstack.live.client import ClusterError
from trainstack.settings.model import Settings

ENVIRONMENT = """\
config:
  trainstack:environment:
    namespaces: [{name: lab}]
  trainstack:queues:
    flavors: [{name: a100}]
    clusterQueues:
      - name: lab
        resourceGroups:
          - coveredResources: [cpu, nvidia.com/gpu]
            flavors:
              - {name: a100, resources: [{name: cpu, nominalQuota: 8}, {name: nvidia.com/gpu, nominalQuota: 2}]}
    localQueues: [{name: lab, namespace: lab, clusterQueue: lab}]
  trainstack:plan:
    currency: EUR
    prices: [{name: a100, perHour: {nvidia.com/gpu: 1.5}}]
  trainstack:workloads:
    runs:
      - {name: first, from: base, expectedDurationSeconds: 7200}
      - {name: second, from: base, activeDeadlineSeconds: 3600}
      - {name: third, from: base}
"""
BASE = """\
kind: Job
namespace: lab
queue: lab
managed: false
image: {name: "example.org/train:1"}
resources: {requests: {cpu: 1}, limits: {nvidia.com/gpu: 2}}
"""


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with three runs on a queue with room for one, as the current folder."""
    (tmp_path / "Pulumi.yaml").touch()
    (tmp_path / "Pulumi.lab.yaml").write_text(ENVIRONMENT)
    (tmp_path / "workloads/base").mkdir(parents=True)
    (tmp_path / "workloads/base/workload.yaml").write_text(BASE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    return tmp_path


def forecast(*words: str) -> Result:
    """Run the command on the environment."""
    return CliRunner().invoke(app, ["forecast", "-s", "lab", *words])


def runs(*words: str) -> dict[str, dict[str, Any]]:
    """The runs of its JSON, by name."""
    done = forecast("--json", *words)
    assert done.exit_code == 0, done.output
    return {each["name"]: each for each in json.loads(done.stdout)["runs"]}


def test_it_tells_who_starts_and_ends_when() -> None:
    """A line for each run, one for each flavor, and a sentence."""
    done = forecast()
    assert done.exit_code == 0, done.output
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    endless = "no end is known: neither expectedDurationSeconds nor activeDeadlineSeconds is set"
    assert lines[:4] == [
        "RUN QUEUE START END WAIT TAKES GPUS GPU-H COST FLAVORS NOTE",
        "first lab now +2h 0s 2h 2 4.0 6.00 a100",
        "second lab +2h +3h 2h \u2264 1h 2 2.0 3.00 a100 ends at its deadline at the latest",
        f"third lab +3h unbounded 3h unbounded 2 - - a100 {endless}",
    ]
    assert "2 runs in 3h, 6.0 GPU-hours, 9.00 EUR; the end of 1 run is unknown." in done.stdout
    assert "a100 nvidia.com/gpu 2 2 2.0 100%" in lines


def test_a_narrow_terminal_has_the_notes_below(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no line of the table is broken."""
    monkeypatch.setattr(console.out, "_force_terminal", True)
    monkeypatch.setattr(console.out, "_width", 100)
    lines = forecast().stdout.splitlines()
    assert any(line.startswith("second: ends at its deadline") for line in lines)
    assert "NOTE" not in lines[0]


def test_a_long_name_is_broken_and_no_figure_is(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the terminal is too narrow for both."""
    monkeypatch.setattr(console.out, "_force_terminal", True)
    monkeypatch.setattr(console.out, "_width", 80)
    long = "third-of-the-runs-with-a-long-name"
    (root / "Pulumi.lab.yaml").write_text(ENVIRONMENT.replace("third", long))
    lines = forecast().stdout.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("third-"))
    first, second = lines[place].split(), lines[place + 1].split()
    assert first[1:] == ["lab", "+3h", "unbounded", "3h", "unbounded", "2", "-", "-", "a100"]
    assert first[0] + second[0] == long


def test_the_help_shows_the_examples_whole() -> None:
    """Brackets are no markup there."""
    done = forecast("--help")
    assert "--set 'workloads.runs[digits].priority=low'" in done.stdout
    assert "--nodes a100=4:cpu=64,nvidia.com/gpu=8 --json" in done.stdout


def test_json_tells_all_of_it() -> None:
    """In seconds from now; what is not known is null."""
    found = runs()
    assert (found["second"]["start"], found["second"]["end"], found["second"]["source"]) == (
        7200.0,
        10800.0,
        "deadline",
    )
    assert (found["third"]["end"], found["third"]["gpu_hours"], found["first"]["cost"]) == (None, None, 6.0)
    assert json.loads(forecast("--json").stdout)["before"] is None


def test_what_if_is_told_beside_what_is() -> None:
    """Quota, nodes, priorities, durations; the files stay as they are."""
    quota = "queues.clusterQueues[lab].resourceGroups[0].flavors[a100].resources[nvidia.com/gpu].nominalQuota=4"
    found = runs("--set", quota)
    assert (found["first"]["start"], found["second"]["start"]) == (0.0, 0.0)
    done = forecast("--set", quota, "--set", "workloads.runs[third].expectedDurationSeconds=60")
    assert "3 runs in 2h, 6.0 GPU-hours, 9.05 EUR." in done.stdout
    assert "Without the changes: 2 runs in 3h, 6.0 GPU-hours, 9.00 EUR; the end of 1 run is unknown." in done.stdout
    assert "A run waits 20m on average, and 1h40m without the changes." in done.stdout
    held_back = runs("--nodes", "a100=1:cpu=8,nvidia.com/gpu=1")
    assert held_back["first"]["note"] == "admitted, but no node has room for its pods"
    before = json.loads(forecast("--json", "--nodes", "a100=1:cpu=8,nvidia.com/gpu=2").stdout)["before"]
    assert before["makespan"] == 10800.0
    assert Path("Pulumi.lab.yaml").read_text() == ENVIRONMENT


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--set", "queues.clusterQueues[labb].cohort=x"), 1, "--set queues.clusterQueues[labb].cohort=x"),
        (("--nodes", "a100=2"), 1, "--nodes a100=2: no node of flavor a100 is known; write its resources"),
        (("--png", "nowhere/forecast.png"), 1, "cannot write nowhere/forecast.png: No such file or directory"),
        (("--cluster",), 5, "no kubeconfig at"),
    ],
)
def test_what_cannot_be_done_is_told(words: tuple[str, ...], code: int, said: str) -> None:
    """With the remedy, and never a stack trace."""
    done = forecast(*words)
    assert (done.exit_code, said in done.output) == (code, True), done.output
    assert "Traceback" not in done.output


def test_pictures_are_written(root: Path) -> None:
    """A PNG, and a page that needs nothing but itself; every run is on it."""
    done = forecast("--png", "forecast.png", "--html", "forecast.html")
    assert done.exit_code == 0, done.output
    assert (root / "forecast.png").read_bytes().startswith(b"\x89PNG")
    page = (root / "forecast.html").read_text()
    assert all(each in page for each in ("<b>first</b>", "<b>third</b>", "a100", "ends at its deadline at the latest"))
    assert "written: forecast.html" in done.output


def test_earlier_records_tell_how_long_a_run_takes(root: Path) -> None:
    """The median of those of the same program, arguments and pods; what a person says comes before."""
    definition = {"workload": "third", "command": [], "args": [], "env": {}}
    facts = {"state": "succeeded", "attempts": 1, "definition": definition, "started": "2026-11-21T12:00:00Z"}
    for number, minutes in enumerate((10, 20, 50)):
        folder = root / "results" / f"third-{number}"
        folder.mkdir(parents=True)
        (folder / "run.json").write_text(json.dumps({**facts, "finished": f"2026-11-21T12:{minutes}:00Z"}))
    other = root / "results" / "third-9"
    other.mkdir()
    changed = {**facts, "finished": "2026-11-21T12:59:00Z", "definition": {**definition, "args": ["--more"]}}
    (other / "run.json").write_text(json.dumps(changed))
    found = runs()["third"]
    assert (found["duration"], found["source"]) == (1200.0, "measured")
    assert "~ 20m" in forecast().stdout


def test_a_forecast_can_begin_with_what_the_cluster_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster is read once, also where something is tried."""
    read = []

    def held_by(_: object) -> Any:
        read.append(1)

        def held(settings: Settings) -> LiveWorkloads:
            model = declared_model(Declared(settings))
            other = make_admitted("other", "lab", "a100", reserved=940.0, cpu=8)
            return LiveWorkloads(
                snapshot=QueueState(model=model, admitted=(other,)), now=1000.0, limits={"ns/other": 100.0}
            )

        return held

    monkeypatch.setattr(command, "held_by", held_by)
    found = runs("--cluster")
    assert (found["other"]["start"], found["other"]["end"], found["other"]["declared"]) == (-60.0, 40.0, False)
    assert found["first"]["start"] == 40.0
    assert read == [1]
    runs("--cluster", "--set", "workloads.runs[first].expectedDurationSeconds=60")
    assert read == [1, 1]


def test_a_cluster_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """As other commands do."""

    def held_by(_: object) -> Any:
        raise ClusterError("cannot reach the cluster; is it up?")

    monkeypatch.setattr(command, "held_by", held_by)
    done = forecast("--cluster")
    assert (done.exit_code, "error: cannot reach the cluster; is it up?" in done.output) == (5, True)


def test_the_former_name_still_works_and_names_the_new_one() -> None:
    """For one release, with the same output; the help does not list it."""
    done = CliRunner().invoke(app, ["plan", "-s", "lab", "--json"])
    assert (done.exit_code, done.stdout) == (0, forecast("--json").stdout)
    assert "`trainstack plan` is now `trainstack forecast`; the next release removes" in done.stderr
    assert "\n│ plan " not in CliRunner().invoke(app, ["--help"]).stdout
