"""`trainstack convert`: what it writes, compares and refuses to write."""

import json
import time
from itertools import product
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.unit.onboarding.convert.make import CLAIM, JOB
from trainstack.cli.app import app
from trainstack.settings.loading.load import load
from trainstack.stack_objects.stack_objects import StackObjects

LAB = """\
config:
  # The lab's own.
  trainstack:environment: {existing: {namespaces: [vision], storageClasses: [fast]}}
  trainstack:queues: {priorityClasses: null}
encryptionsalt: v1:abc:=
"""
DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: vision}\nspec: {}\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a project with an environment and a workload, and make it the current folder."""
    (tmp_path / "Pulumi.yaml").touch()
    (tmp_path / "Pulumi.lab.yaml").write_text(LAB)
    (tmp_path / "workloads" / "old").mkdir(parents=True)
    (tmp_path / "workloads" / "old" / "workload.yaml").write_text("kind: Job\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str, text: str = "") -> Result:
    """Run the command; `text` is its standard input."""
    return CliRunner().invoke(app, ["convert", *words], input=text, env={"COLUMNS": "200"})


def test_a_folder_is_converted_and_every_field_is_rendered(root: Path) -> None:
    """The environment keeps its lines, and the workload is the file of the user."""
    (root / "in").mkdir()
    (root / "in" / "job.yaml").write_text(JOB)
    (root / "in" / "claim.yml").write_text(CLAIM)
    (root / "in" / "notes.txt").write_text("not read")
    result = run("in", "-s", "lab")
    assert result.exit_code == 0, result.output
    assert (root / "workloads" / "train" / "workload.yaml").read_text() == JOB
    text = (root / "Pulumi.lab.yaml").read_text()
    assert [line for line in text.splitlines() if line in LAB.splitlines()] == LAB.splitlines()
    objects = StackObjects.from_files(load(root, "lab"), root)
    (planned,) = objects.runs
    assert planned.manifest["metadata"]["name"] == "train"
    assert planned.manifest["spec"]["template"]["spec"]["containers"][0]["command"] == [
        "python",
        "train.py",
        "--lr=0.1",
    ]
    assert [manifest["metadata"]["name"] for manifest in objects.volumes.manifests] == ["data"]
    again = run("in", "-s", "lab")
    assert again.exit_code == 1
    assert "workload train exists in the project" in again.output
    assert (root / "Pulumi.lab.yaml").read_text() == text


def test_a_dry_run_shows_the_files_and_writes_none(root: Path) -> None:
    """The diff has every line of the new files."""
    result = run("-", "-s", "lab", "--dry-run", text=JOB)
    assert result.exit_code == 0, result.output
    assert "+++ b/workloads/train/workload.yaml\n" in result.stdout
    assert "+# Trains the model.\n" in result.stdout
    assert not (root / "workloads" / "train").exists()
    assert (root / "Pulumi.lab.yaml").read_text() == LAB


def test_a_new_environment_is_created(root: Path) -> None:
    """It has no rights on cluster-scoped objects, since the files have none."""
    result = run("-", "-s", "new", text=JOB)
    assert result.exit_code == 0, result.output
    settings = load(root, "new")
    assert (settings.environment.profile, settings.environment.layers) == ("tenant", ("training",))
    assert settings.environment.existing.namespaces == ("vision",)
    assert "pulumi stack init new" in result.stderr


def test_an_object_that_is_left_out_is_a_finding(root: Path) -> None:
    """The other objects are converted."""
    result = run("-", "-s", "lab", "--json", text=f"{JOB}---\n{DEPLOYMENT}")
    assert result.exit_code == 4, result.output
    report = json.loads(result.stdout)
    assert [(item["object"], item["outcome"]) for item in report["objects"]] == [
        ("Deployment vision/web", "left"),
        ("Job vision/train", "converted"),
    ]
    assert report["written"] == ["Pulumi.lab.yaml", "workloads/train/workload.yaml"]
    assert all(addition["reason"] for item in report["objects"] for addition in item["added"])


def test_nothing_is_written_if_a_field_would_be_lost(root: Path) -> None:
    """The variable of a trial replaces that of the file."""
    body = JOB.replace("command:", "env: [{name: JOB_ID, value: mine}]\n          command:")
    second = body.replace("name: train", "name: train-2").replace("0.1", "0.2")
    result = run("-", "-s", "lab", "--sweep", text=f"{body}---\n{second}")
    assert result.exit_code == 4, result.output
    assert "nothing was written, since the result would differ from the files:" in result.stderr
    assert "env[0].value: 'mine' is '1'" in result.stderr
    assert (root / "Pulumi.lab.yaml").read_text() == LAB


@pytest.mark.parametrize(
    ("words", "text", "code", "message"),
    [
        (("missing.yaml",), "", 2, "missing.yaml"),
        (("-",), "", 2, "the files contain no objects"),
        (("-",), "a: 1\n", 1, "stdin:1: is not a Kubernetes object"),
        (("workloads",), "", 2, "workloads: the folder has no files with the suffixes"),
    ],
)
def test_what_cannot_be_read_is_an_error(
    root: Path, words: tuple[str, ...], text: str, code: int, message: str
) -> None:
    """It is not skipped."""
    result = run(*words, "-s", "lab", text=text)
    assert (result.exit_code, message in result.stderr) == (code, True), result.output
    assert (root / "Pulumi.lab.yaml").read_text() == LAB


def make_many_jobs() -> str:
    """Return 1,300 Jobs that differ in names, arguments, variables and labels."""
    base = JOB.replace("name: train\n", "name: train-{number}\n").replace("--lr=0.1", "--lr={lr}, --size, '{size}'")
    base = base.replace("command:", "env: [{name: SEED, value: '{seed}'}]\n          command:")
    base = base.replace("  template:\n", "  template:\n    metadata: {labels: {app: train-{number}}}\n")
    sets = product([round(0.1 * index, 1) for index in range(1, 14)], (16, 32, 64, 128), range(25))
    texts = []
    for number, (lr, size, seed) in enumerate(sets, 1):
        values = {"number": number, "lr": lr, "size": size, "seed": seed}
        text = base
        for key, value in values.items():
            text = text.replace(f"{{{key}}}", str(value))
        texts.append(text)
    return "---\n".join(texts)


def test_1300_near_equal_jobs_become_a_sweep_of_the_same_objects(root: Path) -> None:
    """In at most 10 s of one processor; without the option, the command says that it is possible."""
    text = make_many_jobs()
    start = time.process_time()
    result = run("-", "-s", "lab", "--sweep", text=text)
    assert time.process_time() - start < 10
    assert result.exit_code == 0, result.output
    (sweep,) = load(root, "lab").sweeps.sweeps
    assert (sweep.name, len(sweep.sets), load(root, "lab").workloads.runs) == ("train", 1300, ())
    assert "metadata.name" not in result.stdout, "every object keeps its name"


def test_a_possible_sweep_is_proposed(root: Path) -> None:
    """Each object becomes a run without the option."""
    documents = make_many_jobs().split("---\n")[:3]
    result = run("-", "-s", "lab", text="---\n".join(documents))
    assert result.exit_code == 0, result.output
    assert "`--sweep` makes one sweep of them" in result.stderr
    assert len(load(root, "lab").workloads.runs) == 3
