"""`trainstack forecast`: its output and files, and its errors."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.unit.kueue.make import make_admitted
from trainstack.cli.app import app
from trainstack.cli.commands import forecast as command
from trainstack.cli.output import console
from trainstack.forecast.live_workloads import LiveWorkloads
from trainstack.kueue.from_objects import stack_model
from trainstack.kueue.model import QueueState
from trainstack.live.client import ClusterError
from trainstack.settings.loading.load import load
from trainstack.settings.model import Settings
from trainstack.stack_objects.stack_objects import StackObjects

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
    """Create a project with three runs on a queue with room for one, and make it the current folder."""
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
    """Return the runs of the JSON by name."""
    result = forecast("--json", *words)
    assert result.exit_code == 0, result.output
    return {run["name"]: run for run in json.loads(result.stdout)["runs"]}


def test_it_prints_when_each_run_starts_and_ends() -> None:
    """The output has a line for each run, one for each flavor, and a sentence."""
    result = forecast()
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    endless = "no end is known: neither expectedDurationSeconds nor activeDeadlineSeconds is set"
    assert lines[:4] == [
        "RUN QUEUE START END WAIT TAKES GPUS GPU-H COST, EUR FLAVORS NOTE",
        "first lab now +2h 0s 2h 2 4.0 6.00 a100",
        "second lab +2h +3h 2h \u2264 1h 2 2.0 3.00 a100 ends at its deadline at the latest",
        f"third lab +3h unbounded 3h unbounded 2 - - a100 {endless}",
    ]
    assert "2 runs in 3h, 6.0 GPU-hours, 9.00 EUR; the end of 1 run is unknown." in result.stdout
    assert "a100 nvidia.com/gpu 2 2 2.0 100%" in lines
    assert "a100 cpu 8 cores 1 core 1.0 cores 12%" in lines


def test_columns_that_would_be_empty_are_left_out(root: Path) -> None:
    """Without prices there is no cost, and without GPUs no GPU-hours; memory has its unit."""
    text = ENVIRONMENT.replace("prices: [{name: a100, perHour: {nvidia.com/gpu: 1.5}}]", "prices: []")
    text = text.replace("nvidia.com/gpu", "memory").replace("nominalQuota: 2}", "nominalQuota: 2Gi}")
    (root / "Pulumi.lab.yaml").write_text(text)
    base = BASE.replace("{cpu: 1}, limits: {nvidia.com/gpu: 2}", "{cpu: 1, memory: 1Gi}")
    (root / "workloads/base/workload.yaml").write_text(base)
    lines = [" ".join(line.split()) for line in forecast().stdout.splitlines()]
    assert lines[0] == "RUN QUEUE START END WAIT TAKES FLAVORS NOTE"
    assert any(line.startswith("a100 memory 2 GiB 2 GiB ") for line in lines)


def test_a_run_that_never_fits_is_counted_as_that(root: Path) -> None:
    """The end of the other runs may be unknown. Sentences, JSON and page agree."""
    text = ENVIRONMENT.replace(
        "{name: second, from: base,", "{name: second, from: base, resources: {limits: {nvidia.com/gpu: 3}},"
    )
    (root / "Pulumi.lab.yaml").write_text(text)
    sentence = "1 run in 2h, 4.0 GPU-hours, 6.00 EUR; 1 run never fits; the end of 1 run is unknown."
    assert sentence in forecast("--html", "forecast.html").stdout
    data = json.loads(forecast("--json").stdout)
    assert (data["never_fits"], data["endless"]) == (1, 1)
    assert {run["name"]: run["never_fits"] for run in data["runs"]} == {"first": False, "second": True, "third": False}
    page = (root / "forecast.html").read_text()
    assert sentence in page
    assert '<tr class="alarm"><th scope="row">second</th>' in page
    assert page.count('<div class="lane alarm">') == 1


def test_a_narrow_terminal_has_the_notes_below(monkeypatch: pytest.MonkeyPatch) -> None:
    """No line is longer than the terminal is wide, and no word of a note is cut."""
    monkeypatch.setattr(console.out, "_force_terminal", True)
    monkeypatch.setattr(console.out, "_width", 80)
    lines = forecast().stdout.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    assert any(" ".join(line.split()).startswith("second ends at its deadline") for line in lines)
    assert "NOTE" not in lines[0]


def test_a_long_name_is_broken_and_no_figure_is(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal is too narrow for both."""
    monkeypatch.setattr(console.out, "_force_terminal", True)
    monkeypatch.setattr(console.out, "_width", 80)
    long = "third-of-the-runs-with-a-long-name"
    (root / "Pulumi.lab.yaml").write_text(ENVIRONMENT.replace("third", long))
    lines = forecast().stdout.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("third-"))
    first, *others = (line.split() for line in lines[place : place + 3])
    assert first[1:] == ["lab", "+3h", "unbounded", "3h", "unbounded", "2", "-", "-", "a100"]
    assert first[0] + "".join(words[0] for words in others) == long


def test_the_help_shows_the_examples_whole() -> None:
    """Brackets are not interpreted as markup in the examples."""
    result = forecast("--help")
    assert "--set 'workloads.runs[digits].priority=low'" in result.stdout
    assert "--nodes a100=4:cpu=64,nvidia.com/gpu=8 --json" in result.stdout


def test_json_has_all_of_it() -> None:
    """Times are in seconds from now; unknown ones are null."""
    forecasts = runs()
    assert (forecasts["second"]["start"], forecasts["second"]["end"], forecasts["second"]["source"]) == (
        7200.0,
        10800.0,
        "deadline",
    )
    assert (forecasts["third"]["end"], forecasts["third"]["gpu_hours"], forecasts["first"]["cost"]) == (None, None, 6.0)
    assert json.loads(forecast("--json").stdout)["before"] is None


def test_a_tried_change_is_compared_with_the_present() -> None:
    """Quota, nodes, priorities and durations can be tried; the files are not changed."""
    quota = "queues.clusterQueues[lab].resourceGroups[0].flavors[a100].resources[nvidia.com/gpu].nominalQuota=4"
    forecasts = runs("--set", quota)
    assert (forecasts["first"]["start"], forecasts["second"]["start"]) == (0.0, 0.0)
    result = forecast("--set", quota, "--set", "workloads.runs[third].expectedDurationSeconds=60")
    assert "3 runs in 2h, 6.0 GPU-hours, 9.05 EUR." in result.stdout
    assert "Without the changes: 2 runs in 3h, 6.0 GPU-hours, 9.00 EUR; the end of 1 run is unknown." in result.stdout
    assert "A run waits 20m on average, and 1h40m without the changes." in result.stdout
    assert ["second", "now", "+2h", "+1h", "+3h"] in [line.split() for line in result.stdout.splitlines()]
    held_back = runs("--nodes", "a100=1:cpu=8,nvidia.com/gpu=1")
    assert held_back["first"]["note"] == "admitted, but no node has room for its pods"
    before = json.loads(forecast("--json", "--nodes", "a100=1:cpu=8,nvidia.com/gpu=2").stdout)["before"]
    assert before["makespan"] == 10800.0
    assert Path("Pulumi.lab.yaml").read_text() == ENVIRONMENT


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("workloads.runs[first].priority=hihg", "priority class 'hihg' is not declared; did you mean high?"),
        ("workloads.runs[first].queue=lba", "local queue 'lba' is not declared in namespace lab; did you mean lab?"),
        ("workloads.runs[first].dependsOn=[secnd]", "namespace lab has no other run 'secnd'; did you mean second?"),
        ("queues.clusterQueues[lab].cohort=all", "cohort 'all' is not declared"),
    ],
)
def test_a_name_that_nobody_declares_is_refused(root: Path, change: str, message: str) -> None:
    """The plan would be of other runs; `up` refuses the name too. The message has the place, also of a tried value."""
    text = ENVIRONMENT.replace("queues:", "queues:\n    priorityClasses: [{name: high, value: 9}]")
    (root / "Pulumi.lab.yaml").write_text(text)
    assert forecast("--set", "workloads.runs[first].priority=high").exit_code == 0
    result = forecast("--set", change)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"--set {change}" in " ".join(result.stderr.split())
    assert message in " ".join(result.stderr.split())


def test_a_silenced_name_is_another_owners(root: Path) -> None:
    """The reason says who declares it, and the run is planned."""
    silence = "  trainstack:checks:\n    silenced: [{rule: priority-unknown, path: workloads, reason: The owner's.}]\n"
    (root / "Pulumi.lab.yaml").write_text(ENVIRONMENT + silence)
    assert runs("--set", "workloads.runs[first].priority=high")["first"]["start"] == 0.0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--set", "queues.clusterQueues[labb].cohort=x"), 1, "--set queues.clusterQueues[labb].cohort=x"),
        (("--nodes", "a100=2"), 1, "--nodes a100=2: no node of flavor a100 is known; write its resources"),
        (("--png", "nowhere/forecast.png"), 1, "cannot write nowhere/forecast.png: No such file or directory"),
        (("--cluster",), 5, "no kubeconfig at"),
    ],
)
def test_what_cannot_be_done_is_reported(words: tuple[str, ...], code: int, message: str) -> None:
    """The error has a remedy and no traceback."""
    result = forecast(*words)
    assert (result.exit_code, message in result.output) == (code, True), result.output
    assert "Traceback" not in result.output


def test_pictures_are_written(root: Path) -> None:
    """The files are a PNG and a self-contained page, which shows every run."""
    result = forecast("--png", "forecast.png", "--html", "forecast.html")
    assert result.exit_code == 0, result.output
    assert (root / "forecast.png").read_bytes().startswith(b"\x89PNG")
    page = (root / "forecast.html").read_text()
    assert all(text in page for text in ("<b>first</b>", "<b>third</b>", "a100", "ends at its deadline at the latest"))
    assert "written: forecast.html" in result.output


def test_the_page_compares_a_tried_change_with_the_present(root: Path) -> None:
    """It has the sentences and the changed runs of the terminal, and the present times below the bars."""
    change = ("--set", "workloads.runs[first].expectedDurationSeconds=3600", "--html", "forecast.html")
    assert forecast(*change).exit_code == 0
    page = (root / "forecast.html").read_text()
    assert "Without the changes: 2 runs in 3h" in page
    assert '<th scope="row">second</th><td data-head="start">+1h</td><td data-head="before">+2h</td>' in page
    assert page.count('<i class="unchanged" style=') == 3
    assert forecast("--html", "forecast.html").exit_code == 0
    assert "unchanged" not in (root / "forecast.html").read_text().partition("<main>")[2]


def test_earlier_records_give_the_duration_of_a_run(root: Path) -> None:
    """The estimate is the median of records with equal program, arguments and pods; a declared duration precedes it."""
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
    forecast_of_third = runs()["third"]
    assert (forecast_of_third["duration"], forecast_of_third["source"]) == (1200.0, "measured")
    assert "~ 20m" in forecast().stdout


def test_a_forecast_can_begin_with_what_the_cluster_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster is read once, also if a changed setting is tried."""
    read = []

    def held_by(_: object) -> Any:
        read.append(1)

        def held(settings: Settings) -> LiveWorkloads:
            model = stack_model(StackObjects(settings))
            other = make_admitted("other", "lab", "a100", reserved_at=940.0, cpu=8)
            return LiveWorkloads(
                snapshot=QueueState(model=model, admitted=(other,)), now=1000.0, deadlines={"ns/other": 100.0}
            )

        return held

    monkeypatch.setattr(command, "live_workloads_reader", held_by)
    forecasts = runs("--cluster")
    other = forecasts["other"]
    assert (other["start"], other["end"], other["declared"]) == (-60.0, 40.0, False)
    assert forecasts["first"]["start"] == 40.0
    assert read == [1]
    runs("--cluster", "--set", "workloads.runs[first].expectedDurationSeconds=60")
    assert read == [1, 1]


@pytest.mark.parametrize(("classes", "code"), [({"high": 9}, 1), ({"high": 9, "urgent": 10}, 0), (None, 0)])
def test_a_tenants_priority_must_be_a_class_of_the_cluster(
    root: Path, monkeypatch: pytest.MonkeyPatch, classes: dict[str, int] | None, code: int
) -> None:
    """The files cannot show it. Where the classes may not be read, the name is accepted."""
    tenant = ENVIRONMENT[: ENVIRONMENT.index("    namespaces:")] + "    profile: tenant\n    layers: [training]\n"
    tenant += "    existing: {namespaces: [lab]}\n  trainstack:workloads:\n"
    tenant += "    runs: [{name: first, from: base, priority: urgent}]\n"
    (root / "Pulumi.lab.yaml").write_text(tenant)
    (root / "Pulumi.owner.yaml").write_text(ENVIRONMENT)
    model = replace(stack_model(StackObjects(load(root, "owner"))), priorities=classes)
    held = LiveWorkloads(snapshot=QueueState(model=model, admitted=()), now=1000.0)
    monkeypatch.setattr(command, "live_workloads_reader", lambda _: lambda _: held)
    result = forecast("--cluster", "--json")
    assert result.exit_code == code, result.output
    message = (
        "workloads.runs[first].priority: the cluster does not have WorkloadPriorityClass 'urgent'; valid names: high"
    )
    assert (message in result.stderr) == (code == 1)


def test_a_cluster_that_does_not_answer_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is that of other commands."""

    def held_by(_: object) -> Any:
        raise ClusterError("cannot reach the cluster; is it up?")

    monkeypatch.setattr(command, "live_workloads_reader", held_by)
    result = forecast("--cluster")
    assert (result.exit_code, "error: cannot reach the cluster; is it up?" in result.output) == (5, True)
