"""Run scenarios on a cluster of simulated GPU nodes with Kueue, and record when each run started."""

import json
import os
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Self

import httpx
import yaml

from tests.admission.kueue import Body, install, wait_until
from tests.cluster.plan_scenarios import GATE, GPU, KINDS, LABEL, OWNER, PER_NODE, Scenario, run_name
from tests.cluster.project import ROOT, CommandResult
from trainstack.forecast.forecast import Forecast, forecast
from trainstack.forecast.schedule import Timeline
from trainstack.kueue.workloads import epoch_seconds
from trainstack.local_cluster.api import ApiClient as Server
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.simulated_gpus import node_name
from trainstack.local_cluster.state_folder import Layout
from trainstack.platform import queues
from trainstack.platform.namespaces import namespace
from trainstack.settings.loading.load import load
from trainstack.settings.model import Settings
from trainstack.stack_objects.inputs import read_inputs
from trainstack.stack_objects.stack_objects import StackObjects

_IN_ORDER = ("Namespace", "WorkloadPriorityClass", "ResourceFlavor", "Cohort", "ClusterQueue", "LocalQueue")
NODES = 32
"""Simulated nodes of the cluster."""
JITTER, DRAWS = 0.3, 4
"""The variation of a run's duration in seconds, and the number of draws, by which a scenario counts as steady."""
STEADY_TAU, STEADY_DEVIATION = 0.96, 0.05
"""The tolerances for the plan with the varied durations."""


@dataclass
class Observed:
    """Observed times of the runs, in seconds since the gate opened."""

    began: float = 0.0
    """The time when the gate opened, in seconds since 1970."""
    known: set[str] = field(default_factory=set)
    """The runs that have a Workload."""
    started: dict[str, int] = field(default_factory=dict)
    """When Kueue first reserved quota for each run, by Kueue's clock in whole seconds since 1970."""
    reserved: dict[str, float] = field(default_factory=dict)
    """When the test observed the reservation."""
    ended: dict[str, float] = field(default_factory=dict)


class PlanBench:
    """The cluster with Kueue and the environments of scenarios."""

    def __init__(self, cluster: LocalCluster, folder: Path) -> None:
        """Install Kueue; the nodes belong to no scenario yet."""
        self.cluster, self.folder = cluster, folder
        (folder / "Pulumi.yaml").touch()
        self.api = install(cluster)
        self._server = Server(cluster.server, Layout.of(cluster.state).certs, timeout_seconds=30)

    def settings(self, scenario: Scenario) -> Settings:
        """Return the settings of a scenario's environment."""
        text = yaml.safe_dump({"config": scenario.config()}, sort_keys=False)
        (self.folder / f"Pulumi.{scenario.name}.yaml").write_text(text)
        return load(self.folder, scenario.name)

    def forecast(self, scenario: Scenario) -> Forecast:
        """Return the forecast of a scenario on its nodes, with the durations in its settings."""
        return _plan(self.settings(scenario), scenario, {})

    def planned_timelines(self, overhead: float, scenario: Scenario) -> Sequence[Timeline]:
        """Return the planned timelines. `overhead` is the seconds of a run in addition to those of its pods."""
        return _plan(self.settings(scenario), scenario, scenario.measured(overhead)).schedule.timelines

    def find_steady(self, scenario: Scenario, overhead: float) -> Scenario:
        """Return the scenario with the first seed, in steps of 100, whose plan varies little with the durations.

        If a tenth of a second decides whether a large run or a small one starts, everything after it differs, and no
        plan can predict it. With the times of a real Kueue's cycles, ends and evictions as input, the simulation starts
        the same runs in the same order, even in scenarios that are not steady.
        """
        while not self._is_steady(scenario, overhead):
            scenario = replace(scenario, seed=scenario.seed + 100)
        return scenario

    def _is_steady(self, scenario: Scenario, overhead: float) -> bool:
        settings = self.settings(scenario)
        plan = _plan(settings, scenario, scenario.measured(overhead)).schedule
        for draw in range(DRAWS):
            other = _plan(settings, scenario, scenario.measured(overhead, JITTER, draw)).schedule
            starts = [(one.start, two.start) for one, two in zip(plan.timelines, other.timelines, strict=True)]
            if kendall_tau(starts) < STEADY_TAU:
                return False
            if abs(other.makespan / plan.makespan - 1) > STEADY_DEVIATION:
                return False
        return True

    @contextmanager
    def waiting_scenario(self, scenario: Scenario) -> Iterator[tuple[Scenario, Body]]:
        """Create a scenario whose runs all wait.

        Yields the scenario with unique names, and its gate: once the gate is created, the runs start. Deletes all
        objects afterwards.
        """
        named = replace(scenario, tag=f"-{int(time.time()) % 10**6}")
        objects = _objects(self.settings(named))
        (gate,) = (body for body in objects if body["metadata"]["name"] == f"{named.name}-{GATE}")
        self._give_nodes(named)
        try:
            for kind in _IN_ORDER:
                self.api.create(body for body in objects if body["kind"] == kind and body is not gate)
            self._join(named)
            yield named, gate
        finally:
            spaces = [body for body in objects if body["kind"] == "Namespace"]
            self.api.delete(spaces)
            wait_until("the runs are gone", lambda: not any(map(self.api.read, spaces)), 600, 1)
            self.api.delete(body for body in objects if body["kind"] not in {"Namespace", "WorkloadPriorityClass"})

    def run(self, max_seconds: float, scenario: Scenario) -> Observed:
        """Start all runs of a scenario at once, and wait at most `max_seconds` seconds until they have ended."""
        with self.waiting_scenario(scenario) as (named, gate), _Watch(self.cluster, named.name) as watch:
            watch.seen.began = time.time()
            self.api.create([gate])
            wait_until(f"all runs of {named.name} have ended", partial(watch.ended, named.runs), max_seconds, 0.2)
            return watch.seen

    def label_node(self, number: int, labels: Mapping[str, str | None]) -> None:
        """Set labels of a simulated node; None removes one."""
        self._server.merge(f"/api/v1/nodes/{node_name(number)}", {"metadata": {"labels": dict(labels)}})

    def _give_nodes(self, scenario: Scenario) -> None:
        """Label the scenario's nodes, half of each kind. The other nodes belong to no flavor."""
        own = scenario.nodes + scenario.spare
        for number in range(NODES):
            self.label_node(number, {LABEL: KINDS[number % 2], OWNER: scenario.name if number < own else None})

    def _join(self, scenario: Scenario) -> None:
        """Create the Jobs, those of each turn in a later second than those of the previous turn.

        Kueue orders by the creation of the Workload, which may be a second after that of the Job.
        """
        settings = self.settings(scenario)
        runs = StackObjects(settings, read_inputs(settings, self.folder, commit="")).runs
        with _Watch(self.cluster, scenario.name) as watch:
            for turn in scenario.turns():
                self.api.create(dict(runs[place].manifest) for place in turn)
                names = {run_name(place) for place in turn}
                wait_until(f"Kueue knows {min(names)} to {max(names)}", partial(watch.has_workloads, names), 120, 0.05)
                wait_until("the next second", partial(_past, int(time.time())), 5, 0.02)

    def trainstack(self, *words: str) -> CommandResult:
        """Run a CLI command in the folder of the environments, on this cluster."""
        variables = {**os.environ, "KUBECONFIG": str(self.cluster.kubeconfig), "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "trainstack.cli", *words]
        done = subprocess.run(
            command, cwd=self.folder, env=variables, capture_output=True, text=True, check=False, timeout=120
        )
        return CommandResult(done.returncode, done.stdout, done.stderr)


def kendall_tau(pairs: Iterable[tuple[float | None, float | None]]) -> float:
    """Return Kendall's tau-b of two orders: 1 if they are equal, -1 if one is the reverse of the other."""
    from scipy.stats import kendalltau  # noqa: PLC0415 (two seconds to load in each process that collects the tests)

    return float(kendalltau(*zip(*pairs, strict=True)).statistic)


def _plan(settings: Settings, scenario: Scenario, measured: Mapping[str, float]) -> Forecast:
    capacity = f"cpu=64,memory=512Gi,{GPU}={PER_NODE}"
    nodes = [f"{scenario.name}-{kind}={(scenario.nodes + scenario.spare) // 2}:{capacity}" for kind in KINDS]
    return forecast(settings, measured_seconds=measured, nodes=nodes)


def _past(second: int) -> bool:
    return int(time.time()) > second


def _objects(settings: Settings) -> list[Body]:
    stack, section = settings.stack, settings.queues
    return [
        *(namespace(declared, stack) for declared in settings.environment.namespaces),
        *(queues.priority_class(declared, stack) for declared in section.priority_classes),
        *(queues.resource_flavor(declared, stack) for declared in section.flavors),
        *(queues.cohort(declared, stack) for declared in section.cohorts),
        *(queues.cluster_queue(declared, stack) for declared in section.cluster_queues),
        *(queues.local_queue(declared, stack) for declared in section.local_queues),
    ]


class _Watch:
    """Watches a namespace's Workloads and records when each run got quota and when it ended."""

    def __init__(self, cluster: LocalCluster, namespace: str) -> None:
        self.seen = Observed()
        certs = Layout.of(cluster.state).certs
        tls = ssl.create_default_context(cafile=str(certs / "ca.crt"))
        tls.load_cert_chain(certs / "admin.crt", certs / "admin.key")
        self._client = httpx.Client(base_url=cluster.server, verify=tls, timeout=httpx.Timeout(30, read=None))
        self._path = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{namespace}/workloads"
        self._pool = ThreadPoolExecutor(1)
        self._over = threading.Event()

    def __enter__(self) -> Self:
        self._following = self._pool.submit(self._follow)
        return self

    def __exit__(self, *_: object) -> None:
        # Close the client after the thread ends: its file descriptor could be reused while the thread reads.
        self._over.set()
        self._pool.shutdown()
        self._client.close()

    def ended(self, runs: int) -> bool:
        """Return whether this number of runs has ended. Raises the error that stopped the watch, if any."""
        self._check()
        return len(self.seen.ended) >= runs

    def has_workloads(self, names: set[str]) -> bool:
        """Return whether Kueue has Workloads of all these runs. Raises the error that stopped the watch, if any."""
        self._check()
        return names <= self.seen.known

    def _check(self) -> None:
        if self._following.done():
            self._following.result()

    def _follow(self) -> None:
        """Resume each watch where the previous one ended, or list everything if that version has expired."""
        last = ""
        while not self._over.is_set():
            query = {"watch": "1", "timeoutSeconds": "3", "allowWatchBookmarks": "1", "resourceVersion": last}
            with self._client.stream("GET", self._path, params=query) as answer:
                if answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
                    self._over.wait(0.5)
                    continue
                answer.raise_for_status()
                for line in answer.iter_lines():
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        last = ""
                        break
                    last = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] in {"ADDED", "MODIFIED"}:
                        self._note(event["object"])

    def _note(self, body: Body) -> None:
        now = time.time() - self.seen.began
        (owner,) = body["metadata"].get("ownerReferences") or ({"name": ""},)
        name = owner["name"].rsplit("-", 2)[0]
        conditions = body.get("status", {}).get("conditions", ())
        true = {condition["type"]: condition for condition in conditions if condition["status"] == "True"}
        self.seen.known.add(name)
        if "QuotaReserved" in true:
            self.seen.started.setdefault(name, int(epoch_seconds(true["QuotaReserved"]["lastTransitionTime"])))
            self.seen.reserved.setdefault(name, now)
        if "Finished" in true:
            self.seen.ended.setdefault(name, now)
