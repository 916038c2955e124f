"""How long `trainstack check` takes for 1,000 runs and 100 cluster queues, and how long until any check begins.

    .venv/bin/python -m bench.verdicts          # a table
    .venv/bin/python -m bench.verdicts --json   # for programs

The queues are in ten cohorts below one root, of three flavors each. For each run that never fits, remedies are tried.
Reading the files is not counted. The cold start is the processor time of `trainstack check` of an environment of one
queue and no run, less that of Python itself.
"""

import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from checks.preflight import examine
from settings.load import load

_FLAVORS = ("cpu", "a100", "h100")
_GPU = "nvidia.com/gpu"


def environment(runs: int, queues: int) -> dict[str, Any]:
    """The sections of an environment of that size; the same each time."""
    draw = random.Random(1)  # noqa: S311 (a load, no secret)
    return {
        "trainstack:environment": {"namespaces": [{"name": "research"}]},
        "trainstack:queues": {
            "flavors": [{"name": name} for name in _FLAVORS],
            "cohorts": [{"name": "all"}, *({"name": f"lab-{n}", "parent": "all"} for n in range(10))],
            "clusterQueues": [_cluster_queue(number, draw) for number in range(queues)],
            "localQueues": [
                {"name": f"queue-{n}", "namespace": "research", "clusterQueue": f"queue-{n}"} for n in range(queues)
            ],
        },
        "trainstack:workloads": {"runs": [_run(number, queues, draw) for number in range(runs)]},
    }


def _cluster_queue(number: int, draw: random.Random) -> dict[str, Any]:
    def quota(gpus: int) -> list[dict[str, Any]]:
        amounts = {"cpu": 64, "memory": "512Gi", _GPU: gpus}
        return [{"name": name, "nominalQuota": amount} for name, amount in amounts.items()]

    flavors = [{"name": name, "resources": quota(0 if name == "cpu" else draw.choice((2, 4, 8)))} for name in _FLAVORS]
    group = {"coveredResources": ["cpu", "memory", _GPU], "flavors": flavors}
    return {"name": f"queue-{number}", "cohort": f"lab-{number % 10}", "resourceGroups": [group]}


def _run(number: int, queues: int, draw: random.Random) -> dict[str, Any]:
    requests = {"cpu": draw.randint(1, 900), "memory": f"{draw.randint(1, 500)}Gi"}
    resources = {"requests": requests, "limits": {_GPU: draw.randint(0, 900)}}
    run = {"name": f"run-{number}", "from": "train", "namespace": "research", "queue": f"queue-{number % queues}"}
    return {**run, "priority": "normal", "resources": resources}


def reckoned(runs: int, queues: int, times: int) -> list[float]:
    """Seconds of processor time of the whole preflight, each time."""
    with tempfile.TemporaryDirectory() as name:
        folder = _checkout(Path(name), environment(runs, queues))
        settings = load(folder, "big")
        took = []
        for _ in range(times):
            began = time.process_time()
            checked = examine(settings, folder)
            took.append(round(time.process_time() - began, 3))
            if len(checked.verdicts) != runs:
                raise SystemExit(f"{len(checked.verdicts)} verdicts of {runs} runs")
        return took


def cold(times: int) -> tuple[list[float], list[float]]:
    """Seconds of processor time of a check of hardly anything, and of Python alone."""
    with tempfile.TemporaryDirectory() as name:
        folder = _checkout(Path(name), environment(0, 1))
        command = [sys.executable, "-m", "cli", "check", "-s", "big"]
        alone = [sys.executable, "-c", "pass"]
        pairs = [(_spent(command, folder), _spent(alone, folder)) for _ in range(times)]
    return [each for each, _ in pairs], [each for _, each in pairs]


def _spent(command: Sequence[str], folder: Path) -> float:
    def children() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    before = children()
    variables = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return round(children() - before, 3)


def _checkout(folder: Path, sections: dict[str, Any]) -> Path:
    """A folder with the files of an environment `big`."""
    (folder / "Pulumi.yaml").write_text("name: trainstack\nruntime: python\n")
    (folder / "Pulumi.big.yaml").write_text(yaml.safe_dump({"config": sections}, sort_keys=False))
    (folder / "defaults.yaml").write_text("queues: {priorityClasses: [{name: normal, value: 1000}]}\n")
    workload = folder / "workloads" / "train" / "workload.yaml"
    workload.parent.mkdir(parents=True)
    workload.write_text(
        yaml.safe_dump({"kind": "Job", "image": {"name": "busybox:1"}, "command": ["true"], "managed": False})
    )
    return folder


def main(
    *,
    times: Annotated[int, typer.Option(help="Measurements of each; the median counts.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure verdicts on many runs, and a cold start."""
    many, few = reckoned(1000, 100, times), reckoned(100, 100, times)
    check, python = cold(times)
    rows = {
        "1,000 runs, 100 queues": many,
        "100 runs, 100 queues": few,
        "cold check": check,
        "Python alone": python,
    }
    if as_json:
        sys.stdout.write(
            json.dumps({name: {"median": statistics.median(each), "all": each} for name, each in rows.items()}) + "\n"
        )
        return
    for name, each in rows.items():
        sys.stdout.write(f"{name:<24}{statistics.median(each):>7.2f} s   {' '.join(f'{took:.2f}' for took in each)}\n")


if __name__ == "__main__":
    typer.run(main)
