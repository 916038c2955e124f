"""What is read of a cluster for the rules, and what these examine."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import Any, Literal

from trainstack.kueue.admission_simulator import AdmissionSimulator
from trainstack.kueue.from_live_objects import Lists, queue_state_after_up
from trainstack.kueue.from_objects import stack_model
from trainstack.kueue.judge_cases import pending_submissions, pods_without_runs, run_submissions
from trainstack.kueue.model import Model, QueueState, Workload
from trainstack.kueue.placement import Judge, JudgeInputs, judge_placements
from trainstack.kueue.releases import verdicts_for_release
from trainstack.kueue.verdict import Verdict
from trainstack.kueue.verdicts import add_remedies
from trainstack.kueue.workloads import run_workloads
from trainstack.preflight.operator_facts import OPERATORS
from trainstack.preflight.rule import Violation
from trainstack.preflight.rule_context import Context
from trainstack.preflight.worker_needs import Need, WorkerCluster
from trainstack.runs.status.kinds import kind_of_launch, launched_as
from trainstack.runs.status.run_pods import queued
from trainstack.settings.errors import nearest
from trainstack.settings.model import Settings
from trainstack.versions import parse_version

Body = Mapping[str, Any]
_TAG = re.compile(r":(v?\d+\.\d+\.\d+[^@]*)(?:@.*)?$")
CLUSTER_SCOPED = (
    "Namespace",
    "Node",
    "StorageClass",
    "PersistentVolume",
    "ClusterQueue",
    "ResourceFlavor",
    "WorkloadPriorityClass",
)
"""Cluster-scoped kinds that the rules examine. Under a tenant's profile only READ_BY_TENANTS is read of them."""
READ_BY_TENANTS = ("StorageClass",)
"""Kinds that many clusters let all users list."""


@dataclass(frozen=True)
class DryRun:
    """The answer of the API server and its webhooks to a dry run."""

    path: str
    """Of what the object is made from: a run, or an operator whose webhooks are probed."""
    kind: str
    namespace: str
    status: int
    """0 if there was no answer in time."""
    message: str


@dataclass(frozen=True)
class Operator:
    """A controller's Deployment or pod, and the problems of its pods."""

    namespace: str
    name: str
    image: str
    ready: bool
    problems: tuple[str, ...] = ()
    release: str = ""
    """From its label; empty without one."""
    kind: str = "Deployment"
    """Pod if another kind owns the controller's pods, such as a StatefulSet."""

    @property
    def version(self) -> str:
        """Its release, from its label or else from its image's tag; empty if neither is a release."""
        if parse_version(self.release):
            return self.release
        tag = _TAG.search(self.image)
        return tag[1] if tag else ""


@dataclass(frozen=True)
class UnservedImage:
    """An image with a Dockerfile in this repository that the cluster's nodes probably cannot pull."""

    path: str
    """The first run or sweep that uses it, as `settings.values.paths` writes it."""
    workloads: tuple[str, ...]
    """All of them by name."""
    reference: str
    command: str
    """The command that pushes it."""
    missing: bool
    """True if the registry answers that it does not have the image."""
    reason: str
    host_path: str = ""
    """The setting with the registry's host, if the host has no address."""


Problem = Literal["unreachable", "missing", "denied", "unknown"]
"""Why an image cannot be read: its registry's host has no address, lacks the image, requires a login, or else."""


@dataclass(frozen=True)
class UnreadImage:
    """An image by name that cannot be read from its registry."""

    path: str
    """The setting that names it, as `settings.values.paths` writes it."""
    reference: str
    problem: Problem
    reason: str
    has_pull_secret: bool = False


@dataclass(frozen=True, kw_only=True)
class Live:
    """A read of a cluster. A part may be None: not read, or the credentials do not allow reading it."""

    version: str
    """Of the API server: `v1.34.4`."""
    lists: Mapping[str, tuple[Body, ...] | None] = field(default_factory=dict)
    """Cluster-scoped objects by kind, and namespaced ones by `<kind> <namespace>`."""
    unserved: frozenset[str] = frozenset()
    """The kinds that the API server does not serve."""
    operators: Mapping[str, Operator | None] | None = None
    """By the key of OPERATORS; None for an operator that was not found."""
    dry_runs: tuple[DryRun, ...] = ()
    admission: Lists = field(default_factory=dict)
    """The objects that an admission depends on, by kind; each has its kind."""
    bound_pods: tuple[Body, ...] | None = None
    """The pods on nodes, read where a flavor has a topology; None: not read."""
    frameworks: frozenset[str] | None = None
    """The integrations of the running Kueue."""
    kueue: Body | None = None
    """The running Kueue's Configuration."""
    grows: bool = False
    """Whether a node autoscaler runs, so that new nodes may have what no node has now."""
    unserved_images: tuple[UnservedImage, ...] = ()
    named_images: tuple[UnreadImage, ...] = ()
    secrets: Mapping[tuple[str, str], bool | None] = field(default_factory=dict)
    """Whether a Secret exists that the environment refers to, by namespace and name; None: it may not be read."""
    namespaces: Mapping[str, bool | None] = field(default_factory=dict)
    """Whether each namespace of the environment's runs and volumes exists; None: it may not be read."""
    worker_needs: Mapping[str, Mapping[str, tuple[Need, ...]]] = field(default_factory=dict)
    """What dispatched runs need in each worker cluster of MultiKueue, by their paths and the cluster's name."""
    workers: Mapping[str, WorkerCluster] = field(default_factory=dict)
    """These clusters, by name."""
    local_path_shared: bool | None = None
    """Whether local-path-provisioner has a shared file system, which ReadWriteMany requires; None: unknown."""

    def all(self, kind: str, namespace: str | None = None) -> dict[str, Body] | None:
        """Return the objects of a kind by name, or None."""
        found = self.lists.get(f"{kind} {namespace}" if namespace else kind)
        return None if found is None else {str(body["metadata"]["name"]): body for body in found}


@dataclass(frozen=True)
class LiveContext(Context):
    """An environment and a read of its cluster."""

    live: Live
    images: Mapping[str, str]
    """The image in each declared operator's release, by the key of OPERATORS; empty if it was not read."""
    launches: Collection[tuple[str, str]] = ()
    """Its runs as they would be launched now: their namespaces, with their ids and the names of their objects."""
    judge: Callable[[str], Judge | str] = lambda _: "kueue-judge is not used here"
    """Kueue's own code of a release as a program, which places pods in topologies; or the reason why it is missing."""

    @cached_property
    def snapshot(self) -> QueueState:
        """The cluster's admission state, with the environment's own objects as declared."""
        live = self.live
        return queue_state_after_up(
            live.admission,
            self.declared,
            ignored_runs=self.launches,
            has_autoscaler=live.grows,
            kueue_configuration=live.kueue,
            release=self.kueue_release,
        )

    @cached_property
    def submissions(self) -> list[Workload]:
        """The queued runs as the cluster's Kueue would count them, behind all existing workloads."""
        return [replace(run, created=inf) for run in run_workloads(self.declared, self.snapshot.model)]

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """Whether each queued run would be admitted now, behind all existing workloads of its priority."""
        state, workloads = self.snapshot, self.submissions
        simulator = AdmissionSimulator(state.model, state.admitted, state.pending, self._placed(workloads))
        verdicts = verdicts_for_release(map(simulator.verdict, workloads), self.kueue_release)
        return list(add_remedies(verdicts, workloads, self.settings, state.model, state.objects))

    def _placed(self, runs: Sequence[Workload]) -> dict[str, Verdict]:
        """Return the verdicts of Kueue's own code, of runs and of the pending workloads that may hold them up."""
        state, release = self.snapshot, self.kueue_release
        if not any(flavor.topology for flavor in (state.model.flavors or {}).values()):
            return {}
        simulator = AdmissionSimulator(state.model, state.admitted)
        of_runs = {run.key: simulator.verdict(run) for run in runs}
        strict = {name for name, queue in (state.model.cluster_queues or {}).items() if queue.is_strict_fifo}
        strict &= {verdict.cluster_queue for verdict in of_runs.values()}
        queues = state.model.local_queues or {}
        behind = {place for place, queue in queues.items() if queue.cluster_queue in strict}
        waiting = [workload for workload in state.pending if (workload.namespace, workload.queue) in behind]
        of_waiting = {one.key: simulator.verdict(one) for one in waiting}
        submissions = {
            **pending_submissions(state, waiting),
            **run_submissions(self.declared, state.model, runs),
        }
        pods = None if self.live.bound_pods is None else pods_without_runs(self.live.bound_pods, self.launches)
        nodes = JudgeInputs(self.judge(release), pods, release)
        return judge_placements({**of_waiting, **of_runs}, submissions, state, nodes)

    @cached_property
    def kueue_release(self) -> str:
        """The release of Kueue that will admit the runs: the declared one, else the running one; empty if unknown."""
        install, running = self.settings.operators.kueue, (self.live.operators or {}).get("kueue")
        if install is not None:
            return install.manifest.version
        return running.version if running else ""

    @cached_property
    def verdicts_of_files(self) -> list[Verdict]:
        """The verdicts from the files alone, without remedies."""
        simulator = AdmissionSimulator(self.model_of_files)
        return [simulator.idle_verdict(workload) for workload in self.submissions_of_files]

    @cached_property
    def model_of_files(self) -> Model:
        return stack_model(self.declared)

    @cached_property
    def submissions_of_files(self) -> tuple[Workload, ...]:
        """The queued runs as the files alone show them."""
        return run_workloads(self.declared, self.model_of_files)


def declared(settings: Settings, operator: str) -> bool:
    """Return whether the environment itself installs this operator."""
    return operator in settings.operators.installs


def needed(settings: Settings) -> dict[str, str]:
    """Return the operators that the environment depends on, each with the path of what needs it."""
    found = {name: OPERATORS[name].path for name in OPERATORS if declared(settings, name)}
    for path, run in queued(settings):
        if run.queue is not None:
            found.setdefault("kueue", f"{path}.queue")
        if operator := kind_of_launch(launched_as(run)).operator:
            found.setdefault(operator, f"{path}.kind")
    return found


def unknown(path: str, question: str, unreadable: str) -> Violation:
    """Return the finding that these credentials cannot answer a question, and who can."""
    return Violation(
        path,
        f"whether {question} is unknown: these credentials cannot read {unreadable}",
        "ask the cluster's owner to run `trainstack check --cluster` on the platform's environment",
        "unknown",
    )


def unread(context: LiveContext, path: str, question: str, facts: str) -> Violation:
    """Return the finding that the facts for a question were not read, which only an owner's environment does."""
    found, profile = unknown(path, question, facts), context.settings.environment.profile
    if profile == "owner":
        return found
    reason = f"an environment with profile {profile!r} does not read {facts}"
    return replace(found, message=f"whether {question} is unknown: {reason}")


def absent(context: LiveContext, path: str, message: str, remedy: str, *, own: bool) -> Violation:
    """Return the finding that an object is missing: a warning if the environment declares it, so that `up` creates it.

    `own`: whether the environment declares it.
    """
    if own:
        remedy = f"the environment declares it: run `trainstack up -s {context.settings.stack}`"
        return Violation(path, f"{message} yet", remedy, "warning")
    return Violation(path, message, remedy)


def absent_name(
    context: LiveContext, path: str, kind: str, name: str, namespace: str = "", *, own: bool
) -> Iterator[Violation]:
    """Yield a finding unless the cluster has the object of this kind and name."""
    names = context.live.all(kind, namespace)
    owner = f"namespace {namespace}" if namespace else "the cluster"
    if names is None:
        yield unknown(path, f"{owner} has {kind} {name!r}", f"{kind} objects")
    elif name not in names:
        remedy = f"{nearest(name, names)} (or ask the cluster's owner to create it)"
        yield absent(context, path, f"{owner} does not have {kind} {name!r}", remedy, own=own)
