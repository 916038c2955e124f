"""The environment of a command: `-s`, TRAINSTACK_STACK, the stack selected in Pulumi, or an error."""

import json
from hashlib import sha1
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from trainstack.cli.app import app
from trainstack.cli.stack_selection import selected_stack


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a project with three environments that do not load, and a user without any variable or selection."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "Pulumi.yaml").write_text("name: trainstack\nruntime: python\n", encoding="utf-8")
    for name in ("dev", "lab", "prod"):
        (root / f"Pulumi.{name}.yaml").write_text("config: {trainstack:nope: {}}\n", encoding="utf-8")
    for name in ("TRAINSTACK_STACK", "PULUMI_STACK", "PULUMI_HOME", "PWD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.chdir(root)
    return root


def select(home: Path, path: Path, stack: str) -> None:
    """Do what `pulumi stack select` does to its home in the folder `path`."""
    digest = sha1(f"{path}/Pulumi.yaml".encode(), usedforsecurity=False).hexdigest()
    file = home / "workspaces" / f"trainstack-{digest}-workspace.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"stack": stack}), encoding="utf-8")


def checked(*words: str) -> Result:
    """Run `trainstack check`, whose last line names the environment."""
    return CliRunner().invoke(app, ["check", *words])


def test_without_a_choice_a_command_fails_and_lists_the_environments(project: Path) -> None:
    """The exit code is that of a usage error: `dev` is never assumed."""
    for name in ("check", "status", "destroy"):
        result = CliRunner().invoke(app, [name])
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == (
            "error: no environment is selected; add `-s ENV`, set TRAINSTACK_STACK, or run `pulumi stack select ENV`. "
            f"The environments of {project}: dev, lab, prod\n"
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(b"- a", "Pulumi.yaml:1: the file is not a map; write", id="list"),
        pytest.param(b"a: [", "Pulumi.yaml:2: invalid YAML: ", id="syntax"),
        pytest.param(b"\xff\xfe", "Pulumi.yaml:1: invalid YAML: 'utf-8' codec", id="encoding"),
        pytest.param(b"", "Pulumi.yaml: the project has no name; write `name: <name>` into the file\n", id="empty"),
    ],
)
def test_a_project_file_without_a_name_is_reported(project: Path, text: bytes, message: str) -> None:
    """Pulumi keeps the selection under the project's name. An option needs no selection."""
    (project / "Pulumi.yaml").write_bytes(text)
    result = checked()
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"error: {message}")
    assert checked("-s", "lab").stderr.splitlines()[-1].startswith("lab: ")


def test_the_option_precedes_the_variable_and_the_variable_the_selection(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is used if those before it are absent; an empty variable is absent."""
    select(project / ".trainstack" / "pulumi", project, "organization/trainstack/prod")
    assert checked().stderr.splitlines()[-1].startswith("prod: ")
    monkeypatch.setenv("TRAINSTACK_STACK", "lab")
    assert checked().stderr.splitlines()[-1].startswith("lab: ")
    assert checked("-s", "dev").stderr.splitlines()[-1].startswith("dev: ")
    monkeypatch.setenv("TRAINSTACK_STACK", "")
    assert checked().stderr.splitlines()[-1].startswith("prod: ")


def test_the_selection_is_that_of_pulumis_home(project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """PULUMI_HOME alone if it is set, else the user's, else the checkout's; PULUMI_STACK precedes all, as in Pulumi."""
    assert selected_stack(project) is None
    select(project / ".trainstack" / "pulumi", project, "dev")
    assert selected_stack(project) == "dev"
    select(tmp_path / "user" / ".pulumi", project, "lab")
    assert selected_stack(project) == "lab"
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "home"))
    assert selected_stack(project) is None
    select(tmp_path / "home", project, "prod")
    assert selected_stack(project) == "prod"
    monkeypatch.setenv("PULUMI_STACK", "organization/trainstack/dev")
    assert selected_stack(project) == "dev"


def test_a_selection_by_a_path_with_a_link_is_found(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pulumi takes the path from the shell's PWD, also in a folder of the project."""
    link = project.parent / "link"
    link.symlink_to(project)
    select(project / ".trainstack" / "pulumi", link, "lab")
    assert selected_stack(project) is None
    monkeypatch.setenv("PWD", f"{link}/workloads")
    assert selected_stack(project) == "lab"
    monkeypatch.setenv("PWD", "/")
    assert selected_stack(project) is None


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"stack": ""}'])
def test_a_file_without_a_selection_is_ignored(project: Path, content: str) -> None:
    """Pulumi removes the file when nothing is selected; a damaged one selects nothing."""
    home = project / ".trainstack" / "pulumi"
    select(home, project, "dev")
    (file,) = (home / "workspaces").iterdir()
    file.write_text(content, encoding="utf-8")
    assert selected_stack(project) is None
