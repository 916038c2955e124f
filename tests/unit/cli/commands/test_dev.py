"""`trainstack dev`, without a toolchain."""

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from trainstack.cli.app import app
from trainstack.cli.commands import dev
from trainstack.local_cluster import drivers
from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.kind import cluster as kind
from trainstack.toolchain import debian, machine, python_locks

ROOT = Path(__file__).resolve().parents[4]


def run(*arguments: str) -> Result:
    """Run `trainstack dev` with these arguments."""
    return CliRunner().invoke(app, ["dev", *arguments], catch_exceptions=False)


def test_packages_are_installed_on_a_suitable_machine_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that lacks something else is reported with exit code 1, and remains unchanged."""
    installed: list[object] = []
    monkeypatch.setattr(debian, "ensure", installed.append)
    monkeypatch.setattr(drivers, "default_driver", lambda _: "native")
    monkeypatch.setattr(machine, "find_problems", lambda: [machine.MachineProblem("not root", "run it as root")])
    result = run("machine", "--install")
    assert (result.exit_code, installed) == (4, [])
    assert result.stdout.startswith("not root: run it as root; another cluster works")
    monkeypatch.setattr(machine, "find_problems", list)
    assert (run("machine").exit_code, installed) == (0, [])
    assert (run("machine", "--install").exit_code, len(installed)) == (0, 1)


def test_a_machine_whose_cluster_is_one_of_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make up` of a user who is not root continues there: kind's requirements count, and no package is installed."""
    installed: list[object] = []
    checked: list[Path] = []
    state = tmp_path / ".trainstack" / "cluster"
    state.mkdir(parents=True)
    (tmp_path / "Pulumi.yaml").touch()
    (state / "driver.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(debian, "ensure", installed.append)
    monkeypatch.setattr(kind, "check_machine", checked.append)
    assert (run("machine", "--install").exit_code, installed, checked) == (0, [], [state])

    def stopped(_: Path) -> None:
        raise LocalClusterError("podman does not respond", "start it")

    monkeypatch.setattr(kind, "check_machine", stopped)
    result = run("machine", "--install")
    assert (result.exit_code, result.stdout, installed) == (4, "podman does not respond; start it\n", [])


def test_the_exit_code_of_a_failed_lock_is_that_of_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code makes `make lock` fail, too."""
    monkeypatch.setattr(python_locks, "write", lambda: 2)
    assert run("lock").exit_code == 2


def test_generated_pages_are_written_to_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command prints their names. A wheel has no checkout, and its folder is not changed."""
    monkeypatch.setattr(dev, "CHECKOUT", tmp_path)
    installed = run("schema")
    assert (installed.exit_code, list(tmp_path.iterdir())) == (1, [])
    assert "is installed from a wheel; run it in a checkout" in installed.stderr
    (tmp_path / "pyproject.toml").touch()
    names = [*run("schema").stdout.splitlines(), *run("rules-page").stdout.splitlines()]
    assert len(names) == 5
    assert all((tmp_path / name).read_bytes() == (ROOT / name).read_bytes() for name in names)
