"""A sweep of a program that only prints: its objective comes from logs, before and after the pods are gone."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.unit.checks.live import NOW, Body, make_condition
from tests.unit.checks.test_live_trials import make_attempt
from tests.unit.cli.test_sweep_results import DONE, Project, make_project, run
from tests.unit.make import make_run, make_settings, make_space, make_sweeps
from tests.unit.workloads.sweeps import make_planned
from trainstack.cli import sweep_logs, sweep_read
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
"""Finds its set as the published program does, and only prints its figures."""
SIZES = (32, 64, 128, 512)
FORBIDDEN = b'Error from server (Forbidden): configmaps "x" is forbidden: User "ada" cannot patch resource\nand more'


class Printing(Project):
    """The sweep of unmanaged Jobs of that program, their pods and logs, and ledgers in a cluster."""

    pods: dict[str, Body]
    logs: dict[str, str]
    metadata: dict[str, Body]
    reads: int
    patches: int
    may_patch: bool
    problem: str = ""
    """Why logs are not read."""

    def succeed(self, number: int, log: str) -> None:
        """Let a trial end well, its pod still there."""
        self.launch(number, conditions=[DONE], startTime=NOW, completionTime=NOW)
        self.left(number, log, "Succeeded")

    def left(self, number: int, log: str, phase: str) -> None:
        """Let a pod of the latest launch be there, and its log."""
        run_id, ledger = self.run_ids[number - 1], self.ledgers[-1]
        self.pods[run_id] = make_attempt(ledger, NOW, phase)
        self.logs[run_id] = log
        self.metadata[run_id] = {"name": f"run-{run_id}", "namespace": "research", "uid": run_id}

    def remove_objects(self) -> None:
        """Let the TTL of all Jobs run out."""
        self.launches.clear()
        self.pods.clear()
        self.logs.clear()

    def objects(self) -> SweepObjects:
        """What the cluster has."""
        return SweepObjects(
            launches=self.launches, ledgers=self.ledgers, pods=[*self.pods.values()], ledger_metadata=self.metadata
        )

    def read(
        self, pods: Mapping[str, Body], context: str | None, parse: Callable[[str, str], T]
    ) -> tuple[dict[str, T], str]:
        """What the logs of those pods have."""
        self.reads += len(pods)
        return {run_id: parse(run_id, self.logs[run_id]) for run_id in pods if run_id in self.logs}, self.problem

    def kubectl(self, *words: str, stdin: bytes, **_: Any) -> "subprocess.CompletedProcess[bytes]":
        """`kubectl apply --server-side`, which adds annotations to ledgers that exist."""
        assert words[:2] == ("apply", "--server-side")
        if not self.may_patch:
            return subprocess.CompletedProcess(words, 1, b"", FORBIDDEN)
        for body in json.loads(stdin)["items"]:
            (run_id,) = (key for key, each in self.metadata.items() if each["uid"] == body["metadata"]["uid"])
            assert body["metadata"]["name"] == self.metadata[run_id]["name"]
            before = self.metadata[run_id].get("annotations", {})
            self.metadata[run_id] = {**self.metadata[run_id], "annotations": before | body["metadata"]["annotations"]}
            self.patches += 1
        return subprocess.CompletedProcess(words, 0, b"", b"")


def make_printing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **objective: Any) -> Printing:
    """None of its trials has been launched."""
    space = make_space(objective=Objective(**{"metric": "accuracy", "direction": "maximize", **objective}))
    unmanaged = {"run": make_run(name="search", managed=False, record=None), "space": space}
    settings = make_settings(sweeps=make_sweeps(**unmanaged))
    made = make_project(make_planned(**unmanaged), settings, tmp_path, monkeypatch)
    project = Printing(made.planned, made.volume)
    project.pods, project.logs, project.metadata = {}, {}, {}
    project.reads = project.patches = 0
    project.may_patch = True
    monkeypatch.setattr(sweep_read, "read_sweep", lambda *_: project.objects())
    monkeypatch.setattr(sweep_logs, "read_trial_logs", project.read)
    monkeypatch.setattr(sweep_logs, "kubectl", project.kubectl)
    return project


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Printing:
    """Of the default format."""
    return make_printing(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What main.py prints for each of the four sets."""
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


def told(*words: str) -> dict[str, Any]:
    """What a command prints for programs."""
    done = run(*words, "--json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_best_is_named_from_logs_before_and_after_the_pods_are_gone(project: Printing, logs: list[str]) -> None:
    """By every command that reads results; whoever asked once while the pods were there has kept them for all."""
    for number, log in enumerate(logs, 1):
        project.succeed(number, log)
    before = told("best", "search")
    (best,) = before["best"]
    assert (best["number"], best["parameters"], best["value"]) == (2, {"batch_size": 64}, 0.92)
    assert (project.reads, project.patches) == (4, 4)
    results = told("results", "search")

    project.remove_objects()
    assert told("best", "search") == before
    assert told("results", "search") == results
    assert [each["objective"] for each in results["trials"]] == [0.888, 0.92, 0.856, 0.472]
    status = told("status", "search")
    assert [(each["state"], each["objective"]) for each in status["trials"]] == [
        ("succeeded", each["objective"]) for each in results["trials"]
    ]
    assert "The best is trial 2" in run("best", "search").stdout
    assert (project.reads, project.patches, project.loaders) == (4, 4, 0)


def test_status_keeps_what_has_ended_and_names_the_best_so_far(project: Printing, logs: list[str]) -> None:
    """A running trial's log changes, and is read by `results` alone."""
    project.succeed(1, logs[0])
    project.launch(2, startTime=NOW)
    project.left(2, logs[1], "Running")
    shown = run("status", "search").stdout
    assert f"the best is trial 1 ({project.run_ids[0]}): accuracy 0.888, with batch_size 32" in shown
    assert (project.reads, project.patches) == (1, 1)
    trials = told("results", "search")["trials"]
    assert [(each["state"], each["objective"]) for each in trials[:3]] == [
        ("succeeded", 0.888),
        ("running", 0.92),
        ("waiting", None),
    ]
    assert (project.reads, project.patches) == (2, 1)
    assert told("best", "search")["notes"] == [
        "trial 2 has had a better accuracy, 0.92, but does not count: still running"
    ]


def test_the_page_of_a_sweep_has_the_curves_of_logs(project: Printing, logs: list[str], tmp_path: Path) -> None:
    """Also of trials whose pods are gone."""
    for number, log in enumerate(logs, 1):
        project.succeed(number, log)
    assert run("status", "search").exit_code == 0
    project.remove_objects()
    assert run("report", "search", "--to", str(tmp_path / "page")).exit_code == 0
    assert "The best is trial 2" in (tmp_path / "page" / "report.html").read_text()
    assert (tmp_path / "page" / "learning-curves.png").is_file()


def test_a_format_of_its_own_names_the_metric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logs: list[str]) -> None:
    """With the epoch, where the expression has one: here the least loss of the first epoch counts."""
    expression = r"epoch (?P<epoch>\d+): validation loss (?P<value>\S+)"
    project = make_printing(
        tmp_path, monkeypatch, metric="val_loss", direction="minimize", epoch=1, metrics_format=expression
    )
    for number, log in enumerate(logs, 1):
        project.succeed(number, log)
    (best,) = told("best", "search")["best"]
    assert (best["number"], best["value"], best["epoch"]) == (1, 0.32, 1)


def test_metrics_of_another_format_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logs: list[str]
) -> None:
    """A log that is still there is read again; of one that is gone the reason is told, and the state is known."""
    project = make_printing(tmp_path, monkeypatch)
    for number, log in enumerate(logs[:2], 1):
        project.succeed(number, log)
    told("results", "search")
    (tmp_path / "again").mkdir()
    again = make_printing(tmp_path / "again", monkeypatch, metrics_format=r"loss (?P<value>\S+)")
    again.launches, again.ledgers, again.metadata = project.launches[:1], project.ledgers, project.metadata
    first = project.run_ids[0]
    again.pods, again.logs = {first: project.pods[first]}, {first: logs[0]}
    trials = told("results", "search")["trials"]
    assert [each["objective"] for each in trials[:2]] == [0.32, None]
    assert trials[1]["state"] == "succeeded"
    assert trials[1]["reason"] == "its log was read with another metricsFormat and is no longer available"


def test_who_may_not_patch_ledgers_reads_all_the_same(project: Printing, logs: list[str]) -> None:
    """The note says what is missing; without pods nothing is known then."""
    project.may_patch = False
    project.succeed(1, logs[0])
    done = run("best", "search")
    assert "The best is trial 1" in done.stdout
    assert "could not be saved in their ledgers: Error from server (Forbidden): configmaps" in " ".join(
        done.stderr.split()
    )
    assert "and more" not in done.stderr
    project.remove_objects()
    (first, *_) = told("results", "search")["trials"]
    assert (first["state"], first["objective"]) == ("stopped", None)
    assert first["reason"] == "its object was deleted and its ledger has no result"


def test_a_failed_trial_keeps_what_it_printed_last(project: Printing) -> None:
    """And why it failed; a later launch of the same trial is another story."""
    project.launch(1, startTime=NOW, conditions=[make_condition("Failed", reason="BackoffLimitExceeded", message="x")])
    project.left(1, "accuracy=0.5\nTraceback\nValueError: no data\n", "Failed")
    told("status", "search")
    project.remove_objects()
    (first, *_) = told("results", "search")["trials"]
    assert (first["state"], first["objective"]) == ("failed", 0.5)
    assert first["last_lines"] == ["accuracy=0.5", "Traceback", "ValueError: no data"]

    ledger = project.ledgers.pop()
    project.ledgers.append(type(ledger)(**{**vars(ledger), "launch_name": f"{ledger.launch_name}-2"}))
    (first, *_) = told("results", "search")["trials"]
    assert (first["state"], first["objective"]) == ("stopped", None)


def test_what_is_kept_has_room_in_an_annotation(project: Printing) -> None:
    """Whatever a program prints; the objective is in it."""
    project.launch(1, startTime=NOW, conditions=[make_condition("Failed", reason="BackoffLimitExceeded", message="x")])
    figures = " ".join(f"figure_{number} {number}" for number in range(300))
    lines = [f"epoch {epoch}/200 done {figures} accuracy 0.5" for epoch in range(1, 201)]
    project.left(1, "\n".join([*lines, "x" * 300_000]), "Failed")
    (first, *_) = told("results", "search")["trials"]
    assert first["objective"] == 0.5
    (kept,) = project.metadata[project.run_ids[0]]["annotations"].values()
    assert len(kept) < 100_000


def test_a_log_that_may_not_be_read_is_told(project: Printing) -> None:
    """Once, with the reason."""
    project.problem = "you may not read logs in namespace research"
    project.succeed(1, "accuracy=0.5")
    assert run("results", "search").stderr.count("some logs of search cannot be read: you may not read logs") == 1


@pytest.mark.parametrize("text", ["", "[]", '{"launch": 1}'])
def test_an_outcome_that_somebody_has_edited_is_none(project: Printing, logs: list[str], text: str) -> None:
    """The log is read again, as long as there is one."""
    project.succeed(1, logs[0])
    told("status", "search")
    run_id = project.run_ids[0]
    kept = project.metadata[run_id]["annotations"]
    project.metadata[run_id] = {**project.metadata[run_id], "annotations": dict.fromkeys(kept, text)}
    assert told("best", "search")["best"][0]["value"] == 0.888
    assert project.patches == 2


def test_a_log_that_cannot_be_read_is_said_to_be_missing(project: Printing) -> None:
    """Its node may be away."""
    project.succeed(1, "")
    project.logs.clear()
    done = run("best", "search")
    assert done.exit_code == 1
    assert "its pod was deleted or its log is not readable, and its ledger has no metrics" in " ".join(
        done.stderr.split()
    )
