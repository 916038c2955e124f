"""A person's checkout: files to edit, a state of the engine, a kubeconfig."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.stateful.json_values import Body
from tests.stateful.state import state_path

ROOT = Path(__file__).parents[2]
FILES = ("__main__.py", "Pulumi.yaml", "defaults.yaml", "trainstack/runs/wrapper/run.py")
"""What the program reads beside the environment's own file."""


@dataclass
class Checkout:
    """One of them, on one stack."""

    name: str
    root: Path
    stack: str
    user: str
    """Who its commands are, to the API server."""
    first: str
    """The namespace of the volumes."""
    config: Body = field(default_factory=dict)
    """The stack's file."""
    claims: dict[str, bool] = field(default_factory=dict)
    """The volumes that are declared beside those of runs: by name, whether they are adopted."""
    clock_seconds: float = 0.0

    @property
    def backend(self) -> Path:
        """The folder of the engine's states, where an embedded environment has it."""
        return self.root / ".trainstack" / "backend"

    @property
    def state(self) -> Path:
        """The file of the engine's state."""
        return state_path(self.backend, self.stack)

    @property
    def kubeconfig(self) -> Path:
        """The person's kubeconfig."""
        return self.root / "kubeconfig"

    @property
    def runs(self) -> list[Body]:
        """The declared runs."""
        declared: list[Body] = self.config["trainstack:workloads"]["runs"]
        return declared

    @property
    def stop(self) -> list[str]:
        """The run ids that may be stopped."""
        named: list[str] = self.config["trainstack:workloads"].setdefault("stop", [])
        return named

    def run(self, name: str) -> Body | None:
        """A declared run."""
        return next((run for run in self.runs if run["name"] == name), None)

    def write(self) -> None:
        """Write the stack's file. A tenant names the namespaces of its runs, and volumes are declared where needed."""
        managed = any(run["managed"] for run in self.runs)
        records = [make_volume(self.first)] if managed else []
        others = [make_volume(self.first, name, adopt=adopt) for name, adopt in self.claims.items()]
        self.config["trainstack:storage"]["volumes"] = [*records, *others]
        if self.config["trainstack:environment"]["profile"] == "tenant":
            used = {run["namespace"] for run in self.runs} or {self.first}
            self.config["trainstack:environment"]["existing"]["namespaces"] = sorted(used)
        (self.root / f"Pulumi.{self.stack}.yaml").write_text(yaml.safe_dump({"config": self.config}, sort_keys=False))


def make_checkout(name: str, root: Path, stack: str, profile: str, namespaces: list[str]) -> Checkout:
    """A checkout with the program's files and a small environment."""
    for file in FILES:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, root / file)
    return Checkout(name, root, stack, f"{name}-{stack}", namespaces[0], make_config(profile, namespaces))


def make_config(profile: str, namespaces: list[str]) -> Body:
    """A small environment without operators."""
    named: dict[str, Any] = (
        {"namespaces": [{"name": namespace} for namespace in namespaces]} if profile == "owner" else {}
    )
    return {
        "trainstack:environment": {
            "profile": profile,
            "state": "embedded",
            **named,
            "existing": {"storageClasses": ["shared"]},
        },
        "trainstack:operators": dict.fromkeys(("kueue", "trainingOperator", "jobset", "trainer")),
        "trainstack:queues": {"priorityClasses": None},
        "trainstack:storage": {},
        "trainstack:workloads": {"runs": []},
    }


def make_volume(namespace: str, name: str = "records", *, adopt: bool = False) -> Body:
    """A claim, for example for the records of runs."""
    size = {"storageClass": "shared", "size": "1Gi", "accessModes": ["ReadWriteMany"]}
    return {"name": name, "namespace": namespace, **size, "retain": False, "adopt": adopt}


def make_run(name: str, namespace: str, **changes: Any) -> Body:
    """An unmanaged run."""
    return {
        "name": name,
        "kind": "Job",
        "namespace": namespace,
        "managed": False,
        "image": {"name": "busybox:1.35"},
        "command": ["sh", "-c", "true"],
        "args": ["1"],
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
        "runAsUser": 1000,
        **changes,
    }


def make_manifest_run(name: str, namespace: str) -> Body:
    """A run of a manifest, with the program of `make_run`."""
    restricted = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container = {
        "name": "main",
        "image": "busybox:1.35",
        "command": ["sh", "-c", "true"],
        "args": ["1"],
        "resources": {"requests": {"cpu": 0.05, "memory": "64Mi"}},
        "securityContext": restricted,
    }
    user = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    pod = {"restartPolicy": "Never", "securityContext": user, "containers": [container]}
    spec = {"backoffLimit": 0, "template": {"spec": pod}}
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"labels": {"team": "search"}}, "spec": spec}
    return {"name": name, "kind": "Job", "namespace": namespace, "managed": False, "manifest": manifest}


def main_container_of(run: Body) -> Body:
    """The part of a run that has its program: the container of its manifest, or the run itself."""
    manifest = run.get("manifest")
    container: Body = run if manifest is None else manifest["spec"]["template"]["spec"]["containers"][0]
    return container
