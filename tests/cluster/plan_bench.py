"""A cluster of simulated GPU nodes with Kueue, on which scenarios run, and who started when."""

import json
import os
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import httpx
import yaml

from checks.plan.forecast import Forecast, forecast
from devcluster.api import Api as Server
from devcluster.cluster import Cluster
from devcluster.layout import Layout
from devcluster.simulated import node_name
from manifests import queues
from manifests.namespaces import namespace
from settings.load import load
from settings.model import Settings
from tests.admission.bench import condition
from tests.admission.kueue import Body, install, until
from tests.cluster.plan_scenarios import GATE, GPU, KINDS, LABEL, PER_NODE, Scenario
from tests.cluster.project import ROOT, Done
from workloads import render

_IN_ORDER = ("Namespace", "WorkloadPriorityClass", "ResourceFlavor", "Cohort", "ClusterQueue", "LocalQueue")
NODES = 16
"""Simulated nodes of the cluster; a scenario uses the first of them."""


@dataclass
class Observed:
    """What was seen of the runs, in seconds since the gate opened."""

    started: dict[str, float] = field(default_factory=dict)
    """When each first had its quota."""
    ended: dict[str, float] = field(default_factory=dict)


class PlanBench:
    """The cluster."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        """Kueue on it, and the nodes of both kinds."""
        self._cluster, self._folder = cluster, folder
        (folder / "Pulumi.yaml").touch()
        self.api = install(cluster)
        self._server = Server(cluster.server, Layout.of(cluster.state).certs, timeout_seconds=30)
        self._turn_on(0)

    def _turn_on(self, nodes: int) -> None:
        """Label so many nodes, half of each kind; no flavor has the others."""
        for number in range(NODES):
            kind = KINDS[number % 2] if number < nodes else None
            self._server.merge(f"/api/v1/nodes/{node_name(number)}", {"metadata": {"labels": {LABEL: kind}}})

    def settings(self, scenario: Scenario) -> Settings:
        """The environment of a scenario."""
        text = yaml.safe_dump({"config": scenario.config()}, sort_keys=False)
        (self._folder / f"Pulumi.{scenario.name}.yaml").write_text(text)
        return load(self._folder, scenario.name)

    def predicted(self, scenario: Scenario, overhead: float | None = None) -> Forecast:
        """The plan of a scenario, on its nodes.

        `overhead`: seconds that a run takes beside what its pods do; None: it takes what its settings declare.
        """
        each = f"cpu=64,memory=512Gi,{GPU}={PER_NODE}"
        nodes = [f"{scenario.name}-{kind}={(scenario.nodes + scenario.spare) // 2}:{each}" for kind in KINDS]
        measured = {} if overhead is None else scenario.measured(overhead)
        return forecast(self.settings(scenario), measured=measured, nodes=nodes)

    @contextmanager
    def waiting(self, scenario: Scenario) -> Iterator[tuple[Scenario, Body]]:
        """All runs of a scenario wait; gives it with names of its own, and the gate, whose creation lets them begin.

        All of it is gone afterwards.
        """
        named = replace(scenario, tag=f"-{int(time.time()) % 10**6}")
        settings = self.settings(named)
        jobs = [each.manifest for each in render.runs(settings, render.read_inputs(settings, self._folder, commit=""))]
        objects = _objects(settings)
        (gate,) = (body for body in objects if body["metadata"]["name"] == f"{named.name}-{GATE}")
        self._turn_on(named.nodes + named.spare)
        try:
            for kind in _IN_ORDER:
                self.api.create(body for body in objects if body["kind"] == kind and body is not gate)
            for turn in named.turns():
                self._join([jobs[place] for place in turn])
            yield named, gate
        finally:
            self.api.delete(jobs)
            self.api.delete(body for body in objects if body["kind"] != "WorkloadPriorityClass")

    def run(self, scenario: Scenario, seconds: float) -> Observed:
        """Let a scenario happen, to its end."""
        with self.waiting(scenario) as (named, gate), _Watch(self._cluster, named.name) as watch:
            self.api.create([gate])
            watch.began = time.time()
            until("all runs have ended", lambda: len(watch.seen.ended) == named.runs, seconds, 0.2)
        return watch.seen

    def trainstack(self, *words: str) -> Done:
        """A command in the folder of the environments, on this cluster."""
        variables = {**os.environ, "KUBECONFIG": str(self._cluster.kubeconfig), "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "cli", *words]
        done = subprocess.run(
            command, cwd=self._folder, env=variables, capture_output=True, text=True, check=False, timeout=120
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def _join(self, jobs: Sequence[Mapping[str, Any]]) -> None:
        """Let Jobs come within one second, and the next ones in another."""
        self.api.create(dict(body) for body in jobs)
        now = int(time.time())
        until("the next second", lambda: int(time.time()) > now)


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
        self.began = 0.0
        certs = Layout.of(cluster.state).certs
        tls = ssl.create_default_context(cafile=str(certs / "ca.crt"))
        tls.load_cert_chain(certs / "admin.crt", certs / "admin.key")
        self._client = httpx.Client(base_url=cluster.server, verify=tls, timeout=httpx.Timeout(30, read=None))
        self._path = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{namespace}/workloads"
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._over = threading.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Closed by another thread, its socket's number could become another connection's while it is still read.
        self._over.set()
        self._thread.join(30)
        self._client.close()

    def _follow(self) -> None:
        """Each watch begins with all that there is, so nothing is lost between two."""
        while not self._over.is_set():
            with self._client.stream("GET", f"{self._path}?watch=1&timeoutSeconds=3") as answer:
                answer.raise_for_status()
                for line in answer.iter_lines():
                    self._note(json.loads(line)["object"])

    def _note(self, body: Body) -> None:
        now = time.time() - self.began
        (owner,) = body["metadata"].get("ownerReferences") or ({"name": ""},)
        name = owner["name"].rsplit("-", 2)[0]
        if condition(body, "QuotaReserved") == "True":
            self.seen.started.setdefault(name, now)
        if condition(body, "Finished") == "True":
            self.seen.ended.setdefault(name, now)


def tau(predicted: Mapping[str, float], observed: Mapping[str, float]) -> float:
    """Kendall's rank correlation of two orders of start, over the pairs that the prediction puts in an order.

    What is predicted for one and the same moment has no order.
    """
    names = sorted(predicted)
    agree = differ = 0
    for place, one in enumerate(names):
        for other in names[place + 1 :]:
            told = predicted[one] - predicted[other]
            if told:
                agree, differ = (
                    (agree + 1, differ) if told * (observed[one] - observed[other]) > 0 else (agree, differ + 1)
                )
    return (agree - differ) / (agree + differ)
