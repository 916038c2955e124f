"""The state of a launch, computed from its objects, for people and for programs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from trainstack.objects.labels import QUEUE
from trainstack.runs.launches import LiveLaunch, live_launch
from trainstack.runs.logs.log_lines import LogLine
from trainstack.runs.logs.training_progress import TrainingProgress, estimate_progress
from trainstack.runs.manifests.kind import Replicas
from trainstack.runs.status.attempts import parse_time
from trainstack.runs.status.launch_kinds import kind_of_launch, launch_conditions, mounted_claims
from trainstack.runs.status.pods import PodView, pod_views
from trainstack.runs.status.usage import ResourceUse, Usage
from trainstack.runs.status.waiting import Queueing, conditions_by_type, why_waiting, worker_cluster

Body = Mapping[str, Any]
Unknown = Literal["unknown"]
"""The value of what cannot be read or is not reported."""


@dataclass(frozen=True)
class Condition:
    """One of the object's own conditions, as its controller set it."""

    type: str
    status: str
    """`True`, `False` or `Unknown`."""
    reason: str
    since: datetime | None
    message: str


@dataclass(frozen=True)
class ClaimUse:
    """A PersistentVolumeClaim of a launch and its use."""

    name: str
    phase: str
    """`Bound`, `Pending`, `Lost`; `missing` if it does not exist, `unknown` if it cannot be read."""
    requested: str
    used_bytes: int | Unknown
    """The use reported by the kubelet of a running pod. It omits some kinds of volumes, and tenants cannot read it."""


@dataclass(frozen=True, kw_only=True)
class RunObjects:
    """The objects that were read for the view of one launch."""

    launch: Body
    queueing: Queueing
    companions: Sequence[Body] = ()
    """The objects that the launch refers to, as far as they can be read."""
    pods: Sequence[Body] | None = ()
    """The live pods; None if they cannot be read."""
    claims: Mapping[str, Body | None] | None = None
    """The claims by name: {} for a claim that does not exist, None for one that cannot be read."""
    usage: Usage = field(default_factory=Usage)
    """The usage reported by the kubelets of running pods, as far as they can be queried."""
    positions: Mapping[str, int] | None = None
    """The positions of pending Workloads in the queue, by name; None if they cannot be read."""
    log: Sequence[LogLine] = ()
    """The end of the first replica's log."""
    unreached: str = ""
    """Why the cluster of the pods was not read; empty if it was."""


@dataclass(frozen=True, kw_only=True)
class RunView:
    """The state of a launch, for commands and for `status --json`."""

    launch: LiveLaunch
    conditions: tuple[Condition, ...] = ()
    started: datetime | None = None
    """`status.startTime`; None before the start and for kinds without that field (JobSet, TrainJob)."""
    completed: datetime | None = None
    """`status.completionTime`; set on a Job that succeeded, and by Kubeflow on any job that ended. KubeRay sets
    `status.endTime`."""
    queue: str | None = None
    position: int | Unknown | None = None
    """The position in the queue, from 0; None if the launch is not queued."""
    admitted: bool = False
    """Whether the launch holds quota now. False before admission, after its end, and without a queue."""
    waits_because: str = ""
    """The reason why the launch waits, in plain words; empty after admission."""
    cluster: str = ""
    """The worker cluster that MultiKueue has chosen for the pods; empty if they run in the environment's cluster."""
    lost: str = ""
    """Why Kueue does not reach `cluster`, so that the state is the last known one; empty if Kueue reaches it, or if the
    connection cannot be read."""
    unreached: str = ""
    """Why `cluster` was not read; the pods, claims and log are then unknown. Empty if it was read."""
    replicas: tuple[Replicas, ...] = ()
    pods: tuple[PodView, ...] = ()
    pods_known: bool = True
    """Whether the pods can be read; if not, `pods` is empty."""
    pod_use: Mapping[str, ResourceUse] = field(default_factory=dict)
    """The usage of the pods by name, as far as known."""
    node_use: Mapping[str, ResourceUse] = field(default_factory=dict)
    """The usage of the pods' nodes by name, including everything else that runs there."""
    claims: tuple[ClaimUse, ...] = ()
    progress: TrainingProgress | None = None
    last_line: str = ""
    """The last line of the first replica's log."""

    @property
    def done_fraction(self) -> float | None:
        """The finished fraction, from 0 to 1; None if the log does not contain it."""
        if self.launch.phase == "succeeded":
            return 1.0
        return self.progress.fraction if self.progress else None

    @property
    def end_time(self) -> datetime | None:
        """The time at which the launch ended, as far as its object contains it; None if it is active."""
        if self.launch.is_active:
            return None
        changes = [condition.since for condition in self.conditions if condition.since]
        return self.completed or max(changes, default=self.launch.created)

    @property
    def failure(self) -> str:
        """The controller's reason and message for a failure; empty if there is none."""
        failed_condition = next(
            (condition for condition in self.conditions if condition.type == "Failed" and condition.status == "True"),
            None,
        )
        return ": ".join(filter(None, (failed_condition.reason, failed_condition.message))) if failed_condition else ""

    def summary(self) -> str:
        """Return the state as one line."""
        phase = self.launch.phase
        if phase == "queued":
            place = f" at position {self.position}" if isinstance(self.position, int) else ""
            return f"queued in {self.queue}{place}: {self.waits_because}"
        pod_problems = [f"{pod.role}-{pod.index}: {', '.join(pod.problems)}" for pod in self.pods if pod.problems]
        if phase == "failed" and self.failure:
            return "; ".join([f"failed: {self.failure}", *pod_problems])
        if phase in ("running", "failed") and pod_problems:
            return f"{phase}; {'; '.join(pod_problems)}"
        where = f"in cluster {self.cluster}" if self.cluster else ""
        where += ", which Kueue does not reach: its last known state" if self.lost else ""
        return "; ".join(filter(None, (phase, where, self.restart_summary, self.last_line)))

    @property
    def restart_summary(self) -> str:
        """A description of the last attempt of an endless Pod and its restarts; empty if no attempt has ended."""
        attempt = next((pod.last_attempt for pod in self.pods), None) if self.launch.endless else None
        if attempt is None:
            return ""
        reason = f" ({attempt.reason})" if attempt.reason else ""
        count = sum(pod.restarts for pod in self.pods)
        return f"its last attempt ended with exit code {attempt.exit_code}{reason}; restarts: {count}"


def bare_view(body: Body) -> RunView:
    """Return the view of a launch according to its own object only, without its queue and its pods."""
    status = body.get("status") or {}
    return RunView(
        launch=live_launch(body),
        conditions=tuple(map(_condition, launch_conditions(body))),
        started=parse_time(status.get("startTime")),
        completed=parse_time(status.get("completionTime") or status.get("endTime")),
        queue=body["metadata"]["labels"].get(QUEUE),
        replicas=kind_of_launch(body["kind"]).replicas(body),
    )


def run_view(objects: RunObjects, now: datetime) -> RunView:
    """Return the full view of a launch according to all objects that were read for it."""
    bare = bare_view(objects.launch)
    workload = objects.queueing.workload or {}
    is_queued, is_running = bare.launch.phase == "queued", bare.launch.phase == "running"
    pods = pod_views(objects.pods or (), bare.launch.kind)
    cluster = worker_cluster(workload)
    # The launch's own object determines the phase; the other objects only add details that depend on it.
    return replace(
        bare,
        position=_position(objects.positions, workload) if is_queued and bare.queue else None,
        admitted=_is_admitted(workload),
        waits_because=why_waiting(bare.queue, objects.queueing) if is_queued else "",
        cluster=cluster,
        lost=objects.queueing.connection_problems.get(cluster, "") if bare.launch.is_active else "",
        unreached=objects.unreached,
        pods=pods,
        pods_known=objects.pods is not None,
        # A later pod can have the same name, but never the same uid.
        pod_use={pod.name: objects.usage.pods[pod.uid] for pod in pods if pod.uid in objects.usage.pods},
        node_use={
            pod.node: objects.usage.nodes[pod.node]
            for pod in pods
            if pod.phase == "Running" and pod.node in objects.usage.nodes
        },
        claims=tuple(_claim_use(name, objects) for name in mounted_claims(objects.launch, objects.companions)),
        progress=estimate_progress(objects.log, _first_container_start(objects.pods or (), pods), now)
        if is_running
        else None,
        last_line=next((line.text for line in reversed(objects.log) if line.text.strip()), ""),
    )


def _is_admitted(workload: Body) -> bool:
    """Return whether Kueue has admitted a Workload that has not finished.

    Since v0.16, a finished Workload keeps the condition of its admission, although its quota is free.
    """
    conditions = conditions_by_type(workload)
    return conditions.get("Admitted", {}).get("status") == "True" and "Finished" not in conditions


def _condition(condition: Body) -> Condition:
    return Condition(
        type=condition["type"],
        status=condition["status"],
        reason=condition.get("reason", ""),
        since=parse_time(condition.get("lastTransitionTime")),
        message=condition.get("message", ""),
    )


def _position(positions: Mapping[str, int] | None, workload: Body) -> int | Unknown:
    return (positions or {}).get((workload.get("metadata") or {}).get("name", ""), "unknown")


def _claim_use(name: str, objects: RunObjects) -> ClaimUse:
    body = (objects.claims or {}).get(name)
    if body is None:
        return ClaimUse(name, "unknown", "unknown", "unknown")
    if not body:
        return ClaimUse(name, "missing", "unknown", "unknown")
    requested = body["spec"].get("resources", {}).get("requests", {}).get("storage", "unknown")
    used: int | Unknown = objects.usage.claims.get((objects.launch["metadata"]["namespace"], name), "unknown")
    return ClaimUse(name, (body.get("status") or {}).get("phase", "Pending"), requested, used)


def _first_container_start(bodies: Sequence[Body], pods: Sequence[PodView]) -> datetime | None:
    """Return when the first replica's first container started."""
    first_body = next((body for body in bodies if pods and body["metadata"]["name"] == pods[0].name), {})
    for container in first_body.get("status", {}).get("containerStatuses") or ():
        if running := (container.get("state") or {}).get("running"):
            return datetime.fromisoformat(running["startedAt"])
    return None
