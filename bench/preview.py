"""How long `pulumi preview` of an untouched environment takes, beside that of a program with one ConfigMap.

    .venv/bin/python -m bench.preview -s dev          # a table
    .venv/bin/python -m bench.preview -s dev --json   # for programs

The environment must be up: `trainstack up -s dev` before. Nothing else should run on the machine. The small program
shows what engine, language host and provider cost by themselves; the ratio tells machines apart from changes of ours.
It is brought up in a state of its own, with a ConfigMap in the namespace `default`, and taken down again.
"""

import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.results import run, show
from trainstack.cli.engine import environment
from trainstack.cli.session import Session, StackOption

_PROGRAM = """\
import pulumi
from pulumi_kubernetes import core

core.v1.ConfigMap("one", metadata={"name": "trainstack-bench", "namespace": "default"}, data={"key": "value"})
"""


def pulumi(folder: Path, variables: Mapping[str, str], *words: str) -> str:
    """What the engine prints; ends the program, with what it said, when it fails."""
    command = ["pulumi", *words, "--non-interactive"]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"`{' '.join(command)}` in {folder} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def preview_seconds(folder: Path, variables: Mapping[str, str], stack: str, times: int) -> list[float]:
    """The wall time of each of so many previews; ends the program when one finds something to change."""
    took = []
    for _ in range(times):
        began = time.monotonic()
        summary = json.loads(pulumi(folder, variables, "preview", "--json", "--stack", stack))["changeSummary"]
        took.append(round(time.monotonic() - began, 3))
        if set(summary) - {"read"} != {"same"}:
            raise SystemExit(f"{stack} is not untouched ({summary}); bring it up first: trainstack up -s {stack}")
    return took


def one_config_map(root: Path, variables: Mapping[str, str], times: int) -> list[float]:
    """The same for a program with one object, in a folder and a state of its own."""
    with tempfile.TemporaryDirectory(prefix="trainstack-bench-") as name:
        folder = Path(name)
        runtime = f"{{name: python, options: {{virtualenv: {root / '.venv'}}}}}"
        (folder / "Pulumi.yaml").write_text(f"name: bench\nruntime: {runtime}\n")
        (folder / "__main__.py").write_text(_PROGRAM)
        own = {**variables, "PULUMI_BACKEND_URL": f"file://{folder}"}
        pulumi(folder, own, "stack", "init", "one")
        pulumi(folder, own, "up", "--yes", "--skip-preview", "--stack", "one")
        try:
            return preview_seconds(folder, own, "one", times)
        finally:
            pulumi(folder, own, "destroy", "--yes", "--skip-preview", "--stack", "one")


def measure(session: Session, times: int) -> dict[str, Any]:
    """Both medians in seconds, their ratio, and every single time."""
    variables = environment(session)
    ours = preview_seconds(session.root, variables, session.stack, times)
    small = one_config_map(session.root, variables, times)
    medians = {"seconds": statistics.median(ours), "one_config_map_seconds": statistics.median(small)}
    return {
        "stack": session.stack,
        **medians,
        "ratio": round(medians["seconds"] / medians["one_config_map_seconds"], 2),
        "all_seconds": ours,
        "all_one_config_map_seconds": small,
    }


def main(
    *,
    stack: StackOption,
    times: Annotated[int, typer.Option(help="Previews of each; the median counts.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure previews of an untouched environment."""
    result = measure(Session.open(stack), times)
    rows = [
        (f"preview of {stack}", f"{result['seconds']:.2f} s", result["all_seconds"]),
        ("preview of one ConfigMap", f"{result['one_config_map_seconds']:.2f} s", result["all_one_config_map_seconds"]),
        ("ratio", f"{result['ratio']:.2f}", ()),
    ]
    show(result, rows, as_json=as_json)


if __name__ == "__main__":
    run(main)
