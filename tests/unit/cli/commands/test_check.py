"""`trainstack check` of one environment and of all."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from trainstack.cli.app import app
from trainstack.cli.commands import check as check_command
from trainstack.onboarding.new_project.files import Installation, build_new_files
from trainstack.onboarding.new_project.origin import Origin
from trainstack.onboarding.new_project.release import PinnedRelease, release_url
from trainstack.onboarding.new_project.request import ProjectRequest

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


@pytest.fixture
def declare_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that creates an owner's project whose environment installs a release of Kueue."""
    monkeypatch.setattr(check_command, "try_downloads", lambda settings: (settings, {}))
    monkeypatch.chdir(tmp_path)

    def create_project(release: str) -> None:
        request = ProjectRequest(name="lab", environment="dev", profile="owner", cluster="kind")
        releases = {"kueue": PinnedRelease(release, release_url("kueue", release), "ab" * 32)}
        installation = Installation(Origin(requirement="./wheels/trainstack.whl"), "")
        for path, text in build_new_files(request, installation, releases, virtualenv=False).items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        # The manifests of the other operators, which `up` builds, are unknown too.
        file = tmp_path / "Pulumi.dev.yaml"
        environment = yaml.safe_load(file.read_text())
        operators = environment["config"]["trainstack:operators"]
        environment["config"]["trainstack:operators"] = {"kueue": operators["kueue"]}
        file.write_text(yaml.safe_dump(environment))

    return create_project


def test_strict_counts_a_release_that_was_not_compared_as_an_error(declare_release: Callable[[str], None]) -> None:
    """Without a cluster, too: the declared release is known. Text and JSON have the rules and the mark."""
    declare_release("v0.20.7")
    assert check("-s", "dev").exit_code == 0
    result = check("-s", "dev", "--strict")
    assert result.exit_code == 4
    assert "the rules of v0.19; v0.20 is not compared" in result.stdout
    assert result.stderr == (
        "dev: 0 errors, 1 other finding, 1 unknown (--strict); verdicts for Kueue v0.20.7, from the files, by the rules"
        " of v0.19; v0.20 is not compared\n"
    )
    result = check("-s", "dev", "--json", "--strict")
    assert result.exit_code == 4
    (verdict,) = json.loads(result.stdout)["verdicts"]
    keys = ("outcome", "source", "release", "rules", "not_compared", "judged_by")
    assert [verdict[key] for key in keys] == ["fits", "files", "v0.20.7", "v0.19", "v0.20", ""]


def test_strict_accepts_a_release_that_was_compared(declare_release: Callable[[str], None]) -> None:
    declare_release("v0.19.2")
    result = check("-s", "dev", "--strict")
    assert (result.exit_code, result.stderr) == (
        0,
        "dev: no findings; verdicts for Kueue v0.19.2, from the files, by the rules of v0.19\n",
    )


def test_strict_counts_unknown_verdicts_as_errors(declare_release: Callable[[str], None]) -> None:
    """A feature gate is set whose effect is not calculated."""
    declare_release("v0.19.2")
    file = Path("Pulumi.dev.yaml")
    environment = yaml.safe_load(file.read_text())
    environment["config"]["trainstack:operators"]["kueue"]["configuration"]["featureGates"] = {"AllAlpha": True}
    file.write_text(yaml.safe_dump(environment))
    assert check("-s", "dev").exit_code == 0
    result = check("-s", "dev", "--strict")
    assert result.exit_code == 4
    assert "dev: no findings, 1 unknown (--strict); verdicts for Kueue v0.19.2" in result.stderr
