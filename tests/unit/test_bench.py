"""The benchmarks' commands, which no workflow runs."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = sorted(file.stem for file in (ROOT / "bench").glob("*.py") if "typer.Option(" in file.read_text("utf-8"))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_benchmark_has_a_help(name: str) -> None:
    """Its modules are imported, and its options are valid."""
    words = [sys.executable, "-m", f"bench.{name}", "--help"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Usage: " in done.stdout


def test_all_benchmarks_are_tested() -> None:
    """Those that their pages name."""
    assert {"check", "plan", "preview", "transfer"} <= {*COMMANDS}
