"""Which state a command uses and who may create it. The engine is a program that records the names of stacks."""

import json
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from trainstack.cli import engine
from trainstack.cli.app import app
from trainstack.cli.session import Session
from trainstack.settings.values.published_passphrase import PUBLISHED_PASSPHRASE
from trainstack.toolchain import backend, programs_on_path, tools
from trainstack.toolchain.engine import Engine, prepare_engine
from trainstack.toolchain.errors import ToolchainError

PULUMI = """#!{python} -IS
import json, os, pathlib, sys
words = sys.argv[1:]
login = pathlib.Path(os.environ["PULUMI_CREDENTIALS_PATH"], "credentials.json")
url = os.environ.get("PULUMI_BACKEND_URL") or json.loads(login.read_text())["current"]
url = url.removeprefix("file://").partition("?")[0]
file = pathlib.Path(url, f"{{words[2 if words[1] in ('init', '--stack') else 1]}}.stack")
with open("{log}", "a") as log:
    log.write(json.dumps([words, os.getcwd(), dict(os.environ)]) + "\\n")
if words[:2] == ["stack", "init"]:
    file.touch()
    with open(f"Pulumi.{{words[2]}}.yaml", "a") as stack:
        stack.write("encryptionsalt: new\\n")
elif not file.exists():
    sys.exit(f"error: no stack named '{{words[2]}}' found")
"""
LAB = "config:\n  trainstack:environment: {state: %s, namespaces: [{name: lab}]}\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a project with the engine as the current folder; the user is not logged in and has no kubeconfig."""
    root = tmp_path / "project"
    (root / ".trainstack").mkdir(parents=True)
    (root / "Pulumi.yaml").write_text("name: trainstack\nruntime: python\n")
    program = tmp_path / "tools" / "pulumi"
    program.parent.mkdir()
    program.write_text(PULUMI.format(python=sys.executable, log=tmp_path / "log"))
    program.chmod(0o755)
    for name in [name for name in os.environ if name.startswith("PULUMI_")] + ["KUBECONFIG"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PULUMI_CREDENTIALS_PATH", str(tmp_path / "logins"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(programs_on_path, "pulumi", programs_on_path.PathSearch)

    def make_engine(checkout: Path, *, embedded: bool) -> Engine:
        return prepare_engine(checkout, program, built_here=True, embedded=embedded, caller=os.environ)

    monkeypatch.setattr(tools, "engine", make_engine)
    monkeypatch.chdir(root)
    return root


def write(root: Path, state: str) -> Session:
    """Write the environment `lab`."""
    (root / "Pulumi.lab.yaml").write_text(LAB % state)
    return Session.open("lab")


def calls(root: Path) -> list[tuple[list[str], str, dict[str, str]]]:
    """Return the calls of the engine: words, folder, variables."""
    log = root.parent / "log"
    return [tuple(json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []


def log_in(root: Path) -> Path:
    """Log in to a folder of states, as `pulumi login` does; return it."""
    states = root.parent / "states"
    (root.parent / "logins").mkdir()
    states.mkdir()
    (root.parent / "logins" / "credentials.json").write_text(json.dumps({"current": states.as_uri()}))
    return states


EVERY: dict[str, Callable[[Session], object]] = {
    "ensure_backend": engine.ensure_backend,
    "ensure_stack": engine.ensure_stack,
    "outputs": engine.outputs,
    "export": engine.export,
    "pulumi": lambda session: engine.pulumi(session, "up"),
}


@pytest.mark.parametrize("call", EVERY)
def test_without_a_login_nothing_is_called(root: Path, call: str) -> None:
    """The error has the three remedies, and how to add `pulumi` to PATH."""
    with pytest.raises(ToolchainError) as caught:
        EVERY[call](write(root, "pulumi"))
    for word in ("`pulumi login`", "trainstack env -s lab", "PULUMI_BACKEND_URL", "{state: embedded}"):
        assert word in caught.value.remedy
    assert "earlier state" not in caught.value.remedy
    assert calls(root) == []


@pytest.mark.parametrize("words", [["up", "--yes"], ["preview"], ["destroy", "--yes"], ["doctor"]])
def test_commands_that_need_a_state_fail_before_they_read_the_cluster(root: Path, words: list[str]) -> None:
    """The missing kubeconfig would be the next error."""
    write(root, "pulumi")
    result = CliRunner().invoke(app, [*words, "-s", "lab"])
    assert result.exit_code == 1
    assert "error: Pulumi is not logged in, so stack 'lab' has no state; run `pulumi login`" in result.output
    assert "kubeconfig" not in result.output


@pytest.mark.parametrize("content", ["config: [", LAB % "embeded"], ids=["not YAML", "not a state"])
@pytest.mark.parametrize("words", [["preview"], ["destroy", "--yes"], ["doctor"]])
def test_a_fault_in_the_file_is_not_taken_for_a_missing_login(root: Path, words: list[str], content: str) -> None:
    """The fault may be the reason why the state is not embedded."""
    write(root, "embedded")
    (root / "Pulumi.lab.yaml").write_text(content)
    result = CliRunner().invoke(app, [*words, "-s", "lab"])
    assert result.exit_code == 1
    assert "environment 'lab' has 1 fault" in result.output


def test_a_file_that_is_not_yaml_gives_no_shell(root: Path) -> None:
    """Its variables would belong to another state and cluster."""
    write(root, "embedded")
    (root / "Pulumi.lab.yaml").write_text("config: [")
    result = CliRunner().invoke(app, ["env", "-s", "lab"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "Pulumi.lab.yaml:2: invalid YAML" in result.stderr


def test_an_earlier_state_in_the_checkout_is_not_forgotten(root: Path) -> None:
    """Before environments declared where their state is, it was in the checkout by default."""
    stacks = root / ".trainstack" / "backend" / ".pulumi" / "stacks" / "trainstack"
    stacks.mkdir(parents=True)
    (stacks / "lab.json").write_text("{}")
    with pytest.raises(ToolchainError, match="`pulumi stack export` and `pulumi stack import`"):
        engine.ensure_backend(write(root, "pulumi"))


def test_only_an_embedded_stack_is_created(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The error for any other stack has the command, and the backend in which the stack is missing."""
    states = log_in(root)
    with pytest.raises(typer.Exit):
        engine.ensure_stack(write(root, "pulumi"))
    stderr = " ".join(capfd.readouterr().err.split())
    assert f"stack 'lab' does not exist in {states.as_uri()}; create it with `pulumi stack init lab`" in stderr
    assert "--secrets-provider" in stderr
    (states / "lab.stack").touch()
    engine.ensure_stack(write(root, "pulumi"))
    assert not (root / ".trainstack" / "backend").exists()
    engine.ensure_stack(write(root, "embedded"))
    assert (root / ".trainstack" / "backend" / "lab.stack").exists()


def test_an_embedded_state_is_read_without_the_engine(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine is used if the format of the state is unknown, or if the state is in another backend."""
    session = write(root, "embedded")
    assert engine.deployment(session) is None
    file = root / ".trainstack" / "backend" / ".pulumi" / "stacks" / "trainstack" / "lab.json"
    file.parent.mkdir(parents=True)
    for version, latest in ((3, {"resources": [{"urn": "a"}]}), (4, {"resources": [{"urn": "b"}]}), (4, None)):
        checkpoint = latest or {}
        file.write_text(json.dumps({"version": version, "checkpoint": {"stack": "lab", "latest": latest}}))
        assert engine.deployment(session) == checkpoint
    assert calls(root) == []
    monkeypatch.setattr(engine, "export", lambda _: json.dumps({"deployment": {"resources": []}}))
    for text in ("", "[]", '{"version": 5, "checkpoint": {}}', '{"version": 3}'):
        file.write_text(text)
        assert engine.deployment(session) == {"resources": []}
    file.write_text(json.dumps({"version": 3, "checkpoint": {"latest": None}}))
    monkeypatch.setenv("PULUMI_BACKEND_URL", "s3://team")
    assert engine.deployment(session) == {"resources": []}


def test_a_preview_of_a_stack_without_state_leaves_none(root: Path) -> None:
    """The engine has a temporary state and a copy of the stack's file during the preview."""
    session = write(root, "embedded")
    text = (root / "Pulumi.lab.yaml").read_text()
    with engine.preview_variables(session) as variables:
        state = Path(variables["PULUMI_BACKEND_URL"].removeprefix("file://"))
        copy = Path(variables["PULUMI_OPTION_CONFIG_FILE"])
        assert (state / "lab.stack").exists()
        assert copy.read_text() == f"{text}encryptionsalt: new\n"
    assert not state.parent.exists()
    assert (root / "Pulumi.lab.yaml").read_text() == text
    assert list((root / ".trainstack" / "backend").iterdir()) == []
    engine.ensure_stack(session)
    with engine.preview_variables(session) as variables:
        assert variables == {}


def test_a_preview_of_another_stack_creates_none(root: Path) -> None:
    """The stack has to exist."""
    states = log_in(root)
    session = write(root, "pulumi")
    with pytest.raises(typer.Exit), engine.preview_variables(session):
        pytest.fail("a preview of nothing")
    assert list(states.iterdir()) == []


@pytest.mark.parametrize("own", [True, False])
def test_the_users_selected_stack_stays_selected(root: Path, monkeypatch: pytest.MonkeyPatch, own: bool) -> None:
    """`stack init` would select the new stack, which later commands then take as chosen."""
    program = tools.engine(root, embedded=True).pulumi
    monkeypatch.setattr(
        tools, "engine", lambda checkout, **options: prepare_engine(checkout, program, built_here=own, **options)
    )
    engine.ensure_stack(write(root, "embedded"))
    (words,) = [words for words, _, _ in calls(root) if words[:2] == ["stack", "init"]]
    assert "--no-select" in words


def env(*words: str) -> tuple[dict[str, str], set[str]]:
    """Return the variables that the command sets, and those that it unsets."""
    result = CliRunner().invoke(app, ["env", "-s", "lab", *words])
    assert result.exit_code == 0, result.output
    commands = [shlex.split(line) for line in result.stdout.splitlines()]
    exported = dict(word.split("=", 1) for command, word in commands if command == "export")
    return exported, {word for command, word in commands if command == "unset"}


def test_the_shell_of_an_environment_that_is_not_embedded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command needs no login and no stack; the shell gets no state, passphrase or kubeconfig of trainstack."""
    write(root, "pulumi")
    exported, unset = env()
    assert unset == set()
    assert exported.keys() & {"PULUMI_BACKEND_URL", "PULUMI_CONFIG_PASSPHRASE_FILE", "KUBECONFIG"} == set()
    assert exported["PULUMI_CREDENTIALS_PATH"] == str(root.parent / "logins")
    assert calls(root) == []
    assert not (root / ".trainstack" / "passphrase").exists()
    # The shell was prepared for an embedded environment before.
    write(root, "embedded")
    for name, value in env()[0].items():
        monkeypatch.setenv(name, value)
    write(root, "pulumi")
    exported, unset = env()
    assert unset == {"PULUMI_BACKEND_URL", "PULUMI_CONFIG_PASSPHRASE_FILE"}
    assert "PULUMI_BACKEND_URL" not in exported
    assert backend.selected_url(root) is None


def test_the_shell_of_an_embedded_environment(root: Path) -> None:
    """Its state is created, unless an option prevents it."""
    write(root, "embedded")
    exported, _ = env("--no-init")
    assert calls(root) == []
    assert env()[0] == exported
    assert (root / ".trainstack" / "backend" / "lab.stack").exists()
    assert Path(exported["PULUMI_CONFIG_PASSPHRASE_FILE"]).read_text().strip() == PUBLISHED_PASSPHRASE


def test_the_engine_never_gets_the_published_passphrase_for_another_state(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variables of the shell do not matter."""
    states = log_in(root)
    (states / "lab.stack").touch()
    write(root, "embedded")
    for name, value in env()[0].items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", PUBLISHED_PASSPHRASE)
    (root.parent / "log").unlink()
    engine.ensure_stack(write(root, "pulumi"))
    ((_, _, variables),) = calls(root)
    assert PUBLISHED_PASSPHRASE not in variables.values()
    assert variables.keys().isdisjoint({"PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE"})


def test_plain_variables_take_precedence(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same holds in an embedded environment, and for the engine's garbage collection."""
    engine.ensure_stack(write(root, "embedded"))
    assert calls(root)[-1][2]["GOGC"] == "400"
    monkeypatch.setenv("GOGC", "50")
    (root.parent / "team").mkdir()
    monkeypatch.setenv("PULUMI_BACKEND_URL", (root.parent / "team").as_uri())
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "correct horse")
    for state in ("embedded", "pulumi"):
        session = write(root, state)
        (root.parent / "team" / "lab.stack").touch()
        engine.ensure_stack(session)
        variables = calls(root)[-1][2]
        assert variables["GOGC"] == "50"
        assert variables["PULUMI_BACKEND_URL"] == f"{(root.parent / 'team').as_uri()}?metadata=skip"
        assert variables["PULUMI_CONFIG_PASSPHRASE"] == "correct horse"
        assert "PULUMI_CONFIG_PASSPHRASE_FILE" not in variables
