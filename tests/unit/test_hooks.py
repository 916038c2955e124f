"""The hooks of pre-commit: those for users' repositories, and those of this one."""

import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from trainstack.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())


@pytest.mark.parametrize(
    ("file", "checked"),
    [
        ("Pulumi.dev.yaml", True),
        ("defaults.yaml", True),
        ("workloads/digits/workload.yaml", True),
        ("workloads/digits/Dockerfile", True),
        ("sweeps/mnist/space.yaml", True),
        ("pins/prod.yaml", True),
        ("Pulumi.yaml", False),
        ("docs/Pulumi.dev.yaml", False),
        ("README.md", False),
    ],
)
def test_the_hook_for_users_runs_where_check_reads(file: str, *, checked: bool) -> None:
    """Other files of the repository do not start it."""
    assert (re.search(HOOK["files"], file) is not None) == checked


def test_the_hook_for_users_is_a_command_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets no files, only the environment of `args`."""
    monkeypatch.chdir(ROOT)
    assert (HOOK["language"], HOOK["pass_filenames"]) == ("python", False)
    program, *words = HOOK["entry"].split()
    assert f'\n{program} = "trainstack.cli.app:main"\n' in (ROOT / "pyproject.toml").read_text()
    assert CliRunner().invoke(app, [*words, "-s", "dev"]).exit_code == 0


def test_the_hooks_of_this_repository_are_those_of_make_lint() -> None:
    """The versions are the locked ones, without pins in the hooks."""
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    (local,) = config["repos"]
    assert local["repo"] == "local"
    recipe = (ROOT / "Makefile").read_text().partition("\nlint: ")[2].partition("\n\n")[0]
    linted = [" ".join(line.split()[:2]) for line in recipe.replace("@", "").splitlines()[1:]]
    hooks = [" ".join(hook["entry"].split()[:2]) for hook in local["hooks"]]
    assert hooks == linted
    assert {hook["language"] for hook in local["hooks"]} == {"system"}
