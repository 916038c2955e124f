"""`trainstack add-team`: the files that it writes, and the cases in which it writes nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from trainstack.cli.app import app
from trainstack.preflight.file_checks import check
from trainstack.settings.loading.load import load_with_places

ROOT = Path(__file__).resolve().parents[4]
PLATFORM = """\
# The lab's platform.
config:
  trainstack:environment:
    layers: [platform]
    existing: {storageClasses: [fast]}
  trainstack:queues:
    flavors:
      - name: cpu   # every node
encryptionsalt: v1:abc:=
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a project with a platform and make it the current folder."""
    (tmp_path / "Pulumi.yaml").write_text("name: platform\n")
    (tmp_path / "Pulumi.lab.yaml").write_text(PLATFORM)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def add_team(*words: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(app, ["add-team", *words, "-s", "lab"], env={"COLUMNS": "200"})


def files(root: Path) -> dict[str, str]:
    """Return the files of the project and their contents."""
    return {path.name: path.read_text() for path in root.iterdir()}


def test_both_environments_are_sound_and_nothing_else_is_touched(root: Path) -> None:
    """Neither environment has an error; the platform keeps all its lines in order, with the new ones between them."""
    result = add_team("vision", "--quota", "cpu=2")
    assert result.exit_code == 0, result.output
    for stack in ("lab", "vision"):
        loaded = load_with_places(root, stack)
        assert [finding for finding in check(loaded.settings, root, loaded.places) if finding.severity == "error"] == []
    assert set(files(root)) == {"Pulumi.yaml", "Pulumi.lab.yaml", "Pulumi.vision.yaml"}
    lines = files(root)["Pulumi.lab.yaml"].splitlines()
    assert [line for line in lines if line in PLATFORM.splitlines()] == PLATFORM.splitlines()
    assert "quota: cpu 2, memory 16Gi (default) on flavor cpu" in result.output
    assert "pulumi preview -s lab" in result.output


def test_a_second_call_changes_nothing_and_reports_it(root: Path) -> None:
    """The team's file may have been edited since the first call: it is not written again."""
    assert add_team("vision").exit_code == 0
    own = root / "Pulumi.vision.yaml"
    own.write_text(own.read_text().replace("10Gi", "20Gi"))
    before = files(root)
    result = add_team("vision")
    assert result.exit_code == 0
    assert "team vision of lab is complete; nothing was changed" in result.output
    assert "exists and is kept: Pulumi.vision.yaml" in result.output
    assert files(root) == before


def test_teams_that_are_added_at_once_are_all_added(root: Path) -> None:
    """Each command adds its team to the file as the one before has left it."""
    names = ["speech", "text", "vision"]
    words = [[sys.executable, "-m", "trainstack.cli", "add-team", name, "-s", "lab", "--json"] for name in names]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    commands = [subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL) for command in words]
    assert [command.wait() for command in commands] == [0, 0, 0]
    assert sorted(team.name for team in load_with_places(root, "lab").settings.tenants.teams) == names
    assert set(files(root)) == {"Pulumi.yaml", "Pulumi.lab.yaml", *(f"Pulumi.{name}.yaml" for name in names)}


def test_a_dry_run_shows_everything_and_writes_nothing(root: Path) -> None:
    """The output for programs is JSON."""
    before = files(root)
    result = add_team("vision", "--group", "ml", "--dry-run", "--json")
    output = json.loads(result.stdout)
    assert (output["written"], output["kept"], output["chosen"]["rights"]) == ([], [], "groups ml")
    assert "+      - {name: vision, namespace: vision, groups: [ml]}\n" in output["diff"]
    assert "+++ b/Pulumi.vision.yaml\n" in output["diff"]
    assert files(root) == before


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("vision", "--flavor", "cpuu"), 1, "lab has no flavor cpuu; did you mean cpu?"),
        (("vision", "--quota", "cpu"), 2, "--quota cpu: must be RESOURCE=QUANTITY"),
        (("vision", "--quota", "cpu=1", "--quota", "cpu=2"), 2, "--quota cpu: set twice"),
        (("lab",), 1, "Pulumi.lab.yaml exists and is not a team's environment"),
        (("vision", "--namespace", "kube_system"), 1, "'kube_system' is not a valid name for a namespace"),
    ],
)
def test_a_fault_is_reported_and_nothing_is_written(
    root: Path, words: tuple[str, ...], code: int, message: str
) -> None:
    """Neither of the two files is written."""
    before = files(root)
    result = add_team(*words)
    assert result.exit_code == code
    assert message in result.output
    assert files(root) == before


def test_what_would_not_pass_the_preflight_is_not_written(root: Path) -> None:
    """The fault was in the platform before: the error names its line."""
    text = PLATFORM.replace("existing:", "namespaces: [{name: a}, {name: a}]\n    existing:")
    (root / "Pulumi.lab.yaml").write_text(text)
    before = files(root)
    result = add_team("vision")
    assert result.exit_code == 1
    assert "nothing was written, since the result would have errors" in result.output
    assert "a is listed 2 times" in result.output
    assert files(root) == before


@pytest.mark.parametrize(
    ("folders", "name"), [((), "hello"), (("hello",), "hello-2"), (("hello", "hello-2", "other"), "hello-3")]
)
def test_the_example_run_inherits_from_no_workload_of_the_project(
    root: Path, folders: tuple[str, ...], name: str
) -> None:
    """A run of a workload folder's name is merged over that workload."""
    for folder in folders:
        (root / "workloads" / folder).mkdir(parents=True)
        (root / "workloads" / folder / "workload.yaml").write_text("args: [--epochs, '9']\nseed: 1\n")
    assert add_team("vision").exit_code == 0
    (run,) = load_with_places(root, "vision").settings.workloads.runs
    assert (run.name, run.args, run.seed) == (name, (), None)


def test_the_example_run_inherits_from_no_shared_run(root: Path) -> None:
    """The project's defaults have a run of that name, which every environment gets."""
    shared = (
        "{name: hello, kind: Job, namespace: vision, managed: false, image: {name: busybox}, args: [--epochs, '9']}"
    )
    (root / "defaults.yaml").write_text(f"workloads:\n  runs: [{shared}]\n")
    text = PLATFORM.replace("[platform]", "[platform]\n    namespaces: [{name: vision}]")
    (root / "Pulumi.lab.yaml").write_text(text)
    assert add_team("vision").exit_code == 0
    runs = {run.name: run for run in load_with_places(root, "vision").settings.workloads.runs}
    assert [(name, run.args) for name, run in runs.items()] == [("hello", ("--epochs", "9")), ("hello-2", ())]


def test_the_volume_inherits_from_no_shared_volume(root: Path) -> None:
    """The run mounts the volume under the name that it has."""
    shared = "{name: training, namespace: default, storageClass: fast, size: 1Gi, accessModes: [ReadWriteOnce]"
    (root / "defaults.yaml").write_text(f"storage:\n  volumes: [{shared}, retain: false}}]\n")
    result = add_team("vision")
    assert result.exit_code == 0, result.output
    settings = load_with_places(root, "vision").settings
    assert [(volume.name, volume.retain) for volume in settings.storage.volumes] == [
        ("training", False),
        ("training-2", True),
    ]
    assert [mount.volume for mount in settings.workloads.runs[0].volumes] == ["training-2"]
