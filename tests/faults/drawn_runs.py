"""Drawn environments whose runs mostly do not fit, as files."""

import json
import random
from pathlib import Path
from typing import Any

import yaml

from tests.unit.kueue.remedy_files import Config, make_config, write

POOLS, DISKS, ZONES = ("a", "b", "1"), ("ssd", "hdd"), ("z1", "true")
LABELS = {"pool": POOLS, "example.com/disk": DISKS, "zone": ZONES}
SLICE, MEMORY, GPU = "example.com/slice", "example.com/slice-memory", "nvidia.com/gpu"
AMOUNTS = {
    "cpu": ("1", "2", 3, "500m", "4.0005", 6, "1500u"),
    "memory": ("1Gi", "3Gi", "700M", "8589934593", "0.5G"),
    GPU: (1, 2, 4, 8),
    "hugepages-2Mi": ("4Mi", "8Mi"),
    SLICE: (1, 3),
}
QUOTAS = {
    "cpu": (2, "3500m", 4, 8, 0),
    "memory": ("2Gi", "5G", "16Gi"),
    GPU: (1, 4, 0),
    "hugepages-2Mi": ("5Mi", "16Mi"),
    MEMORY: (7, 20),
    SLICE: (2, 6),
}
TRANSFORMATIONS = [{"input": SLICE, "strategy": "Replace", "outputs": {MEMORY: 5}}]
SPACE = {
    "method": "grid",
    "parameters": {"size": {"values": [1, 2, 3, 4]}},
    "objective": {"metric": "loss", "direction": "minimize"},
    "args": ["--size=${parameters.size}"],
}
KINDS = ("Job", "Job", "Pod", "PyTorchJob", "MPIJob", "TrainJob", "JobSet", "RayJob", "sweep")


class Environment:
    """A drawn environment: the same seed and number draw the same one."""

    def __init__(self, seed: int, number: int) -> None:
        self.random = random.Random(f"{seed}/{number}")
        self.files: dict[str, str] = {}
        """The files besides the environment's own, by name."""
        self.config = self._config()

    def write(self, root: Path) -> Path:
        """Write all files; return the root."""
        for name, text in self.files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return write(root, self.config)

    def _maybe(self, likelihood: float) -> bool:
        return self.random.random() < likelihood

    def _config(self) -> Config:
        pick = self.random.choice
        names = [f"f{index}" for index in range(pick((1, 1, 2, 3)))]
        flavors = [{"name": name, **self._nodes()} for name in names]
        pools = [self._pool(name, names) for name in ("q", "r", "s")[: pick((1, 2, 3))]]
        kueue: Config = {"transformations": TRANSFORMATIONS} if self._maybe(0.5) else {}
        if self._maybe(0.1):
            kueue["featureGates"] = {"PartialAdmission": False}
        config = make_config({}, *pools, flavors=flavors, **kueue)
        base = config["workloads"]["runs"][0]
        config["workloads"] = {"runs": []}
        for name in ("train", "other"):
            kind = pick(KINDS)
            run = {**base, "name": name, **self._run("Job" if kind == "sweep" else kind)}
            if kind == "sweep":
                self._add_sweep(config, name, run)
            else:
                config["workloads"]["runs"].append(self._shared(name, run))
        return config

    def _nodes(self) -> Config:
        labels = {key: self.random.choice(values) for key, values in LABELS.items() if self._maybe(0.3)}
        taints = [
            {"key": key, "value": value, "effect": effect}
            for key, value, effect in (("spot", "yes", "NoSchedule"), ("gpu", "", "NoExecute"))
            if self._maybe(0.08)
        ]
        return {key: value for key, value in (("nodeLabels", labels), ("nodeTaints", taints)) if value}

    def _pool(self, name: str, flavors: list[str]) -> Config:
        covered = ["cpu", *(key for key in QUOTAS if key != "cpu" and self._maybe(0.65))]
        parts = [covered[:1], covered[1:]] if len(covered) > 1 and self._maybe(0.2) else [covered]
        if len(flavors) == 1:
            parts = [covered]
        placed = [flavors] if len(parts) == 1 else [flavors[:1], flavors[1:]]
        groups = [
            {
                "coveredResources": part,
                "flavors": [{"name": flavor, "resources": [self._quota(key) for key in part]} for flavor in own],
            }
            for part, own in zip(parts, placed, strict=True)
        ]
        pool: Config = {"name": name, "resourceGroups": groups}
        if self._maybe(0.4):
            pool["cohort"] = "lab"
        if self._maybe(0.1):
            pool["namespaces"] = ["elsewhere"]
        if self._maybe(0.2):
            pool["queueingStrategy"] = "StrictFIFO"
        return pool

    def _quota(self, resource: str) -> Config:
        quota: Config = {"name": resource, "nominalQuota": self.random.choice(QUOTAS[resource])}
        if self._maybe(0.2):
            quota["borrowingLimit"] = self.random.choice(QUOTAS[resource])
        return quota

    def _resources(self) -> Config:
        requests: Config = {"cpu": self.random.choice(AMOUNTS["cpu"])}
        limits: Config = {}
        for name, amounts in AMOUNTS.items():
            if name == "cpu" or not self._maybe(0.2):
                continue
            amount = self.random.choice(amounts)
            if name == "memory":
                (requests if self._maybe(0.7) else limits)[name] = amount
            else:
                limits[name] = amount
                if self._maybe(0.5):
                    requests[name] = amount
        if self._maybe(0.2):
            limits["cpu"] = 9
        return {"requests": requests, "limits": limits}

    def _run(self, kind: str) -> Config:
        run: Config = {"kind": kind, "command": ["train"], "resources": self._resources(), **self._placement()}
        if kind == "Job":
            run["parallelism"] = self.random.choice((1, 2, 5, 9))
            if self._maybe(0.5):
                run["completions"] = self.random.choice((1, 6, 9, 20))
            at_once = min(run["parallelism"], run.get("completions", run["parallelism"]))
            if at_once > 2 and self._maybe(0.4):
                run["minParallelism"] = at_once - 1
        elif kind == "JobSet":
            parallelism = self.random.choice((1, 2, 6))
            job = {"name": "w", "replicas": self.random.choice((1, 3)), "parallelism": parallelism}
            if self._maybe(0.5):
                job["completions"] = parallelism
            run["replicatedJobs"] = [job, *([{"name": "ps"}] if self._maybe(0.3) else [])]
        elif kind != "Pod":
            run["roles"] = self._roles(kind)
            if kind == "PyTorchJob" and self._maybe(0.3):
                run["elastic"] = {"minReplicas": self.random.choice((1, 3)), "maxReplicas": 9}
        if kind == "MPIJob":
            run["security"] = "baseline"
        if self._maybe(0.4):
            run["podPatch"] = {"spec": self._patch()}
        return run

    def _roles(self, kind: str) -> Config:
        first, others = {"MPIJob": ("Launcher", "Worker"), "RayJob": ("head", "small-group")}.get(
            kind, ("Master", "Worker")
        )
        workers: Config = {"replicas": self.random.choice((1, 3, 7))}
        if kind != "TrainJob" and self._maybe(0.4):
            workers["resources"] = self._resources()
        return {first: {}, others: workers}

    def _placement(self) -> Config:
        pick, placement = self.random.choice, Config()
        if self._maybe(0.3):
            placement["nodeSelector"] = {key: pick(values) for key, values in LABELS.items() if self._maybe(0.5)}
        if self._maybe(0.2):
            placement["tolerations"] = [{"key": "spot", "operator": "Exists"}]
        if self._maybe(0.3):
            terms = [{"matchExpressions": self._expressions()} for _ in range(pick((1, 1, 2)))]
            nodes = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
            placement["affinity"] = {"nodeAffinity": nodes}
            if self._maybe(0.3):
                away = {"topologyKey": "zone"}
                placement["affinity"]["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [away]}
        return placement

    def _expressions(self) -> list[Config]:
        expressions = []
        for key in self.random.sample([*LABELS], self.random.choice((1, 2))):
            operator = self.random.choice(("In", "In", "NotIn", "Exists", "DoesNotExist"))
            values = {"values": [self.random.choice(LABELS[key])]} if operator in ("In", "NotIn") else {}
            expressions.append({"key": key, "operator": operator, **values})
        return expressions

    def _patch(self) -> Config:
        resources = {"requests": {"cpu": self.random.choice(("250m", 1))}}
        side = {"name": "log", "image": "i", "resources": resources}
        patches: list[Config] = [
            {"overhead": {"cpu": "250m"}},
            {"containers": [side]},
            {"initContainers": [{**side, "restartPolicy": "Always"}]},
            {"initContainers": [{**side, "resources": {"requests": {"cpu": 7}}}]},
            {"nodeSelector": {"pool": "a"}},
            {"tolerations": [{"key": "gpu", "operator": "Exists"}]},
        ]
        return self.random.choice(patches)

    def _shared(self, name: str, run: Config) -> Config:
        """Move some of a run's settings into the file that environments share."""
        keys = [key for key in run if key not in ("name", "kind", "namespace", "queue") and self._maybe(0.5)]
        if not self._maybe(0.3) or not keys:
            return run
        shared = {key: run.pop(key) for key in keys}
        self.files[f"workloads/{name}/workload.yaml"] = yaml.safe_dump(shared)
        return run

    def _add_sweep(self, config: Config, name: str, run: Config) -> None:
        del run["name"]
        for key in ("parallelism", "completions", "minParallelism"):
            run.pop(key, None)
        sweep: Config = {"name": name, "run": run}
        if self._maybe(0.6):
            run.update(managed=True, record={"volume": "data"}, volumes=[{"volume": "data", "mountPath": "/data"}])
            sweep.update(form="indexed", parallelism=self.random.choice((2, 4, 9)))
        self.files[f"sweeps/{name}/space.yaml"] = json.dumps(SPACE)
        sweeps: dict[str, Any] = config.setdefault("sweeps", {"sweeps": []})
        sweeps["sweeps"].append(sweep)
