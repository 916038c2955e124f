"""A cluster of simulated GPU nodes with Kueue, on which scenarios run, and who started when."""

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

from tests.admission.kueue import Body, install, until
from tests.cluster.plan_scenarios import GATE, GPU, KINDS, LABEL, OWNER, PER_NODE, Scenario, run_name
from tests.cluster.project import ROOT, Done
from trainstack.declared.declared import Declared
from trainstack.declared.inputs import read_inputs
from trainstack.dev.cluster.api import Api as Server
from trainstack.dev.cluster.cluster import Cluster
from trainstack.dev.cluster.layout import Layout
from trainstack.dev.cluster.simulated import node_name
from trainstack.forecast.forecast import Forecast, forecast
from trainstack.forecast.schedule import Timeline
from trainstack.kueue.workloads import seconds
from trainstack.platform import queues
from trainstack.platform.namespaces import namespace
from trainstack.settings.loading.load import load
from trainstack.settings.model import Settings

_IN_ORDER = ("Namespace", "WorkloadPriorityClass", "ResourceFlavor", "Cohort", "ClusterQueue", "LocalQueue")
NODES = 32
"""Simulated nodes of the cluster."""
JITTER, DRAWS = 0.3, 4
"""Seconds more or less that a run may take, and how often that is drawn, before a scenario counts as steady."""
STEADY_TAU, STEADY_OFF = 0.96, 0.05
"""How near the plan with other durations must be."""


@dataclass
class Observed:
    """What was seen of the runs, in seconds since the gate opened."""

    began: float = 0.0
    """When that was: seconds since 1970."""
    known: set[str] = field(default_factory=set)
    """Those that Kueue has a Workload of."""
    started: dict[str, int] = field(default_factory=dict)
    """When Kueue first gave each its quota, by its own clock: whole seconds since 1970."""
    reserved: dict[str, float] = field(default_factory=dict)
    """When that was seen here."""
    ended: dict[str, float] = field(default_factory=dict)


class PlanBench:
    """The cluster."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        """Kueue on it, and nodes that are nobody's."""
        self.cluster, self.folder = cluster, folder
        (folder / "Pulumi.yaml").touch()
        self.api = install(cluster)
        self._server = Server(cluster.server, Layout.of(cluster.state).certs, timeout_seconds=30)

    def settings(self, scenario: Scenario) -> Settings:
        """The environment of a scenario."""
        text = yaml.safe_dump({"config": scenario.config()}, sort_keys=False)
        (self.folder / f"Pulumi.{scenario.name}.yaml").write_text(text)
        return load(self.folder, scenario.name)

    def predicted(self, scenario: Scenario) -> Forecast:
        """The plan of a scenario, on its nodes; its runs take what its settings declare."""
        return _plan(self.settings(scenario), scenario, {})

    def planned(self, overhead: float, scenario: Scenario) -> Sequence[Timeline]:
        """What will happen. `overhead`: seconds that a run takes beside what its pods do."""
        return _plan(self.settings(scenario), scenario, scenario.measured(overhead)).schedule.timelines

    def steady(self, scenario: Scenario, overhead: float) -> Scenario:
        """The first seed, by steps of 100, with which a third of a second more or less of each run changes little.

        Where a tenth of a second decides whether a large run or a small one starts, all that follows is another course,
        and no plan can tell which. Told the moments of a real Kueue's cycles, ends and evictions, the simulation starts
        the same runs in the same order, also of scenarios that are not steady.
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
            if abs(other.makespan / plan.makespan - 1) > STEADY_OFF:
                return False
        return True

    @contextmanager
    def waiting(self, scenario: Scenario) -> Iterator[tuple[Scenario, Body]]:
        """All runs of a scenario wait.

        Gives it with names of its own, and its gate, whose creation lets it begin. All of it is gone afterwards.
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
            until("the runs are gone", lambda: not any(map(self.api.read, spaces)), 600, 1)
            self.api.delete(body for body in objects if body["kind"] not in {"Namespace", "WorkloadPriorityClass"})

    def run(self, most: float, scenario: Scenario) -> Observed:
        """Let a scenario begin at one moment, and happen to its end within `most` seconds."""
        with self.waiting(scenario) as (named, gate), _Watch(self.cluster, named.name) as watch:
            watch.seen.began = time.time()
            self.api.create([gate])
            until(f"all runs of {named.name} have ended", partial(watch.ended, named.runs), most, 0.2)
            return watch.seen

    def label_node(self, number: int, labels: Mapping[str, str | None]) -> None:
        """Set labels of a simulated node; None removes one."""
        self._server.merge(f"/api/v1/nodes/{node_name(number)}", {"metadata": {"labels": dict(labels)}})

    def _give_nodes(self, scenario: Scenario) -> None:
        """Label its nodes, half of them of each kind; no flavor has those that are left."""
        own = scenario.nodes + scenario.spare
        for number in range(NODES):
            self.label_node(number, {LABEL: KINDS[number % 2], OWNER: scenario.name if number < own else None})

    def _join(self, scenario: Scenario) -> None:
        """Let Jobs come, those of one turn in another second than those of the one before.

        Kueue counts from when it has made the Workload of a Job itself, which may be in the second after.
        """
        settings = self.settings(scenario)
        runs = Declared(settings, read_inputs(settings, self.folder, commit="")).runs
        with _Watch(self.cluster, scenario.name) as watch:
            for turn in scenario.turns():
                self.api.create(dict(runs[place].manifest) for place in turn)
                names = {run_name(place) for place in turn}
                until(f"Kueue knows {min(names)} to {max(names)}", partial(watch.knows, names), 120, 0.05)
                until("the next second", partial(_past, int(time.time())), 5, 0.02)

    def trainstack(self, *words: str) -> Done:
        """A command in the folder of the environments, on this cluster."""
        variables = {**os.environ, "KUBECONFIG": str(self.cluster.kubeconfig), "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "trainstack.cli", *words]
        done = subprocess.run(
            command, cwd=self.folder, env=variables, capture_output=True, text=True, check=False, timeout=120
        )
        return Done(done.returncode, done.stdout, done.stderr)


def kendall_tau(pairs: Iterable[tuple[float | None, float | None]]) -> float:
    """Return Kendall's tau-b of two orders: 1 if they are equal, -1 if one is the reverse of the other."""
    from scipy.stats import kendalltau  # noqa: PLC0415 (two seconds to load in each process that collects the tests)

    return float(kendalltau(*zip(*pairs, strict=True)).statistic)


def _plan(settings: Settings, scenario: Scenario, measured: Mapping[str, float]) -> Forecast:
    each = f"cpu=64,memory=512Gi,{GPU}={PER_NODE}"
    nodes = [f"{scenario.name}-{kind}={(scenario.nodes + scenario.spare) // 2}:{each}" for kind in KINDS]
    return forecast(settings, measured=measured, nodes=nodes)


def _past(second: int) -> bool:
    return int(time.time()) > second


def _objects(settings: Settings) -> list[Body]:
    stack, said = settings.stack, settings.queues
    return [
        *(namespace(each, stack) for each in settings.environment.namespaces),
        *(queues.priority_class(each, stack) for each in said.priority_classes),
        *(queues.resource_flavor(each, stack) for each in said.flavors),
        *(queues.cohort(each, stack) for each in said.cohorts),
        *(queues.cluster_queue(each, stack) for each in said.cluster_queues),
        *(queues.local_queue(each, stack) for each in said.local_queues),
    ]


class _Watch:
    """Follows a namespace's Workloads: who got quota when, and who has ended when, by the run's name."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
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
        # Closed by another thread, its socket's number could become another connection's while it is still read.
        self._over.set()
        self._pool.shutdown()
        self._client.close()

    def ended(self, runs: int) -> bool:
        """Whether so many have ended. Raises what stopped the watch, if anything did."""
        self._check()
        return len(self.seen.ended) >= runs

    def knows(self, names: set[str]) -> bool:
        """Whether Kueue has Workloads of all of these. Raises what stopped the watch, if anything did."""
        self._check()
        return names <= self.seen.known

    def _check(self) -> None:
        if self._following.done():
            self._following.result()

    def _follow(self) -> None:
        """Each watch goes on where the one before ended; where the server has forgotten that, with all there is."""
        last = ""
        while not self._over.is_set():
            asked = {"watch": "1", "timeoutSeconds": "3", "allowWatchBookmarks": "1", "resourceVersion": last}
            with self._client.stream("GET", self._path, params=asked) as answer:
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
        true = {each["type"]: each for each in body.get("status", {}).get("conditions", ()) if each["status"] == "True"}
        self.seen.known.add(name)
        if "QuotaReserved" in true:
            self.seen.started.setdefault(name, int(seconds(true["QuotaReserved"]["lastTransitionTime"])))
            self.seen.reserved.setdefault(name, now)
        if "Finished" in true:
            self.seen.ended.setdefault(name, now)
