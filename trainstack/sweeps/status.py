"""The state of a sweep's trials, computed from the objects in the cluster.

Pure functions. A trial is a launch of its own or a completion index of an Indexed Job. After its object is deleted,
only its record has the outcome.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from trainstack.objects.labels import LAUNCH, QUEUE
from trainstack.runs.launches import LiveLaunch, live_launch, parse_indexes
from trainstack.runs.ledgers import Ledger
from trainstack.runs.manifests.indexed_job import TARGET_MISSED_EXIT_CODE
from trainstack.runs.parameter_file import FileContents
from trainstack.runs.status.attempts import ended_attempt, parse_time
from trainstack.runs.status.launch_kinds import kind_of_launch, launch_conditions
from trainstack.runs.status.pods import labels_and_annotations, pod_problems, pod_views
from trainstack.runs.status.waiting import Queueing, conditions_by_type, why_waiting
from trainstack.sweeps.batches import Batch, find_batches

Body = Mapping[str, Any]
_DEADLINE = "deadline: it exceeded activeDeadlineSeconds"


@dataclass(frozen=True, kw_only=True)
class LiveTrial:
    state: Literal["queued", "running", "succeeded", "failed", "stopped", "gone"]
    """`gone`: it was launched, and the cluster no longer has its outcome."""
    reason: str = ""
    """Why it is queued, does not continue, or has failed; empty if there is no reason to report."""
    controller: str = ""
    """The controller's message on a failed trial without pods. The record has more details."""
    started: datetime | None = None
    finished: datetime | None = None
    attempts: int = 0
    """Its existing pods."""


@dataclass(frozen=True, kw_only=True)
class SweepObjects:
    launches: Sequence[Body] = ()
    ledgers: Sequence[Ledger] = ()
    files: Mapping[str, FileContents] = field(default_factory=dict)
    """Its parameter files, by name."""
    pods: Sequence[Body] = ()
    """Of all its launches; also empty if they cannot be read."""
    clusters: Mapping[str, str] = field(default_factory=dict)
    """The worker clusters of MultiKueue with the pods of dispatched launches, by launch name."""
    unreached: Mapping[str, str] = field(default_factory=dict)
    """Why worker clusters were not read, by cluster."""
    queueing: Mapping[str, Queueing] = field(default_factory=dict)
    """Of launches that are queued, by uid."""
    ledger_metadata: Mapping[str, Body] = field(default_factory=dict)
    """Of the ledgers, by run id."""


def live_trials(objects: SweepObjects) -> dict[str, LiveTrial]:
    """Return the state of every trial that has been launched, by run id."""
    trials = {ledger.run_id: LiveTrial(state="gone") for ledger in objects.ledgers if not ledger.trials}
    pods_by_launch = _group_by_launch(
        sorted(objects.pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp")))
    )
    bodies = {body["metadata"]["labels"][LAUNCH]: body for body in objects.launches}
    launches = sorted(map(live_launch, objects.launches), key=lambda launch: launch.created)
    # A trial's own launch takes precedence over the batch that it was part of before.
    for batch in find_batches(launches, objects.ledgers, objects.files):
        trials |= _trials_of_batch(batch, bodies, pods_by_launch, objects)
    for launch in launches:
        if launch.sweep is None or launch.sweep.set_id:
            trials[launch.run_id] = _trial_of_launch(
                launch, bodies[launch.launch], pods_by_launch.get(launch.launch, []), objects
            )
    return trials


def trial_clusters(objects: SweepObjects) -> dict[str, str]:
    """Return the worker clusters of dispatched trials whose objects exist, by run id."""
    clusters: dict[str, str] = {}
    launches = sorted(map(live_launch, objects.launches), key=lambda launch: launch.created)
    for batch in find_batches(launches, objects.ledgers, objects.files):
        if batch.launch is not None and (cluster := objects.clusters.get(batch.launch.launch)):
            clusters |= {run_id: cluster for run_id in batch.members if run_id}
    for launch in launches:
        if launch.sweep is None or launch.sweep.set_id:
            # Its batch, if it was part of one before, may be in another cluster.
            clusters.pop(launch.run_id, None)
            if cluster := objects.clusters.get(launch.launch):
                clusters[launch.run_id] = cluster
    return clusters


def trial_pods(objects: SweepObjects) -> dict[str, Body]:
    """Return the pod with the relevant log of each started trial with a launch of its own, by run id.

    It is the first replica's succeeded pod, or else the newest.
    """
    pods_by_run_id = {}
    pods_by_launch = _group_by_launch(pod for pod in objects.pods if _phase(pod) not in (None, "Pending", "Unknown"))
    for launch in sorted(map(live_launch, objects.launches), key=lambda launch: launch.created):
        pods = pods_by_launch.get(launch.launch)
        if pods and launch.sweep is not None and launch.sweep.set_id:
            first_pod = pod_views(pods, launch.kind)[0].name
            replica = next(_replica(pod, launch.kind) for pod in pods if pod["metadata"]["name"] == first_pod)
            attempts = [pod for pod in pods if _replica(pod, launch.kind) == replica]
            # Times in RFC 3339 sort as text.
            pods_by_run_id[launch.run_id] = max(
                attempts,
                key=lambda pod: (_phase(pod) == "Succeeded", str(pod["metadata"].get("creationTimestamp"))),
            )
    return pods_by_run_id


def _group_by_launch(pods: Iterable[Body]) -> dict[str, list[Body]]:
    grouped_pods = defaultdict[str, list[Body]](list)
    for pod in pods:
        grouped_pods[pod["metadata"]["labels"].get(LAUNCH, "")].append(pod)
    return grouped_pods


def _phase(pod: Body) -> str | None:
    phase: str | None = (pod.get("status") or {}).get("phase")
    return phase


def _replica(pod: Body, kind: str) -> tuple[str | None, str | None]:
    """Return a pod's role and index, if it has them. All pods of a Job without indexes are attempts of one replica."""
    pod_marks, launch_kind = labels_and_annotations(pod), kind_of_launch(kind)
    return pod_marks.get(launch_kind.role_label or ""), pod_marks.get(launch_kind.index_label or "")


def _trial_of_launch(launch: LiveLaunch, body: Body, pods: Sequence[Body], objects: SweepObjects) -> LiveTrial:
    status = body.get("status") or {}
    failed_condition = {condition["type"]: condition for condition in launch_conditions(body)}.get("Failed", {})
    reason = controller = ""
    if launch.phase == "queued":
        reason = _waiting_reason(body, objects)
    elif launch.phase == "running":
        reason = "; ".join(condition for pod in pods for condition in pod_problems(pod))
    elif launch.phase == "failed":
        reason = _failure_reason(failed_condition, pods)
        controller = "" if reason else _condition_text(failed_condition)
    return LiveTrial(
        state=launch.phase,
        reason=reason,
        controller=controller,
        started=parse_time(status.get("startTime")),
        finished=parse_time(
            status.get("completionTime") or status.get("endTime") or failed_condition.get("lastTransitionTime")
        ),
        attempts=len(pods),
    )


def _trials_of_batch(
    batch: Batch, bodies: Mapping[str, Body], pods_by_launch: Mapping[str, list[Body]], objects: SweepObjects
) -> dict[str, LiveTrial]:
    # An empty entry is a trial that was withdrawn or launched elsewhere.
    members = {index: run_id for index, run_id in enumerate(batch.members) if run_id}
    launch = batch.launch
    if launch is None or launch.sweep is None:
        return {run_id: LiveTrial(state="gone") for run_id in members.values()}
    body = bodies[launch.launch]
    succeeded_indexes = {*launch.sweep.succeeded}
    failed_indexes = {*parse_indexes((body.get("status") or {}).get("failedIndexes") or "")}
    pods_by_index: dict[int, list[Body]] = {}
    for pod in pods_by_launch.get(launch.launch, []):
        pods_by_index.setdefault(int(_replica(pod, "Job")[1] or -1), []).append(pod)
    waiting_reason = _waiting_reason(body, objects) if launch.phase == "queued" else ""
    cluster = objects.clusters.get(launch.launch, "")
    trials = {}
    for index, run_id in members.items():
        index_pods = pods_by_index.get(index, [])
        if index in succeeded_indexes:
            trials[run_id] = _ended_trial("succeeded", index_pods)
        elif index in failed_indexes:
            trials[run_id] = _trial_of_failed_index(index_pods)
        elif launch.phase == "queued":
            trials[run_id] = LiveTrial(state="queued", reason=waiting_reason, attempts=len(index_pods))
        # Without the worker cluster's pods, a started trial and one that waits look the same.
        elif launch.phase == "running" and cluster in objects.unreached:
            trials[run_id] = LiveTrial(state="running", reason=f"its cluster {cluster} cannot be read")
        elif launch.phase == "running":
            trials[run_id] = _trial_of_active_index(index_pods, body)
        else:
            trials[run_id] = LiveTrial(state="stopped", reason=_stop_reason(body), attempts=len(index_pods))
    return trials


def _trial_of_active_index(pods: Sequence[Body], body: Body) -> LiveTrial:
    if not pods:
        parallelism = body["spec"].get("parallelism")
        return LiveTrial(state="queued", reason=f"its batch runs {parallelism} trials at once")
    newest_pod = pods[-1]
    phase = _phase(newest_pod)
    if phase == "Running":
        started = parse_time(newest_pod["status"].get("startTime"))
        return LiveTrial(
            state="running", reason="; ".join(pod_problems(newest_pod)), started=started, attempts=len(pods)
        )
    if phase == "Succeeded":
        # The Job's status does not count it yet.
        return _ended_trial("succeeded", pods)
    reason = f"it is retried: {_end_reason(newest_pod)}" if phase == "Failed" else "; ".join(pod_problems(newest_pod))
    return LiveTrial(state="queued", reason=reason, attempts=len(pods))


def _trial_of_failed_index(pods: Sequence[Body]) -> LiveTrial:
    """Return a failed trial, or a succeeded one if its exit code shows that only the target was not reached."""
    if not pods:
        return LiveTrial(state="gone")
    attempt = ended_attempt(pods[-1])
    if attempt is not None and attempt.exit_code == TARGET_MISSED_EXIT_CODE:
        return _ended_trial("succeeded", pods)
    return _ended_trial("failed", pods, _end_reason(pods[-1]))


def _ended_trial(state: Literal["succeeded", "failed"], pods: Sequence[Body], reason: str = "") -> LiveTrial:
    starts = [start for pod in pods if (start := (pod.get("status") or {}).get("startTime"))]
    ends = [end for attempt in map(ended_attempt, pods) if (end := attempt and attempt.finished)]
    return LiveTrial(
        state=state,
        reason=reason,
        started=parse_time(starts[0] if starts else None),
        finished=ends[-1] if ends else None,
        attempts=len(pods),
    )


def _waiting_reason(body: Body, objects: SweepObjects) -> str:
    queue, queueing = body["metadata"]["labels"].get(QUEUE), objects.queueing.get(body["metadata"]["uid"])
    return "" if queue is None or queueing is None else why_waiting(queue, queueing)


def _failure_reason(failed_condition: Body, pods: Sequence[Body]) -> str:
    """Return how a failed launch's last failed pod ended; empty if it has none."""
    if failed_condition.get("reason") == "DeadlineExceeded":
        return _DEADLINE
    failed_pods = [pod for pod in pods if _phase(pod) == "Failed"]
    return _end_reason(failed_pods[-1]) if failed_pods else ""


def _stop_reason(body: Body) -> str:
    """Return the reason why a batch ended before all of its trials."""
    conditions = conditions_by_type(body)
    if "Complete" in conditions:
        return "another trial has reached the target"
    failed_condition = conditions.get("Failed", {})
    if failed_condition.get("reason") == "DeadlineExceeded":
        return "the batch exceeded the sweep's activeDeadlineSeconds"
    if failed_condition.get("reason") == "MaxFailedIndexesExceeded":
        return "too many other trials have failed (maxFailedIndexes)"
    return f"its batch has failed: {_condition_text(failed_condition)}"


def _condition_text(condition: Body) -> str:
    return ": ".join(filter(None, (condition.get("reason"), condition.get("message"))))


def _end_reason(pod: Body) -> str:
    status = pod.get("status") or {}
    if status.get("reason") == "DeadlineExceeded":
        return _DEADLINE
    disruption = conditions_by_type(pod).get("DisruptionTarget", {})
    if disruption.get("status") == "True" or status.get("reason") == "Evicted":
        text = disruption.get("message") or status.get("message") or disruption.get("reason", "")
        return f"evicted: {text}" if text else "evicted"
    attempt = ended_attempt(pod)
    if attempt is None:
        return status.get("message") or "its pod has failed"
    if attempt.reason == "OOMKilled":
        return f"out of memory (exit {attempt.exit_code}): raise its limit in `resources`"
    return f"crashed (exit {attempt.exit_code})"
