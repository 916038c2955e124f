"""`trainstack cluster down --all`."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from trainstack.cli.commands.cluster import app
from trainstack.errors import ExitCode
from trainstack.local_cluster import cgroups, cluster, supervisor_process


def test_every_cluster_is_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A cluster whose supervisor has died has no state folder that its processes name."""
    states = {"trainstack-1": tmp_path / "one", "trainstack-2": None, "trainstack-3": tmp_path / "three"}
    pids = {name: {number} for number, name in enumerate(states)}
    stopped: list[tuple[object, bool]] = []
    monkeypatch.setattr(cgroups, "cluster_names", lambda _: {*states})
    monkeypatch.setattr(cgroups, "member_pids", lambda name, _: pids[name])
    monkeypatch.setattr(
        supervisor_process,
        "find_state_folder",
        lambda members: next(states[name] for name in states if pids[name] == members),
    )
    monkeypatch.setattr(cluster, "down", lambda state, *, keep_data, report: stopped.append((state, keep_data)))
    monkeypatch.setattr(supervisor_process, "remove_traces", lambda name: stopped.append((name, True)))
    result = CliRunner().invoke(app, ["down", "--all"])
    assert result.exit_code == 0
    assert stopped == [(tmp_path / "one", True), ("trainstack-2", True), (tmp_path / "three", True)]
    assert "3 native clusters of this machine are stopped" in result.output

    monkeypatch.setattr(cgroups, "cluster_names", lambda _: set())
    assert "no native cluster runs here" in CliRunner().invoke(app, ["down", "--all"]).output


def test_all_and_one_cluster_exclude_each_other(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["down", "--all", "--state", str(tmp_path)])
    assert result.exit_code == ExitCode.USAGE
    assert "--all stops every cluster: leave out --state" in result.output
