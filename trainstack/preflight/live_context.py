"""State of a cluster that the rules examine, and the context that combines it with an environment."""

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
from trainstack.preflight.rule_context import EnvironmentContext
from trainstack.preflight.worker_needs import Need, WorkerCluster
from trainstack.runs.manifests.trainjob import is_countable
from trainstack.runs.status.launch_kinds import kind_of_launch, launch_kind
from trainstack.runs.status.queued_workloads import queued_workloads
from trainstack.settings.errors import suggest_name
from trainstack.settings.model import Settings
from trainstack.settings.sections.storage import Volume
from trainstack.settings.sections.workloads import CLUSTER_RUNTIME
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
"""Cluster-scoped kinds that the rules examine. Under a tenant's profile, only READ_BY_TENANTS are read."""
READ_BY_TENANTS = ("StorageClass",)
"""Cluster-scoped kinds that all users of many clusters may list."""


@dataclass(frozen=True)
class DryRun:
    """Answer of the API server and its webhooks to a dry run."""

    path: str
    """Path of the object's setting: a run, or an operator whose webhooks are probed."""
    kind: str
    namespace: str
    status: int
    """HTTP status; 0 if no answer arrived in time."""
    message: str


@dataclass(frozen=True)
class LiveOperator:
    """A controller's Deployment or pod, and the problems of its pods."""

    namespace: str
    name: str
    image: str
    ready: bool
    problems: tuple[str, ...] = ()
    release: str = ""
    """Release from the label; empty without the label."""
    kind: str = "Deployment"
    """`Deployment`, or `Pod` if another kind such as a StatefulSet owns the controller's pods."""

    @property
    def version(self) -> str:
        """Release from the label, or else from the image's tag; empty if neither is a version."""
        if parse_version(self.release):
            return self.release
        tag = _TAG.search(self.image)
        return tag[1] if tag else ""


@dataclass(frozen=True)
class UnservedImage:
    """An image with a Dockerfile in this repository that the cluster's nodes probably cannot pull."""

    path: str
    """Path of the first run or sweep that uses it, in the notation of `settings.values.paths`."""
    workloads: tuple[str, ...]
    """Names of all runs and sweeps that use it."""
    reference: str
    command: str
    """Command that pushes the image."""
    is_missing: bool
    """Whether the registry answered that it does not have the image; if not, `reason` is why it could not be read."""
    reason: str
    host_path: str = ""
    """Setting with the registry's host if the host has no address; otherwise empty."""


ImageProblem = Literal["unreachable", "missing", "denied", "unknown"]
"""Why an image cannot be read: its registry has no address, lacks the image, or requires a login; or another reason."""


@dataclass(frozen=True)
class UnreadImage:
    """An image without a Dockerfile in this repository that cannot be read from its registry."""

    path: str
    """Setting that names the image, in the notation of `settings.values.paths`."""
    reference: str
    problem: ImageProblem
    reason: str
    has_pull_secret: bool = False


@dataclass(frozen=True)
class ImageUser:
    """The user of an image, of a run whose pods must not run as root and have the image's user."""

    path: str
    """Setting that names the image, in the notation of `settings.values.paths`."""
    reference: str
    user: str
    """Such as `1000`, `app` or `app:users`; empty if the image sets none."""


@dataclass(frozen=True, kw_only=True)
class LiveCluster:
    """One read of a cluster. A part is None if it was not read, or if the credentials do not allow it."""

    version: str
    """Version of the API server, such as `v1.34.4`."""
    lists: Mapping[str, tuple[Body, ...] | None] = field(default_factory=dict)
    """Cluster-scoped objects by kind, and namespaced ones by `<kind> <namespace>`."""
    unserved: frozenset[str] = frozenset()
    """Kinds that the API server does not serve."""
    operators: Mapping[str, LiveOperator | None] | None = None
    """Operators by key of OPERATORS; None for an operator that was not found."""
    dry_runs: tuple[DryRun, ...] = ()
    admission: Lists = field(default_factory=dict)
    """Objects that admission depends on, by kind. All objects have the field `kind`."""
    bound_pods: tuple[Body, ...] | None = None
    """Pods that are bound to nodes, which are read only if a flavor has a topology."""
    frameworks: frozenset[str] | None = None
    """Integrations that the running Kueue enables."""
    kueue: Body | None = None
    """Configuration of the running Kueue."""
    has_autoscaler: bool = False
    """Whether a node autoscaler runs, so that new nodes may have labels and resources that no node has now."""
    unserved_images: tuple[UnservedImage, ...] = ()
    named_images: tuple[UnreadImage, ...] = ()
    image_users: tuple[ImageUser, ...] = ()
    secrets: Mapping[tuple[str, str], bool | None] = field(default_factory=dict)
    """Whether each Secret of the environment exists, by namespace and name; None if the user may not read it."""
    namespaces: Mapping[str, bool | None] = field(default_factory=dict)
    """Whether each namespace of the environment's runs and volumes exists; None if the user may not read it."""
    worker_needs: Mapping[str, Mapping[str, tuple[Need, ...]]] = field(default_factory=dict)
    """Needs of dispatched runs in MultiKueue's worker clusters, by path of the run and name of the cluster."""
    workers: Mapping[str, WorkerCluster] = field(default_factory=dict)
    """Worker clusters by name."""
    local_path_shared: bool | None = None
    """Whether local-path-provisioner has a shared file system, which ReadWriteMany requires; None if unknown."""

    @property
    def countable_runtimes(self) -> dict[str, Body]:
        """ClusterTrainingRuntimes by name, as far as they were read and their pods can be counted."""
        runtimes = self.objects_by_name(CLUSTER_RUNTIME) or {}
        return {name: {**body, "kind": CLUSTER_RUNTIME} for name, body in runtimes.items() if is_countable(body)}

    def objects_by_name(self, kind: str, namespace: str | None = None) -> dict[str, Body] | None:
        """Return the objects of a kind by name; None if they were not read."""
        objects = self.lists.get(f"{kind} {namespace}" if namespace else kind)
        return None if objects is None else {str(body["metadata"]["name"]): body for body in objects}


@dataclass(frozen=True)
class LiveContext(EnvironmentContext):
    """An environment, and one read of its cluster."""

    live: LiveCluster
    operator_images: Mapping[str, str]
    """Controller image in each declared operator's release, by key of OPERATORS; only of releases that were read."""
    launch_names: Collection[tuple[str, str]] = ()
    """The runs as they would be launched now: pairs of namespace and run id, and of namespace and object name."""
    judge: Callable[[str], Judge | str] = lambda _: "kueue-judge is not used here"
    """Function from a release of Kueue to its kueue-judge, a program with Kueue's own code that places pods in
    topologies, or to the reason why the program is missing."""

    def new_volumes(self) -> Iterator[tuple[str, Volume]]:
        """Yield the volumes of whose claims the cluster has none yet, as far as it was read."""
        for path, volume in self.volumes():
            if volume.name not in (self.live.objects_by_name("PersistentVolumeClaim", volume.namespace) or {}):
                yield path, volume

    @cached_property
    def snapshot(self) -> QueueState:
        """The cluster's admission state after `up`: live objects, with the environment's own objects as declared."""
        live = self.live
        return queue_state_after_up(
            live.admission,
            self.stack_objects,
            ignored_runs=self.launch_names,
            has_autoscaler=live.has_autoscaler,
            kueue_configuration=live.kueue,
            release=self.kueue_release,
        )

    @cached_property
    def submissions(self) -> list[Workload]:
        """The queued runs as the cluster's Kueue would count them, created after all existing workloads."""
        return [replace(run, created=inf) for run in run_workloads(self.stack_objects, self.snapshot.model)]

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """A verdict per queued run: whether Kueue would admit it now, after all existing workloads of its priority."""
        state, workloads = self.snapshot, self.submissions
        simulator = AdmissionSimulator(state.model, state.admitted, state.pending, self._placement_verdicts(workloads))
        verdicts = verdicts_for_release(map(simulator.verdict, workloads), self.kueue_release, "cluster")
        return list(add_remedies(verdicts, workloads, self.settings, state.model, state.objects))

    def _placement_verdicts(self, runs: Sequence[Workload]) -> dict[str, Verdict]:
        """Return verdicts of Kueue's own code on the runs and on pending workloads of their trees of cohorts.

        The result is empty if no flavor has a topology: the simulator's verdicts suffice.
        """
        state, release = self.snapshot, self.kueue_release
        if not any(flavor.topology for flavor in (state.model.flavors or {}).values()):
            return {}
        simulator = AdmissionSimulator(state.model, state.admitted)
        run_verdicts = {run.key: simulator.verdict(run) for run in runs}
        # A pending workload that cannot be placed takes no quota, and holds up a StrictFIFO queue.
        nodes = simulator.usage_snapshot.tree.queues
        cluster_queues = {
            related_node.name
            for verdict in run_verdicts.values()
            if verdict.cluster_queue in nodes
            for related_node in nodes[verdict.cluster_queue].tree_queues()
        }
        local_queues = {
            queue_key
            for queue_key, queue in (state.model.local_queues or {}).items()
            if queue.cluster_queue in cluster_queues
        }
        blocking_workloads = [
            workload for workload in state.pending if (workload.namespace, workload.queue) in local_queues
        ]
        blocking_verdicts = {workload.key: simulator.verdict(workload) for workload in blocking_workloads}
        submissions = {
            **pending_submissions(state, blocking_workloads),
            **run_submissions(self.stack_objects, state.model, runs),
        }
        pods = None if self.live.bound_pods is None else pods_without_runs(self.live.bound_pods, self.launch_names)
        judge_inputs = JudgeInputs(self.judge(release), pods, release)
        return judge_placements({**blocking_verdicts, **run_verdicts}, submissions, state, judge_inputs)

    @cached_property
    def kueue_release(self) -> str:
        """Release of Kueue that will admit the runs: the declared one, or else the running one; empty if unknown."""
        install, running_kueue = self.settings.operators.kueue, (self.live.operators or {}).get("kueue")
        if install is not None:
            return install.manifest.version
        return running_kueue.version if running_kueue else ""

    @cached_property
    def verdicts_of_files(self) -> list[Verdict]:
        """Verdicts from the files alone, without remedies. Rules leave out reasons that the files already show."""
        simulator = AdmissionSimulator(self.model_of_files)
        return [simulator.idle_verdict(workload) for workload in self.submissions_of_files]

    @cached_property
    def model_of_files(self) -> Model:
        return stack_model(self.stack_objects)

    @cached_property
    def submissions_of_files(self) -> tuple[Workload, ...]:
        """The queued runs, counted from the files alone."""
        return run_workloads(self.stack_objects, self.model_of_files)


def is_operator_declared(settings: Settings, operator: str) -> bool:
    """Return whether the environment itself installs the operator."""
    return operator in settings.operators.installs


def required_operators(settings: Settings) -> dict[str, str]:
    """Return the paths of the settings that require an operator, by key of OPERATORS."""
    paths_by_operator = {name: OPERATORS[name].path for name in OPERATORS if is_operator_declared(settings, name)}
    for path, run in queued_workloads(settings):
        if run.queue is not None:
            paths_by_operator.setdefault("kueue", f"{path}.queue")
        if operator := kind_of_launch(launch_kind(run)).operator:
            paths_by_operator.setdefault(operator, f"{path}.kind")
    return paths_by_operator


def unknown_violation(path: str, question: str, unreadable: str) -> Violation:
    """Return a violation of severity `unknown`: these credentials cannot read the objects that answer a question."""
    return Violation(
        path,
        f"whether {question} is unknown: these credentials cannot read {unreadable}",
        "ask the cluster's owner to run `trainstack check --cluster` on the platform's environment",
        "unknown",
    )


def unread_violation(context: LiveContext, path: str, question: str, facts: str) -> Violation:
    """Return a violation of severity `unknown`: the facts were not read. Only profile `owner` reads them."""
    violation, profile = unknown_violation(path, question, facts), context.settings.environment.profile
    if profile == "owner":
        return violation
    reason = f"an environment with profile {profile!r} does not read {facts}"
    return replace(violation, message=f"whether {question} is unknown: {reason}")


def missing_violation(context: LiveContext, path: str, message: str, remedy: str, *, is_declared: bool) -> Violation:
    """Return the violation that an object is missing: a warning if `up` would create it.

    `is_declared`: whether the environment declares the object.
    """
    if is_declared:
        remedy = f"the environment declares it: run `trainstack up -s {context.settings.stack}`"
        return Violation(path, f"{message} yet", remedy, "warning")
    return Violation(path, message, remedy)


def find_missing_object(
    context: LiveContext, path: str, kind: str, name: str, namespace: str = "", *, is_declared: bool
) -> Iterator[Violation]:
    """Yield a violation unless the cluster has the object.

    `namespace`: empty for a cluster-scoped kind.
    """
    names = context.live.objects_by_name(kind, namespace)
    scope = f"namespace {namespace}" if namespace else "the cluster"
    if names is None:
        yield unknown_violation(path, f"{scope} has {kind} {name!r}", f"{kind} objects")
    elif name not in names:
        remedy = f"{suggest_name(name, names)} (or ask the cluster's owner to create it)"
        yield missing_violation(
            context, path, f"{scope} does not have {kind} {name!r}", remedy, is_declared=is_declared
        )
