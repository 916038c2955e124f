"""The generated environments are valid, and declare what their cases name."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.cases import changes, first_log, many, operators
from bench.environments import as_config, environment
from bench.programs.make_runs import launch
from tests.copies import copy_into
from trainstack.objects.labels import LAUNCH, QUEUE, RUN
from trainstack.preflight.file_checks import examine
from trainstack.settings.loading.load import load_with_places
from trainstack.stack_objects.inputs import Inputs
from trainstack.stack_objects.stack_objects import StackObjects

ROOT = Path(__file__).resolve().parents[3]


def kinds(folder: Path, settings: dict[str, Any]) -> Counter[str]:
    """Count the kinds of an environment in which the preflight finds no error."""
    copy_into(folder, "defaults.yaml", "workloads")
    (folder / "Pulumi.bench.yaml").write_text(yaml.safe_dump(as_config(settings)))
    loaded = load_with_places(folder, "bench")
    declared = StackObjects(loaded.settings, Inputs())
    findings = examine(declared, folder, loaded.places).findings
    assert [str(finding) for finding in findings if finding.severity == "error"] == []
    return Counter(body["kind"] for body in declared.manifests())


@pytest.mark.parametrize("share", [pytest.param(10, id="some"), pytest.param(1, id="all", marks=pytest.mark.slow)])
def test_the_large_environment_has_its_queues_teams_and_runs(tmp_path: Path, share: int) -> None:
    """No run starts."""
    teams, queues, runs = changes.TEAMS // share, changes.QUEUES // share, changes.RUNS // share
    settings = environment(teams=teams, queues=queues, runs=runs)
    assert {queue["stopPolicy"] for queue in settings["queues"]["clusterQueues"]} == {"Hold"}
    counts = kinds(tmp_path, settings)
    assert (counts["Namespace"], counts["ClusterQueue"], counts["LocalQueue"]) == (teams, queues, queues)
    assert counts["Job"] + counts["PyTorchJob"] == runs


def test_the_sizes_of_the_large_environment() -> None:
    """Results of other sizes do not compare."""
    assert (changes.TEAMS, changes.QUEUES, changes.RUNS) == (30, 100, 200)


def test_a_mark_makes_another_run(tmp_path: Path) -> None:
    """The Job of another tool has its own name, without the labels by which Trainstack finds it."""
    assert kinds(tmp_path, first_log.settings("one"))["Job"] == 1
    declared = StackObjects(load_with_places(tmp_path, "bench").settings, Inputs())
    (first,) = (body for body in declared.manifests() if body["kind"] == "Job")
    copy = first_log.job(first, "two")
    assert copy["metadata"]["name"] == "changed-two"
    assert not [label for label in copy["metadata"]["labels"] if label.startswith("trainstack.dev/")]
    assert copy["metadata"]["labels"][QUEUE] == first_log.QUEUE


@pytest.mark.parametrize("queue", [many.OPEN, None])
def test_many_runs_are_as_many(tmp_path: Path, queue: str | None) -> None:
    """The number is exact, with their queue and without."""
    settings = {**many.platform(), "workloads": {"runs": [{"name": "one", **many.run(queue)}]}}
    settings["environment"] |= {"layers": ["platform", "training"]}
    assert kinds(tmp_path, settings)["Job"] == 1


def test_every_trial_of_a_sweep_of_jobs_is_launched_at_once() -> None:
    """The other tools apply all of them."""
    jobs, indexed = (many.sweep(trials, form)["sweeps"]["sweeps"][0] for form, trials in many.TRIALS.items())
    assert "parallelism" not in jobs
    assert indexed["parallelism"] < many.TRIALS["indexed"]


def test_launches_of_many_runs_differ() -> None:
    """An ended one is suspended and has no queue."""
    labels = {QUEUE: "q", RUN: "r"}
    template: dict[str, Any] = {
        "metadata": {"labels": labels},
        "spec": {"template": {"metadata": {"labels": {RUN: "r"}}}},
    }
    live, ended = launch(template, 1, ended=False), launch(template, 2, ended=True)
    assert live["metadata"]["name"] != ended["metadata"]["name"]
    assert live["metadata"]["labels"][QUEUE] == "q"
    assert live["spec"]["template"]["metadata"]["labels"][LAUNCH] == live["metadata"]["name"]
    assert QUEUE not in ended["metadata"]["labels"]
    assert ended["spec"]["suspend"]
    assert template["metadata"]["labels"] == labels


def test_the_operators_alone_are_an_environment(tmp_path: Path) -> None:
    """Their releases are those of `defaults.yaml`."""
    copy_into(tmp_path, "defaults.yaml")
    (tmp_path / "Pulumi.bench.yaml").write_text(yaml.safe_dump(as_config(operators.SETTINGS)))
    settings = load_with_places(tmp_path, "bench").settings
    assert settings.operators.kueue is not None
    assert settings.operators.training_operator is not None
