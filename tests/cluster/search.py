"""Sweeps beside the dev environment, for tests of how their trials are launched."""

import json
from collections.abc import Sequence
from typing import Any

import yaml

from tests.cluster.lab import MOUNT, NAMESPACE, OPEN, Config, launches, managed_run, volume
from tests.cluster.project import Project, eventually
from trainstack.settings.search_space.hyperparams import sweep_folder

DIGITS = {
    "from": "digits",
    "kind": "Job",
    "roles": None,
    "namespace": NAMESPACE,
    "queue": OPEN,
    "data": {"volume": "lab"},
    "record": {"volume": "lab"},
    "volumes": [{"volume": "lab", "mountPath": "/mnt/training"}],
    "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
}
"""Return a run of the digits program as one process, on the lab's open queue."""


def search_config(platform: str, *sweeps: Config, namespace: str = NAMESPACE) -> Config:
    """Return the configuration of a training-only stack: one volume and sweeps."""
    return {
        "trainstack:environment": {"layers": ["training"], "platform": f"organization/trainstack/{platform}"},
        "trainstack:storage": {"volumes": [volume("lab", namespace)]},
        "trainstack:workloads": {"runs": []},
        "trainstack:sweeps": {"sweeps": list(sweeps)},
    }


def sweep_run(name: str, source: str, **changes: Any) -> Config:
    """Return a sweep's `run`: a managed Python program on the open queue."""
    run = managed_run(name, source, **changes)
    return {key: value for key, value in run.items() if key != "name"}


def write_space(project: Project, name: str, parameters: Config, **changes: Any) -> None:
    """Write a grid of these parameters as a sweep's space, and expand it as a user does."""
    content = {
        "method": "grid",
        "parameters": parameters,
        "objective": {"metric": "val_accuracy", "direction": "maximize"},
        **changes,
    }
    file = project.root / sweep_folder(name) / "space.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    done = project.run(["sweep", "expand", name], trainstack=True)
    assert done.code == 0, done.text


def values(*several: Any) -> Config:
    """Return a parameter with these choices."""
    return {"values": list(several)}


def edit_sweep(project: Project, name: str, **changes: Any) -> None:
    """Change a sweep's entry in place."""

    def change(config: Config) -> None:
        (sweep,) = (entry for entry in config["trainstack:sweeps"]["sweeps"] if entry["name"] == name)
        sweep.update(changes)

    project.edit_stack(change)


def trials_of(project: Project, body: Config) -> list[Config]:
    """Return the trials in the file of a live Indexed Job, by completion index."""
    volumes = body["spec"]["template"]["spec"]["volumes"]
    (file,) = (entry["configMap"]["name"] for entry in volumes if entry["name"] == "trainstack-sweep")
    data = project.get("configmaps", file, body["metadata"]["namespace"])["data"]
    found: list[Config] = json.loads(data["trials.json"])["trials"]
    return found


def launches_by_id(project: Project, name: str, namespace: str = NAMESPACE) -> dict[str, Config]:
    """Return the stack's live launches of a sweep, by run id or batch id."""
    return {body["metadata"]["labels"]["trainstack.dev/run"]: body for body in launches(project, name, namespace)}


def expire(project: Project, name: str) -> None:
    """Set a TTL on the finished Jobs of a sweep, as the policies of some clusters do."""
    for body in launches_by_id(project, name).values():
        patch = '{"spec": {"ttlSecondsAfterFinished": 0}}'
        done = project.kubectl("patch", "job", body["metadata"]["name"], "-n", NAMESPACE, "--type=merge", "-p", patch)
        assert done.code == 0, done.text
    eventually(f"the TTL of {name}", lambda: not launches_by_id(project, name))


def up(project: Project, *words: str) -> str:
    """Run `pulumi up --refresh`, assert that it succeeds, and return its output."""
    done = project.up("--refresh", *words)
    assert done.code == 0, done.text
    return done.text


def records(project: Project, to: str = "all") -> dict[str, Config]:
    """Fetch every record on the lab's volume: run.json by run id, with `metrics` and the requested files."""
    target = project.root / "results" / to
    done = project.trainstack("fetch", "lab:runs", "--to", str(target))
    assert done.code == 0, done.text
    found = {}
    for file in target.glob("*/run.json"):
        metrics = file.parent / "result" / "metrics.jsonl"
        lines = metrics.read_text().splitlines() if metrics.is_file() else []
        failures = sorted(file.parent.glob("attempts/*/failure.json"), key=lambda path: path.stat().st_mtime)
        found[file.parent.name] = {
            **json.loads(file.read_text()),
            "metrics": [json.loads(line) for line in lines],
            "finished": (file.parent / "_SUCCESS").is_file(),
            "failures": [json.loads(path.read_text()) for path in failures],
            "log": "".join(path.read_text() for path in sorted(file.parent.glob("logs/*.log"))),
        }
    return found


def sweep_report(project: Project, command: str, name: str) -> Config:
    """Return the JSON output of `trainstack sweep <command>` for a sweep."""
    done = project.trainstack("sweep", command, name, "--json")
    assert done.code == 0, done.text
    report: Config = json.loads(done.out)
    return report


def sorted_parameters(records: Sequence[Config]) -> list[tuple[Any, ...]]:
    """Return the parameters of these records, sorted."""
    return sorted(tuple(record["definition"]["sweep"]["parameters"].values()) for record in records)


GO = f"{MOUNT}/go"
