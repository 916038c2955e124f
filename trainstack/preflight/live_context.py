"""What was read of a cluster for the checks of an environment against it, and what the rules look at."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import Any

from trainstack.declared.declared import Declared
from trainstack.kueue.admission_simulator import AdmissionSimulator
from trainstack.kueue.from_live_objects import Lists, snapshot
from trainstack.kueue.from_objects import declared_model
from trainstack.kueue.model import QueueState
from trainstack.kueue.verdict import Verdict
from trainstack.kueue.workloads import declared_workloads
from trainstack.preflight.rule import Violation
from trainstack.runs.status.kinds import KINDS, launched_as
from trainstack.runs.status.run_pods import queued
from trainstack.settings.model import Settings
from trainstack.settings.sections.workloads import Workload

Body = Mapping[str, Any]
CLUSTER_SCOPED = (
    "Namespace",
    "Node",
    "StorageClass",
    "PersistentVolume",
    "ClusterQueue",
    "ResourceFlavor",
    "WorkloadPriorityClass",
)
"""Kinds of no namespace that the rules look at; none of them is asked for under a tenant's profile."""


@dataclass(frozen=True)
class DryRun:
    """What the API server, and every webhook on the way, said to an object that it stored nowhere."""

    path: str
    """Of what the object is made from: a run, or an operator whose webhooks are asked."""
    kind: str
    namespace: str
    status: int
    """0 where nothing answered in time."""
    message: str


@dataclass(frozen=True)
class Operator:
    """A controller's Deployment or pod, and what is the matter with its pods."""

    namespace: str
    name: str
    image: str
    ready: bool
    problems: tuple[str, ...] = ()
    release: str = ""
    """That its label tells; empty where there is none."""
    kind: str = "Deployment"
    """Pod, where something else owns the controller's pods: a StatefulSet, for one."""


@dataclass(frozen=True)
class UnservedImage:
    """An image with a Dockerfile in this repository that the cluster's nodes cannot pull, as far as one knows."""

    path: str
    """The first run or sweep that uses it, as `settings.values.paths` writes it."""
    workloads: tuple[str, ...]
    """All of them by name."""
    reference: str
    command: str
    """What puts it into the registry."""
    missing: bool
    """True when the registry answers that it has no such image."""
    reason: str


@dataclass(frozen=True, kw_only=True)
class Live:
    """A read of a cluster. What may not be read, or was not asked for, is None."""

    version: str
    """Of the API server: `v1.34.4`."""
    lists: Mapping[str, tuple[Body, ...] | None] = field(default_factory=dict)
    """Objects of no namespace by kind, and namespaced ones by `<kind> <namespace>`."""
    unserved: frozenset[str] = frozenset()
    """The kinds that the API server does not know."""
    operators: Mapping[str, Operator | None] | None = None
    """By the key of OPERATORS; None where none is found. None altogether where Deployments and pods may not be read."""
    dry_runs: tuple[DryRun, ...] = ()
    admission: Lists = field(default_factory=dict)
    """What an admission depends on, by kind: every object with its kind."""
    frameworks: frozenset[str] | None = None
    """What the running Kueue is told to manage; None where that is not known."""
    kueue: Body | None = None
    """The running Kueue's Configuration; None where that is not known."""
    grows: bool = False
    """A node autoscaler is there: what no node has now, one may have that is yet to come."""
    unserved_images: tuple[UnservedImage, ...] = ()

    def all(self, kind: str, namespace: str | None = None) -> dict[str, Body] | None:
        """The objects of a kind by name; None where that is not known."""
        found = self.lists.get(f"{kind} {namespace}" if namespace else kind)
        return None if found is None else {str(body["metadata"]["name"]): body for body in found}


@dataclass(frozen=True)
class LiveScene:
    """An environment beside the cluster that it is for."""

    settings: Settings
    live: Live
    images: Mapping[str, str]
    """The image that each declared operator's release has, by the key of OPERATORS; empty where it was not read."""
    launches: Collection[tuple[str, str]] = ()
    """Its runs as they would be launched now, by namespace: their ids, and the names that their objects would have."""

    @cached_property
    def declared(self) -> Declared:
        """What the environment declares, without what depends on its inputs."""
        return Declared(self.settings)

    @cached_property
    def snapshot(self) -> QueueState:
        """What a run meets on this cluster, once the environment's own objects are what it declares."""
        live = self.live
        return snapshot(live.admission, self.declared, without=self.launches, grows=live.grows, kueue=live.kueue)

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """Whether each run that Kueue holds would be admitted now: behind all of its priority who are there already."""
        simulator = AdmissionSimulator(self.snapshot.model, self.snapshot.admitted)
        asking = declared_workloads(self.declared, self.snapshot.model)
        return [simulator.verdict(replace(each, created=inf)) for each in asking]

    @cached_property
    def verdicts_of_files(self) -> list[Verdict]:
        """The same as the files alone tell it, without remedies."""
        model = declared_model(self.declared)
        simulator = AdmissionSimulator(model)
        return [simulator.alone(each) for each in declared_workloads(self.declared, model)]

    def runs(self) -> Iterator[tuple[str, Workload]]:
        """Everything that is queued, with its path."""
        return queued(self.settings)


@dataclass(frozen=True)
class OperatorFacts:
    """How an operator is known wherever it is installed."""

    title: str
    path: str
    """Of its section in the settings."""
    names: tuple[str, ...]
    """Of its Deployment, as its releases and charts call it; a container may have the same name."""
    labels: Mapping[str, str]
    """Of its Deployment, and mostly of its pods."""
    images: tuple[str, ...]
    """The last part of its image's repository."""


OPERATORS: Mapping[str, OperatorFacts] = {
    "kueue": OperatorFacts(
        "Kueue",
        "operators.kueue",
        ("kueue-controller-manager",),
        {"app.kubernetes.io/name": "kueue", "app.kubernetes.io/component": "controller"},
        ("kueue",),
    ),
    "training-operator": OperatorFacts(
        "the training operator",
        "operators.trainingOperator",
        ("training-operator",),
        {"control-plane": "kubeflow-training-operator"},
        # A charm's image is called after its resource.
        ("training-operator", "training-operator-image"),
    ),
    "jobset": OperatorFacts(
        "JobSet",
        "operators.jobset",
        ("jobset-controller-manager", "jobset-controller"),
        {"app.kubernetes.io/part-of": "jobset"},
        ("jobset",),
    ),
    "trainer": OperatorFacts(
        "Kubeflow Trainer",
        "operators.trainer",
        ("kubeflow-trainer-controller-manager",),
        {"app.kubernetes.io/name": "trainer", "app.kubernetes.io/component": "manager"},
        ("trainer-controller-manager",),
    ),
}


def declared(settings: Settings, operator: str) -> bool:
    """Whether the environment installs this operator itself."""
    return operator in settings.operators.installs


def needed(settings: Settings) -> dict[str, str]:
    """The operators that the environment depends on, each with the path of what needs it."""
    found = {name: OPERATORS[name].path for name in OPERATORS if declared(settings, name)}
    for path, run in queued(settings):
        if run.queue is not None:
            found.setdefault("kueue", f"{path}.queue")
        if operator := KINDS[launched_as(run)].operator:
            found.setdefault(operator, f"{path}.kind")
    return found


def unknown(path: str, what: str) -> Violation:
    """What cannot be told with these credentials, and who can."""
    return Violation(
        path,
        f"{what} may not be read with these credentials",
        "the cluster's owner can tell: trainstack check --cluster on the platform's environment",
        "unknown",
    )


def absent(path: str, message: str, remedy: str, *, own: bool, stack: str) -> Violation:
    """What is not there: an error, or a warning where the environment itself declares it and `up` makes it."""
    if own:
        return Violation(path, f"{message} yet", f"it is declared here: trainstack up -s {stack}", "warning")
    return Violation(path, message, remedy)
