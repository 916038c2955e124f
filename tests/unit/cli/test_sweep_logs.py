"""A sweep of a program that only prints.

Its objective is read from logs, and from ledgers once the pods are deleted.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.unit.cli.commands.test_sweep_results import DONE, Project, make_project, run
from tests.unit.live_objects import NOW, Body, make_condition
from tests.unit.make import make_run, make_settings, make_space, make_sweeps
from tests.unit.sweeps.planned_sweeps import make_planned
from tests.unit.sweeps.test_status import make_attempt
from trainstack.cli import sweep_logs, sweep_read
from trainstack.settings.model import Settings
from trainstack.settings.search_space.space import Objective
from trainstack.sweeps.status import SweepObjects

T = TypeVar("T")
MAIN = """\
import os, yaml
sets = yaml.safe_load(open("hyperparams.yml"))
batch_size = sets[int(os.environ["JOB_ID"]) - 1]["hyperparam_set"]["batch_size"]
print("training with batch size", batch_size)
for epoch in 1, 2:
    print(f"epoch {epoch}: validation loss {batch_size / 100 / epoch:.3f}")
    print(f"accuracy={0.9 + epoch / 100 - abs(batch_size - 64) / 1000:.4f}")
"""
"""The program finds its set as the published program does, and only prints its figures."""
SIZES = (32, 64, 128, 512)
FORBIDDEN = b'Error from server (Forbidden): configmaps "x" is forbidden: User "ada" cannot patch resource\nand more'


class PrintingProject(Project):
    """The sweep of unmanaged Jobs of that program, their pods and logs, and ledgers in a cluster."""

    pods: dict[str, Body]
    logs: dict[str, str]
    metadata: dict[str, Body]
    reads: int
    patches: int
    may_patch: bool
    problem: str = ""
    """The reason why logs are not read."""

    def succeed(self, number: int, log: str) -> None:
        """Let a trial succeed and keep its pod."""
        self.launch(number, conditions=[DONE], startTime=NOW, completionTime=NOW)
        self.add_pod(number, log, "Succeeded")

    def add_pod(self, number: int, log: str, phase: str) -> None:
        """Add a pod of the latest launch, and its log."""
        run_id, ledger = self.run_ids[number - 1], self.ledgers[-1]
        self.pods[run_id] = make_attempt(ledger, NOW, phase)
        self.logs[run_id] = log
        self.metadata[run_id] = {"name": f"run-{run_id}", "namespace": "research", "uid": run_id}

    def remove_objects(self) -> None:
        """Remove all Jobs, as their TTL does."""
        self.launches.clear()
        self.pods.clear()
        self.logs.clear()

    def objects(self) -> SweepObjects:
        """Return the objects of the cluster."""
        return SweepObjects(
            launches=self.launches, ledgers=self.ledgers, pods=[*self.pods.values()], ledger_metadata=self.metadata
        )

    def read(
        self, pods: Mapping[str, Body], clusters: Mapping[str, str], _: Settings, parse: Callable[[str, str], T]
    ) -> tuple[dict[str, T], str]:
        """Return the logs of these pods."""
        self.reads += len(pods)
        assert clusters == {}
        return {run_id: parse(run_id, self.logs[run_id]) for run_id in pods if run_id in self.logs}, self.problem

    def kubectl(self, *words: str, stdin: bytes, **_: Any) -> "subprocess.CompletedProcess[bytes]":
        """Run `kubectl apply --server-side`, which adds annotations to existing ledgers."""
        assert words[:2] == ("apply", "--server-side")
        if not self.may_patch:
            return subprocess.CompletedProcess(words, 1, b"", FORBIDDEN)
        for body in json.loads(stdin)["items"]:
            (run_id,) = (
                key for key, uid_holder in self.metadata.items() if uid_holder["uid"] == body["metadata"]["uid"]
            )
            assert body["metadata"]["name"] == self.metadata[run_id]["name"]
            before = self.metadata[run_id].get("annotations", {})
            self.metadata[run_id] = {**self.metadata[run_id], "annotations": before | body["metadata"]["annotations"]}
            self.patches += 1
        return subprocess.CompletedProcess(words, 0, b"", b"")


def make_printing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **objective: Any) -> PrintingProject:
    """Return the project before any launch."""
    space = make_space(objective=Objective(**{"metric": "accuracy", "direction": "maximize", **objective}))
    unmanaged: dict[str, Any] = {"run": make_run(name="search", managed=False, record=None), "space": space}
    settings = make_settings(sweeps=make_sweeps(**unmanaged))
    base = make_project(make_planned(**unmanaged), settings, tmp_path, monkeypatch)
    project = PrintingProject(base.planned, base.volume)
    project.pods, project.logs, project.metadata = {}, {}, {}
    project.reads = project.patches = 0
    project.may_patch = True
    monkeypatch.setattr(sweep_read, "read_sweep", lambda *_: project.objects())
    monkeypatch.setattr(sweep_logs, "read_trial_logs", project.read)
    monkeypatch.setattr(sweep_logs, "run_kubectl", project.kubectl)
    return project


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PrintingProject:
    """Provide the project with the default log format."""
    return make_printing(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the output of main.py for each of the four sets."""
    folder = tmp_path_factory.mktemp("mnist-training")
    (folder / "main.py").write_text(MAIN)
    (folder / "hyperparams.yml").write_text("".join(f"- hyperparam_set: {{batch_size: {size}}}\n" for size in SIZES))
    words = ["bash", "-c", f"{sys.executable} main.py"]
    return [
        subprocess.run(
            words, cwd=folder, env={**os.environ, "JOB_ID": str(number)}, capture_output=True, text=True, check=True
        ).stdout
        for number in (1, 2, 3, 4)
    ]


def output_of(*words: str) -> dict[str, Any]:
    """Return the JSON of a command."""
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output
    output: dict[str, Any] = json.loads(result.stdout)
    return output


def test_the_best_is_named_from_logs_before_and_after_the_pods_are_deleted(
    project: PrintingProject, logs: list[str]
) -> None:
    """Every command that reads results does; one read while the pods exist keeps the results for all users."""
    for number, log in enumerate(logs, 1):
        project.succeed(number, log)
    before = output_of("best", "search")
    (best,) = before["best"]
    assert (best["number"], best["parameters"], best["value"]) == (2, {"batch_size": 64}, 0.92)
    assert (project.reads, project.patches) == (4, 4)
    results = output_of("results", "search")

    project.remove_objects()
    assert output_of("best", "search") == before
    assert output_of("results", "search") == results
    assert [trial["objective"] for trial in results["trials"]] == [0.888, 0.92, 0.856, 0.472]
    status = output_of("status", "search")
    assert [(trial["state"], trial["objective"]) for trial in status["trials"]] == [
        ("succeeded", trial["objective"]) for trial in results["trials"]
    ]
    assert "The best is trial 2" in run("best", "search").stdout
    assert (project.reads, project.patches, project.loaders) == (4, 4, 0)


def test_status_keeps_what_has_ended_and_names_the_best_so_far(project: PrintingProject, logs: list[str]) -> None:
    """The log of a running trial changes, and only `results` reads it."""
    project.succeed(1, logs[0])
    project.launch(2, startTime=NOW)
    project.add_pod(2, logs[1], "Running")
    stdout = run("status", "search").stdout
    assert f"the best is trial 1 ({project.run_ids[0]}): accuracy 0.888, with batch_size 32" in stdout
    assert (project.reads, project.patches) == (1, 1)
    trials = output_of("results", "search")["trials"]
    assert [(trial["state"], trial["objective"]) for trial in trials[:3]] == [
        ("succeeded", 0.888),
        ("running", 0.92),
        ("waiting", None),
    ]
    assert (project.reads, project.patches) == (2, 1)
    assert output_of("best", "search")["notes"] == [
        "trial 2 has had a better accuracy, 0.92, but does not count: still running"
    ]


@pytest.mark.usefixtures("undrawn")
def test_the_page_of_a_sweep_has_the_curves_of_logs(project: PrintingProject, logs: list[str], tmp_path: Path) -> None:
    """The page includes trials whose pods are deleted."""
    for number, log in enumerate(logs, 1):
        project.succeed(number, log)
    assert run("status", "search").exit_code == 0
    project.remove_objects()
    assert run("report", "search", "--to", str(tmp_path / "page")).exit_code == 0
    assert "The best is trial 2" in (tmp_path / "page" / "report.html").read_text()
    assert (tmp_path / "page" / "learning-curves.png").is_file()


def test_a_format_of_its_own_names_the_metric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logs: list[str]) -> None:
    """The expression may have a group for the epoch: here the least loss of the first epoch counts."""
    expression = r"epoch (?P<epoch>\d+): validation loss (?P<value>\S+)"
    project = make_printing(
        tmp_path, monkeypatch, metric="val_loss", direction="minimize", epoch=1, metrics_format=expression
    )
    for number, log in enumerate(logs, 1):
        project.succeed(number, log)
    (best,) = output_of("best", "search")["best"]
    assert (best["number"], best["value"], best["epoch"]) == (1, 0.32, 1)


def test_metrics_of_another_format_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logs: list[str]
) -> None:
    """An existing log is read again; for a deleted one the reason is shown, and the state is known."""
    project = make_printing(tmp_path, monkeypatch)
    for number, log in enumerate(logs[:2], 1):
        project.succeed(number, log)
    output_of("results", "search")
    (tmp_path / "again").mkdir()
    reread = make_printing(tmp_path / "again", monkeypatch, metrics_format=r"loss (?P<value>\S+)")
    reread.launches, reread.ledgers, reread.metadata = project.launches[:1], project.ledgers, project.metadata
    first = project.run_ids[0]
    reread.pods, reread.logs = {first: project.pods[first]}, {first: logs[0]}
    trials = output_of("results", "search")["trials"]
    assert [trial["objective"] for trial in trials[:2]] == [0.32, None]
    assert trials[1]["state"] == "succeeded"
    assert trials[1]["reason"] == "its log was read with another metricsFormat and is no longer available"


def test_who_may_not_patch_ledgers_reads_all_the_same(project: PrintingProject, logs: list[str]) -> None:
    """A note explains what is missing; without pods the results are unknown."""
    project.may_patch = False
    project.succeed(1, logs[0])
    result = run("best", "search")
    assert "The best is trial 1" in result.stdout
    assert "could not be saved in their ledgers: Error from server (Forbidden): configmaps" in " ".join(
        result.stderr.split()
    )
    assert "and more" not in result.stderr
    project.remove_objects()
    (first, *_) = output_of("results", "search")["trials"]
    assert (first["state"], first["objective"]) == ("stopped", None)
    assert first["reason"] == "its object was deleted and its ledger has no result"


def test_a_failed_trial_keeps_what_it_printed_last(project: PrintingProject) -> None:
    """The reason of the failure is kept too; a later launch of the same trial does not get them."""
    project.launch(1, startTime=NOW, conditions=[make_condition("Failed", reason="BackoffLimitExceeded", message="x")])
    project.add_pod(1, "accuracy=0.5\nTraceback\nValueError: no data\n", "Failed")
    output_of("status", "search")
    project.remove_objects()
    (first, *_) = output_of("results", "search")["trials"]
    assert (first["state"], first["objective"]) == ("failed", 0.5)
    assert first["last_lines"] == ["accuracy=0.5", "Traceback", "ValueError: no data"]

    ledger = project.ledgers.pop()
    project.ledgers.append(type(ledger)(**{**vars(ledger), "launch_name": f"{ledger.launch_name}-2"}))
    (first, *_) = output_of("results", "search")["trials"]
    assert (first["state"], first["objective"]) == ("stopped", None)


def test_what_is_kept_has_room_in_an_annotation(project: PrintingProject) -> None:
    """The limit holds for any output; the objective is kept."""
    project.launch(1, startTime=NOW, conditions=[make_condition("Failed", reason="BackoffLimitExceeded", message="x")])
    figures = " ".join(f"figure_{number} {number}" for number in range(300))
    lines = [f"epoch {epoch}/200 done {figures} accuracy 0.5" for epoch in range(1, 201)]
    project.add_pod(1, "\n".join([*lines, "x" * 300_000]), "Failed")
    (first, *_) = output_of("results", "search")["trials"]
    assert first["objective"] == 0.5
    (kept,) = project.metadata[project.run_ids[0]]["annotations"].values()
    assert len(kept) < 100_000


def test_a_log_that_may_not_be_read_is_reported(project: PrintingProject) -> None:
    """The error is shown once, with the reason."""
    project.problem = "you may not read logs in namespace research"
    project.succeed(1, "accuracy=0.5")
    assert run("results", "search").stderr.count("some logs of search cannot be read: you may not read logs") == 1


@pytest.mark.parametrize("text", ["", "[]", '{"launch": 1}'])
def test_an_edited_outcome_is_ignored(project: PrintingProject, logs: list[str], text: str) -> None:
    """The log is read again while it exists."""
    project.succeed(1, logs[0])
    output_of("status", "search")
    run_id = project.run_ids[0]
    kept = project.metadata[run_id]["annotations"]
    project.metadata[run_id] = {**project.metadata[run_id], "annotations": dict.fromkeys(kept, text)}
    assert output_of("best", "search")["best"][0]["value"] == 0.888
    assert project.patches == 2


def test_a_log_that_cannot_be_read_is_reported_as_missing(project: PrintingProject) -> None:
    """The node of the pod may be unreachable."""
    project.succeed(1, "")
    project.logs.clear()
    result = run("best", "search")
    assert result.exit_code == 1
    assert "its pod was deleted or its log is not readable, and its ledger has no metrics" in " ".join(
        result.stderr.split()
    )
