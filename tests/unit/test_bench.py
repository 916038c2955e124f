"""The benchmarks' commands, which no workflow runs."""

import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = sorted(file.stem for file in (ROOT / "bench").glob("*.py") if "typer.Option(" in file.read_text("utf-8"))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_benchmark_has_a_help(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Its modules are imported, and its options are valid."""
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    # Another test may have imported it: it is executed anew.
    monkeypatch.delitem(sys.modules, f"bench.{name}", raising=False)
    # As `python -m` does, without another process: to import the library takes it most of a second.
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(f"bench.{name}", run_name="__main__")
    assert ended.value.code == 0
    assert "Usage: " in capsys.readouterr().out


def test_all_benchmarks_are_tested() -> None:
    """Those that their pages name."""
    assert {"check", "plan", "preview", "transfer"} <= {*COMMANDS}
