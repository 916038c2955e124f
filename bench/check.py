"""How long `trainstack check` takes: on 1,000 runs and 100 cluster queues, and on the small environment `dev`.

    .venv/bin/python -m bench.check          # a table
    .venv/bin/python -m bench.check --json   # for programs

The large environment has four flavors, ten cohorts and a namespace for each queue; a tenth of its runs never fit, so
remedies are looked for. What is checked there is read before; both are told. On `dev` it is the whole command, from its
start, beside a Python that does nothing. All are seconds of processor time, which other programs hardly change.
"""

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from bench.results import show
from trainstack.declared.declared import Declared
from trainstack.preflight.preflight import examine
from trainstack.settings.loading.load import load_with_places

_QUEUES, _RUNS = 100, 1000
_ROOT = Path(__file__).parent.parent


def environment() -> dict[str, Any]:
    """The large one, as its file has it."""
    names = [f"team-{number}" for number in range(_QUEUES)]
    flavors = [f"gpu-{number}" for number in range(4)]
    quotas = [{"name": "cpu", "nominalQuota": "256"}, {"name": "memory", "nominalQuota": "2Ti"}]
    quotas.append({"name": "nvidia.com/gpu", "nominalQuota": "8", "borrowingLimit": "8"})
    group = {
        "coveredResources": [each["name"] for each in quotas],
        "flavors": [{"name": flavor, "resources": quotas} for flavor in flavors],
    }
    queues = {
        "flavors": [{"name": flavor, "nodeLabels": {"pool": flavor}} for flavor in flavors],
        "cohorts": [{"name": f"lab-{number}"} for number in range(10)],
        "clusterQueues": [
            {"name": name, "cohort": f"lab-{number % 10}", "resourceGroups": [group]}
            for number, name in enumerate(names)
        ],
        "localQueues": [{"name": "runs", "namespace": name, "clusterQueue": name} for name in names],
    }
    runs = [_run(number, names[number % _QUEUES]) for number in range(_RUNS)]
    return {
        "environment": {"namespaces": [{"name": each} for each in names]},
        "queues": queues,
        "workloads": {"runs": runs},
    }


def _run(number: int, team: str) -> dict[str, Any]:
    """A Job, a gang or a PyTorchJob of a team; every tenth asks for more than it may ever have."""
    gpus = 64 if number % 10 == 9 else 1 + number % 4
    requests = {"cpu": str(4 * gpus), "memory": f"{16 * gpus}Gi", "nvidia.com/gpu": str(gpus)}
    run = {
        "name": f"run-{number}",
        "namespace": team,
        "kind": "Job",
        "managed": False,
        "queue": "runs",
        "image": {"name": "python:3.11"},
        "command": ["python3", "train.py"],
        "resources": {"requests": requests, "limits": {"nvidia.com/gpu": str(gpus)}},
    }
    if number % 3 == 1:
        return {**run, "completions": 2, "parallelism": 2}
    if number % 3 == 2:
        return {**run, "kind": "PyTorchJob", "roles": {"Master": {}, "Worker": {"replicas": 2}}}
    return run


def large() -> tuple[float, float]:
    """Seconds in which the large environment is read and is checked."""
    with tempfile.TemporaryDirectory(prefix="trainstack-bench-") as name:
        root = Path(name)
        (root / "Pulumi.yaml").write_text("name: bench\nruntime: python\n")
        (root / "defaults.yaml").write_text((_ROOT / "defaults.yaml").read_text())
        config = {f"trainstack:{section}": said for section, said in environment().items()}
        (root / "Pulumi.large.yaml").write_text(yaml.safe_dump({"config": config}))
        began = time.process_time()
        loaded = load_with_places(root, "large")
        read = time.process_time()
        checked = examine(Declared(loaded.settings), root, loaded.places)
        ended = time.process_time()
    never = sum(verdict.outcome == "never fits" for verdict in checked.verdicts)
    if (len(checked.verdicts), never) != (_RUNS, _RUNS // 10):
        raise SystemExit(f"{never} of {len(checked.verdicts)} runs never fit; a tenth of {_RUNS} was to")
    return read - began, ended - read


def command(*words: str) -> float:
    """Seconds of a Python with these arguments, from its start to its end; ends the program where it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, *words], cwd=_ROOT, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"`{' '.join(words)}` ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(times: int) -> dict[str, float]:
    """Medians in seconds."""

    def median(measured: Callable[[], float]) -> float:
        return round(statistics.median(measured() for _ in range(times)), 3)

    both = [large() for _ in range(times)]
    return {
        "read_seconds": round(statistics.median(read for read, _ in both), 3),
        "check_seconds": round(statistics.median(checked for _, checked in both), 3),
        "dev_seconds": median(lambda: command("-m", "trainstack.cli", "check", "-s", "dev")),
        "python_seconds": median(lambda: command("-c", "pass")),
    }


def main(
    *,
    times: Annotated[int, typer.Option(help="How often each is measured; the median counts.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure the checks."""
    result = measure(times)
    figures = (
        (f"{_RUNS:,} runs, {_QUEUES} cluster queues: checked", result["check_seconds"]),
        ("the same: read from its file", result["read_seconds"]),
        ("`trainstack check -s dev`, beyond Python's own", result["dev_seconds"] - result["python_seconds"]),
        ("Python's own", result["python_seconds"]),
    )
    show(result, ((name, f"{took:.2f} s", ()) for name, took in figures), as_json=as_json)


if __name__ == "__main__":
    typer.run(main)
