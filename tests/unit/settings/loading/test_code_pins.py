"""Branches and tags of `code` are replaced by the pinned commit; without a pin the environment does not load."""

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from tests.unit.settings.loading.test_load import faults, make_project
from trainstack.cli.app import app
from trainstack.settings.loading.load import list_scalars, load, load_with_places

ADDRESS = "https://git.example.org/mnist.git"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER = "12345678901234567890123456789012345678e9"
"""A YAML parser reads it as a number if it is not quoted."""

ENVIRONMENT = """\
trainstack:environment: {namespaces: [{name: a}]}
trainstack:workloads:
  runs:
    - name: train
      namespace: a
      managed: false
      record: null
      code: {git: "https://git.example.org/mnist.git", revision: REVISION, mountPath: /mnist}
trainstack:sweeps:
  sweeps:
    - name: search
      run:
        from: train
        namespace: a
        managed: false
        record: null
        seed: null
        code: {git: "https://git.example.org/mnist.git", revision: REVISION, mountPath: /mnist}
"""
SPACE = """\
method: grid
parameters: {lr: {values: [0.1, 0.2]}}
objective: {metric: accuracy, direction: maximize}
file: /work/hyperparams.yml
"""


def make(root: Path, revision: str, pins: str | None = None) -> Path:
    """Write a project whose run and sweep have code at this revision."""
    (root / "sweeps/search").mkdir(parents=True)
    (root / "sweeps/search/space.yaml").write_text(SPACE, encoding="utf-8")
    make_project(root, ENVIRONMENT.replace("REVISION", revision))
    if pins is not None:
        (root / "pins").mkdir()
        (root / "pins/test.yaml").write_text(pins, encoding="utf-8")
    return root


def test_the_pinned_commit_replaces_a_name(tmp_path: Path) -> None:
    """This applies to runs and sweeps. The place of the value is still the line of the name."""
    root = make(tmp_path, "main", f'"{ADDRESS} main": "{OTHER}"\npython:3.11: sha256:{"1" * 64}\n')
    loaded = load_with_places(root, "test")
    (run,), (sweep,) = loaded.settings.workloads.runs, loaded.settings.sweeps.sweeps
    assert run.code is not None
    assert sweep.run.code is not None
    assert (run.code.revision, sweep.run.code.revision) == (OTHER, OTHER)
    assert loaded.settings.pins == {"python:3.11": f"sha256:{'1' * 64}"}
    assert str(loaded.place_of("workloads.runs[train].code.revision")) == "Pulumi.test.yaml:9"


def test_a_name_without_a_pin_does_not_load(tmp_path: Path) -> None:
    """Each fault has its line and the remedy. A pin of another branch or repository does not count."""
    root = make(tmp_path, "main", f"{ADDRESS} dev: {COMMIT}\nhttps://git.example.org/other main: {COMMIT}\n")
    message = (
        'is a branch or tag without a commit in pins/test.yaml (value "main"); run `trainstack pin -s test '
        "--code`, and commit the file"
    )
    assert faults(root) == [
        f"Pulumi.test.yaml:9: workloads.runs[train].code.revision: {message}",
        f"Pulumi.test.yaml:19: sweeps.sweeps[search].run.code.revision: {message}",
    ]


def test_commands_refuse_a_name_without_a_pin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check and render report the same fault."""
    root = make(tmp_path, "main")
    (root / "Pulumi.yaml").touch()
    monkeypatch.chdir(root)
    for command, code in (("check", 4), ("render", 1)):
        result = CliRunner().invoke(app, [command, "-s", "test"], env={"COLUMNS": "300"})
        assert result.exit_code == code
        assert "run `trainstack pin -s test --code`" in result.output


def test_a_pinned_name_and_its_commit_are_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All manifests are equal, including run ids, records and trials, and none contains the name."""
    pins = f"{ADDRESS} a-branch: {COMMIT}\n"
    texts = []
    for folder, revision in (("named", "a-branch"), ("fixed", COMMIT)):
        root = make(tmp_path / folder, revision, pins)
        (root / "Pulumi.yaml").touch()
        monkeypatch.chdir(root)
        expanded = CliRunner().invoke(app, ["sweep", "expand"])
        assert expanded.exit_code == 0, expanded.output
        result = CliRunner().invoke(app, ["render", "-s", "test"])
        assert result.exit_code == 0, result.output
        texts.append(result.stdout)
    assert texts[0] == texts[1]
    assert "a-branch" not in texts[0]
    jobs = [body for body in yaml.safe_load_all(texts[0]) if body["kind"] == "Job"]
    assert len(jobs) == 3
    for job in jobs:
        (checkout,) = job["spec"]["template"]["spec"]["initContainers"]
        assert checkout["command"][4:] == [ADDRESS, COMMIT, ""]


def test_another_commit_is_another_run(tmp_path: Path) -> None:
    """A moved branch therefore trains again when its pin is changed, and not before."""
    root = make(tmp_path, "main", f"{ADDRESS} main: {COMMIT}\n")
    before = load(root, "test").workloads.runs[0]
    (root / "pins/test.yaml").write_text(f'{ADDRESS} main: "{OTHER}"\n', encoding="utf-8")
    assert load(root, "test").workloads.runs[0] != before


def test_a_damaged_pin_is_reported_with_its_line(tmp_path: Path) -> None:
    """One is not a commit, and one is a number, because its quotes were removed."""
    root = make(tmp_path, "main", f"python:3.11: sha256:{'1' * 64}\n{ADDRESS} main: abc\n{ADDRESS} dev: {OTHER}\n")
    remedy = "remove the line and run `trainstack pin`"
    assert faults(root) == [
        f'pins/test.yaml:2: codePins["{ADDRESS} main"]: has an invalid format (value "abc"); {remedy}',
        f'pins/test.yaml:3: codePins["{ADDRESS} dev"]: must be a string (value {OTHER}); write "{OTHER}", in quotes',
    ]


def test_explain_shows_the_name_and_its_pin(tmp_path: Path) -> None:
    """They are printed with the values of the files."""
    root = make(tmp_path, "main", f"{ADDRESS} main: {COMMIT}\n")
    values = {path: (value, str(place)) for path, value, place in list_scalars(root, "test")}
    assert values["workloads.runs[train].code.revision"] == ("main", "Pulumi.test.yaml:9")
    assert values[f'codePins["{ADDRESS} main"]'] == (COMMIT, "pins/test.yaml:1")


def test_a_name_of_a_simulated_change_needs_a_pin_too(tmp_path: Path) -> None:
    """`trainstack forecast --set` simulates the runs that would be launched."""
    root = make(tmp_path, "main", f"{ADDRESS} main: {COMMIT}\n{ADDRESS} dev: {OTHER[:-2]}ab\n")
    changes = [f"workloads.runs[train].code.revision={name}" for name in ("dev", "main")]
    (run,) = load_with_places(root, "test", changes=changes[:1]).settings.workloads.runs
    assert run.code is not None
    assert run.code.revision == f"{OTHER[:-2]}ab"
