"""Reports, objects and recorded previews for the tests of the review."""

import json
import subprocess
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from trainstack.cli.app import app
from trainstack.review.report import Counts, Report

DATA = Path(__file__).parent / "data"
"""Previews of the engine, recorded on a real cluster (unread properties are left out)."""


def review(*arguments: object) -> Result:
    """Run `trainstack review` with these arguments; an unexpected error is raised."""
    return CliRunner().invoke(app, ["review", *map(str, arguments)], catch_exceptions=False)


def make_report(**changes: Any) -> Report:
    """Return a preview of `dev` that changes one object."""
    return Report(**{"kind": "preview", "stack": "dev", "counts": Counts(update=1), **changes})


def recorded(name: str) -> "tuple[subprocess.CompletedProcess[str], subprocess.CompletedProcess[str]]":
    """Return the two outputs of a recorded preview: the text and the JSON."""
    code = 1 if name == "refused" else 0
    file = DATA / f"{name}.diff"
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    objects = (DATA / f"{name}.json").read_text(encoding="utf-8")
    return subprocess.CompletedProcess([], code, text, ""), subprocess.CompletedProcess([], code, objects, "")


def steps_json(*steps: dict[str, Any], **more: Any) -> str:
    """Return a preview's JSON with these steps."""
    return json.dumps({"config": {}, "steps": steps, "changeSummary": {}, **more})


def make_job(run: str = "train-1", name: str = "train-1-2", **spec: Any) -> dict[str, Any]:
    """Return the Job of a launch, with two pods of 4 GPUs each."""
    container = {"resources": {"requests": {"cpu": "1500m"}, "limits": {"nvidia.com/gpu": "4", "memory": "1Gi"}}}
    return {
        "kind": "Job",
        "metadata": {"namespace": "research", "name": name, "labels": {"trainstack.dev/run": run}},
        "spec": {"parallelism": 2, "completions": 5, "template": {"spec": {"containers": [container]}}, **spec},
    }


def make_claim(size: str) -> dict[str, Any]:
    """Return the volume `research/data`."""
    return {
        "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": "research", "name": "data"},
        "spec": {"resources": {"requests": {"storage": size}}},
    }


def make_quota(**limits: str) -> dict[str, Any]:
    """Return the ClusterQueue `research` with these figures for GPUs on the flavor `a100`."""
    resources = [{"name": "nvidia.com/gpu", **limits}]
    group = {"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "a100", "resources": resources}]}
    return {"kind": "ClusterQueue", "metadata": {"name": "research"}, "spec": {"resourceGroups": [group]}}
