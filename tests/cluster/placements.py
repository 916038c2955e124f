"""Environments on simulated nodes in racks, and Kueue's placement of their runs."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import yaml

from tests.admission.bench import condition, has_reservation
from tests.admission.kueue import Body, wait_until
from tests.cluster.plan_bench import PlanBench
from tests.cluster.plan_scenarios import GPU, OWNER, PER_NODE, Config
from trainstack.local_cluster.simulated_gpus import DURATION_ANNOTATION, SIMULATED_NODE_KEY
from trainstack.settings.loading.load import load
from trainstack.settings.values.kubernetes import HOSTNAME
from trainstack.stack_objects.inputs import read_inputs
from trainstack.stack_objects.stack_objects import StackObjects

BLOCK, RACK = "topology.example.org/block", "topology.example.org/rack"
LEVELS = (BLOCK, RACK, HOSTNAME)
_ORDER = ("Namespace", "WorkloadPriorityClass", "Topology", "ResourceFlavor", "Cohort", "ClusterQueue", "LocalQueue")


def topology_labels(number: int) -> dict[str, str]:
    """Return the labels of a node: two hosts in a rack, two racks in a block."""
    return {BLOCK: f"b{number // 4}", RACK: f"b{number // 4}-r{number // 2}"}


def config(name: str, *runs: Config, nodes: int = 8, topology: bool = True, **queue: Any) -> Config:
    """Return an environment with a queue of all GPUs of some nodes, whose flavor may have a topology."""
    quotas = [{"name": "cpu", "nominalQuota": 64 * nodes}, {"name": GPU, "nominalQuota": PER_NODE * nodes}]
    group = {"coveredResources": ["cpu", GPU], "flavors": [{"name": name, "resources": quotas}]}
    flavor = {
        "name": name,
        "nodeLabels": {OWNER: name},
        "tolerations": [{"key": SIMULATED_NODE_KEY, "operator": "Exists"}],
        **({"topology": name} if topology else {}),
    }
    return {
        "trainstack:environment": {"namespaces": [{"name": name}]},
        "trainstack:queues": {
            "topologies": [{"name": name, "levels": list(LEVELS)}] if topology else [],
            "flavors": [flavor],
            "clusterQueues": [{"name": name, "namespaces": [name], "resourceGroups": [group], **queue}],
            "localQueues": [{"name": name, "namespace": name, "clusterQueue": name}],
        },
        "trainstack:workloads": {"runs": list(runs)},
    }


def run(name: str, namespace: str, pods: int, gpus: int = PER_NODE, **changes: Any) -> Config:
    """Return a Job with this number of pods, which run until it is deleted."""
    return {
        "name": name,
        "kind": "Job",
        "namespace": namespace,
        "queue": namespace,
        "managed": False,
        "image": {"name": "busybox:1.35"},
        "completions": pods,
        "parallelism": pods,
        "resources": {"requests": {"cpu": 1, GPU: gpus}, "limits": {GPU: gpus}},
        "annotations": {DURATION_ANNOTATION: "3600s"},
        **changes,
    }


class Site:
    """An environment on the cluster."""

    def __init__(self, bench: PlanBench, name: str, settings: Config) -> None:
        self.bench, self.name, self.settings = bench, name, settings
        (space,) = settings["trainstack:environment"]["namespaces"]
        self.namespace = str(space["name"])
        (bench.folder / f"Pulumi.{name}.yaml").write_text(yaml.safe_dump({"config": settings}, sort_keys=False))
        self.declared = StackObjects(load(bench.folder, name))
        self.objects: list[Body] = [
            dict(body)
            for body in (*self.declared.namespaces.manifests_of_kind("Namespace"), *self.declared.queues.manifests)
        ]

    def create(self, *kinds: str) -> None:
        """Create the objects of these kinds, by default of all; each kind follows the kinds that it references."""
        for kind in (kind for kind in _ORDER if not kinds or kind in kinds):
            self.bench.api.create(body for body in self.objects if body["kind"] == kind)

    def delete(self) -> None:
        api = self.bench.api
        spaces = [body for body in self.objects if body["kind"] == "Namespace"]
        api.delete(spaces)
        wait_until("the runs are gone", lambda: not any(map(api.read, spaces)), 300, 0.2)
        for kinds in (("LocalQueue", "ClusterQueue"), ("Cohort", "ResourceFlavor"), ("Topology",)):
            bodies = [body for body in self.objects if body["kind"] in kinds and body["kind"] != "LocalQueue"]
            api.delete(bodies)
            wait_until(f"{kinds} are gone", partial(_gone, api, bodies), 120, 0.1)

    def label(self, nodes: int) -> None:
        """Label this number of simulated nodes for the environment, in their racks."""
        for number in range(nodes):
            self.bench.label_node(number, {OWNER: self.name, **topology_labels(number)})

    def competing_environment(self, *runs: Config) -> "Site":
        """Return another environment with the same queues, whose runs compete with those of this one."""
        return self.with_runs(*runs, name=f"{self.name}-others")

    def with_runs(self, *runs: Config, name: str = "") -> "Site":
        """Return an environment, by default with the same name, with these runs."""
        return Site(self.bench, name or self.name, {**self.settings, "trainstack:workloads": {"runs": list(runs)}})

    def check(self) -> dict[str, Any]:
        """Return the verdicts of `trainstack check --cluster` by run; under "" the ids and messages of errors."""
        done = self.bench.trainstack("check", "--cluster", "--json", "-s", self.name)
        assert done.code in (0, 4), done.text
        found = json.loads(done.out)
        errors = [
            (finding["id"], finding["message"]) for finding in found["findings"] if finding["severity"] == "error"
        ]
        return {**{verdict["name"]: verdict for verdict in found["verdicts"]}, "": errors}

    def submit(self, *names: str) -> None:
        """Create the launches of runs."""
        settings = self.declared.settings
        runs = StackObjects(settings, read_inputs(settings, self.bench.folder, commit="")).runs
        self.bench.api.create(dict(launch.manifest) for launch in runs if launch.workload.name in names)

    def workload(self, name: str) -> Body:
        """Return the Workload of a run, or {} if there is none."""
        found = [body for body in self.bench.api.list_all("Workload") if _run_of(body) == (self.namespace, name)]
        return found[0] if found else {}

    def await_admission(self, name: str) -> Body:
        return dict(
            wait_until(f"{name} is admitted", lambda: (body := self.workload(name)) and has_reservation(body) and body)
        )

    def await_refusal(self, name: str) -> str:
        """Wait until a run waits for quota, and return Kueue's message."""
        return str(wait_until(f"{name} waits", lambda: reason_of(self.workload(name))))

    def await_decision(self, name: str) -> Body:
        """Wait until Kueue has admitted or refused a run, after any preemption, and return its Workload."""

        def look() -> Body:
            body = self.workload(name)
            reason = reason_of(body) if body else ""
            return body if body and (has_reservation(body) or (reason and _PREEMPTS not in reason)) else {}

        return dict(wait_until(f"{name} is admitted or refused", look))

    def delete_launches(self, *names: str) -> None:
        """Delete launches, by default all, and wait until their Workloads are gone."""

        def left() -> list[Body]:
            bodies = self.bench.api.list_all("Workload")
            own = [body for body in bodies if body["metadata"]["namespace"] == self.namespace]
            return [body for body in own if not names or _run_of(body)[1] in names]

        jobs = [body for body in self.bench.api.list_all("Job") if body["metadata"]["namespace"] == self.namespace]
        deleted = [job for job in jobs if not names or _name_of(job["metadata"]["name"]) in names]
        self.bench.api.delete(deleted, with_owned=True)
        wait_until("Kueue has forgotten the runs", lambda: not left())

    def evicted_workloads(self) -> list[str]:
        """Return the names of the evicted Workloads."""
        return sorted(
            str(body["metadata"]["name"])
            for body in self.bench.api.list_all("Workload")
            if body["metadata"]["namespace"] == self.namespace and condition(body, "Evicted") == "True"
        )


@contextmanager
def site(bench: PlanBench, name: str, settings: Config) -> Iterator[Site]:
    """Yield an environment whose objects do not exist yet, and delete them afterwards."""
    made = Site(bench, name, settings)
    try:
        yield made
    finally:
        made.delete()


_PREEMPTS = "Pending the preemption of"


def reason_of(workload: Body) -> str:
    """Return Kueue's message about a waiting Workload; empty if it is admitted or has not been tried."""
    conditions = workload.get("status", {}).get("conditions", ())
    waits = (item for item in conditions if item["type"] == "QuotaReserved" and item["status"] == "False")
    return next((str(item["message"]) for item in waits), "")


def hosts_of_assignment(workload: Body) -> dict[str, int]:
    """Return the number of pods per host in the topology assignment of a Workload."""
    (pods,) = workload["status"]["admission"]["podSetAssignments"]
    counts: dict[str, int] = {}
    for part in pods["topologyAssignment"]["slices"]:
        hosts, numbers = part["valuesPerLevel"][-1], part["podCounts"]
        if "universal" in hosts:
            names = [hosts["universal"]] * part["domainCount"]
        else:
            parts = hosts["individual"]
            names = [f"{parts.get('prefix', '')}{root}{parts.get('suffix', '')}" for root in parts["roots"]]
        amounts = [numbers["universal"]] * len(names) if "universal" in numbers else numbers["individual"]
        counts |= dict(zip(names, amounts, strict=True))
    return counts


def hosts_of_verdict(verdict: Body) -> dict[str, int]:
    (pods,) = verdict["assigned"]
    return {domain["values"][-1]: domain["count"] for domain in pods["domains"]}


def _run_of(workload: Body) -> tuple[str, str]:
    (owner,) = workload["metadata"].get("ownerReferences") or ({"name": workload["metadata"]["name"]},)
    return workload["metadata"]["namespace"], _name_of(owner["name"])


def _name_of(launch: str) -> str:
    return launch.rsplit("-", 2)[0]


def _gone(api: Any, bodies: Sequence[Body]) -> bool:
    return not any(map(api.read, bodies))
