"""`trainstack check` of one environment and of all."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from trainstack.cli.app import app

ENVIRONMENT = "config:\n  trainstack:environment: {namespaces: [{name: %s}]}\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a project with the environments `a` and `b`, and make it the current folder."""
    (tmp_path / "Pulumi.yaml").write_text("name: lab\nruntime: python\n")
    (tmp_path / "Pulumi.b.yaml").write_text(ENVIRONMENT % "b")
    (tmp_path / "Pulumi.a.yaml").write_text(ENVIRONMENT % "a")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRAINSTACK_STACK", raising=False)
    return tmp_path


def check(*words: str) -> Result:
    return CliRunner().invoke(app, ["check", *words], env={"COLUMNS": "200"})


def test_all_environments_are_checked(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of their names, whatever a variable selects; the errors of one do not hide another."""
    monkeypatch.setenv("TRAINSTACK_STACK", "No Name")
    (project / "Pulumi.a.yaml").write_text("config:\n  trainstack:environment: {namespace: []}\n")
    result = check("--all")
    assert result.exit_code == 4
    assert "unknown key namespace" in result.stdout
    assert result.stderr.splitlines() == ["a: 1 error, 0 other findings", "b: no findings"]


def test_the_findings_of_all_environments_as_json(project: Path) -> None:
    """They are by environment; those of one environment have no further level."""
    of_one = json.loads(check("-s", "a", "--json").stdout)
    assert json.loads(check("--all", "--json").stdout) == {"environments": {"a": of_one, "b": of_one}}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--all", "-s", "a"], "--all checks every environment: leave out --stack"),
        (["--all", "--cluster"], "--all checks files alone: check one environment with --cluster"),
    ],
)
def test_options_that_exclude_each_other(project: Path, words: list[str], message: str) -> None:
    """The exit code of a wrong command line is 2."""
    result = check(*words)
    assert (result.exit_code, result.stderr) == (2, f"error: {message}\n")


def test_a_project_without_environments(project: Path) -> None:
    """A misnamed file is an error, also as JSON."""
    (project / "Pulumi.a.yaml").rename(project / "Pulumi.A.yaml")
    result = check("--all", "--json")
    assert result.exit_code == 4
    findings = {name: data["findings"] for name, data in json.loads(result.stdout)["environments"].items()}
    assert (findings["b"], len(findings["A"])) == ([], 1)
    assert "'A' is not a valid environment name" in findings["A"][0]["message"]
    (project / "Pulumi.A.yaml").unlink()
    (project / "Pulumi.b.yaml").unlink()
    result = check("--all")
    assert result.exit_code == 2
    assert f"{project} has no environment, such as Pulumi.dev.yaml" in result.stderr
