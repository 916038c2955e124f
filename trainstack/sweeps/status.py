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
from trainstack.runs.launches import LiveLaunch, indexes, live_launch
from trainstack.runs.ledgers import Ledger
from trainstack.runs.manifests.indexed_job import NOT_REACHED
from trainstack.runs.parameter_file import Data
from trainstack.runs.status.attempts import ended_attempt, time_of
from trainstack.runs.status.kinds import kind_of_launch, launch_conditions
from trainstack.runs.status.pods import marks, pod_views, problems
from trainstack.runs.status.waiting import Queueing, conditions, why_waiting
from trainstack.sweeps.indexed import Batch, batches

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
    files: Mapping[str, Data] = field(default_factory=dict)
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


def live_trials(read: SweepObjects) -> dict[str, LiveTrial]:
    """Return the state of every trial that has been launched, by run id."""
    found = {each.run_id: LiveTrial(state="gone") for each in read.ledgers if not each.trials}
    pods = _by_launch(sorted(read.pods, key=lambda each: str(each["metadata"].get("creationTimestamp"))))
    bodies = {body["metadata"]["labels"][LAUNCH]: body for body in read.launches}
    launches = sorted(map(live_launch, read.launches), key=lambda each: each.created)
    # A trial's own launch takes precedence over the batch that it was part of before.
    for batch in batches(launches, read.ledgers, read.files):
        found |= _of_batch(batch, bodies, pods, read)
    for launch in launches:
        if launch.sweep is None or launch.sweep.set_id:
            found[launch.run_id] = _of_launch(launch, bodies[launch.launch], pods.get(launch.launch, []), read)
    return found


def trial_clusters(read: SweepObjects) -> dict[str, str]:
    """Return the worker clusters of dispatched trials whose objects exist, by run id."""
    found: dict[str, str] = {}
    launches = sorted(map(live_launch, read.launches), key=lambda launch: launch.created)
    for batch in batches(launches, read.ledgers, read.files):
        if batch.launch is not None and (cluster := read.clusters.get(batch.launch.launch)):
            found |= {run_id: cluster for run_id in batch.members if run_id}
    for launch in launches:
        if launch.sweep is None or launch.sweep.set_id:
            # Its batch, if it was part of one before, may be in another cluster.
            found.pop(launch.run_id, None)
            if cluster := read.clusters.get(launch.launch):
                found[launch.run_id] = cluster
    return found


def trial_pods(read: SweepObjects) -> dict[str, Body]:
    """Return the pod with the relevant log of each started trial with a launch of its own, by run id.

    It is the first replica's succeeded pod, or else the newest.
    """
    found = {}
    by_launch = _by_launch(pod for pod in read.pods if _phase(pod) not in (None, "Pending", "Unknown"))
    for launch in sorted(map(live_launch, read.launches), key=lambda launch: launch.created):
        pods = by_launch.get(launch.launch)
        if pods and launch.sweep is not None and launch.sweep.set_id:
            first = pod_views(pods, launch.kind)[0].name
            replica = next(_replica(pod, launch.kind) for pod in pods if pod["metadata"]["name"] == first)
            attempts = [pod for pod in pods if _replica(pod, launch.kind) == replica]
            # Times in RFC 3339 sort as text.
            found[launch.run_id] = max(
                attempts,
                key=lambda pod: (_phase(pod) == "Succeeded", str(pod["metadata"].get("creationTimestamp"))),
            )
    return found


def _by_launch(pods: Iterable[Body]) -> dict[str, list[Body]]:
    found = defaultdict[str, list[Body]](list)
    for pod in pods:
        found[pod["metadata"]["labels"].get(LAUNCH, "")].append(pod)
    return found


def _phase(pod: Body) -> str | None:
    phase: str | None = (pod.get("status") or {}).get("phase")
    return phase


def _replica(pod: Body, kind: str) -> tuple[str | None, str | None]:
    """Return a pod's role and index, if it has them. All pods of a Job without indexes are attempts of one replica."""
    found, facts = marks(pod), kind_of_launch(kind)
    return found.get(facts.role_label or ""), found.get(facts.index_label or "")


def _of_launch(launch: LiveLaunch, body: Body, pods: Sequence[Body], read: SweepObjects) -> LiveTrial:
    status = body.get("status") or {}
    failed = {each["type"]: each for each in launch_conditions(body)}.get("Failed", {})
    reason = controller = ""
    if launch.phase == "queued":
        reason = _waits(body, read)
    elif launch.phase == "running":
        reason = "; ".join(each for pod in pods for each in problems(pod))
    elif launch.phase == "failed":
        reason = _why_failed(failed, pods)
        controller = "" if reason else _words(failed)
    return LiveTrial(
        state=launch.phase,
        reason=reason,
        controller=controller,
        started=time_of(status.get("startTime")),
        finished=time_of(status.get("completionTime") or status.get("endTime") or failed.get("lastTransitionTime")),
        attempts=len(pods),
    )


def _of_batch(
    batch: Batch, bodies: Mapping[str, Body], pods: Mapping[str, list[Body]], read: SweepObjects
) -> dict[str, LiveTrial]:
    # An empty entry is a trial that was withdrawn or launched elsewhere.
    members = {index: run_id for index, run_id in enumerate(batch.members) if run_id}
    launch = batch.launch
    if launch is None or launch.sweep is None:
        return {run_id: LiveTrial(state="gone") for run_id in members.values()}
    body = bodies[launch.launch]
    done = {*launch.sweep.succeeded}
    failed = {*indexes((body.get("status") or {}).get("failedIndexes") or "")}
    of_index: dict[int, list[Body]] = {}
    for pod in pods.get(launch.launch, []):
        of_index.setdefault(int(_replica(pod, "Job")[1] or -1), []).append(pod)
    waits = _waits(body, read) if launch.phase == "queued" else ""
    cluster = read.clusters.get(launch.launch, "")
    found = {}
    for index, run_id in members.items():
        own = of_index.get(index, [])
        if index in done:
            found[run_id] = _ended("succeeded", own)
        elif index in failed:
            found[run_id] = _failed_index(own)
        elif launch.phase == "queued":
            found[run_id] = LiveTrial(state="queued", reason=waits, attempts=len(own))
        # Without the worker cluster's pods, a started trial and one that waits look the same.
        elif launch.phase == "running" and cluster in read.unreached:
            found[run_id] = LiveTrial(state="running", reason=f"its cluster {cluster} cannot be read")
        elif launch.phase == "running":
            found[run_id] = _active_index(own, body)
        else:
            found[run_id] = LiveTrial(state="stopped", reason=_why_stopped(body), attempts=len(own))
    return found


def _active_index(pods: Sequence[Body], body: Body) -> LiveTrial:
    if not pods:
        most = body["spec"].get("parallelism")
        return LiveTrial(state="queued", reason=f"its batch runs {most} trials at once")
    last = pods[-1]
    phase = _phase(last)
    if phase == "Running":
        began = time_of(last["status"].get("startTime"))
        return LiveTrial(state="running", reason="; ".join(problems(last)), started=began, attempts=len(pods))
    if phase == "Succeeded":
        # The Job's status does not count it yet.
        return _ended("succeeded", pods)
    reason = f"it is retried: {_why_ended(last)}" if phase == "Failed" else "; ".join(problems(last))
    return LiveTrial(state="queued", reason=reason, attempts=len(pods))


def _failed_index(pods: Sequence[Body]) -> LiveTrial:
    """Return a failed trial, or a succeeded one if its exit code shows that only the target was not reached."""
    if not pods:
        return LiveTrial(state="gone")
    attempt = ended_attempt(pods[-1])
    if attempt is not None and attempt.exit_code == NOT_REACHED:
        return _ended("succeeded", pods)
    return _ended("failed", pods, _why_ended(pods[-1]))


def _ended(state: Literal["succeeded", "failed"], pods: Sequence[Body], reason: str = "") -> LiveTrial:
    starts = [start for pod in pods if (start := (pod.get("status") or {}).get("startTime"))]
    ends = [end for attempt in map(ended_attempt, pods) if (end := attempt and attempt.finished)]
    return LiveTrial(
        state=state,
        reason=reason,
        started=time_of(starts[0] if starts else None),
        finished=ends[-1] if ends else None,
        attempts=len(pods),
    )


def _waits(body: Body, read: SweepObjects) -> str:
    queue, queueing = body["metadata"]["labels"].get(QUEUE), read.queueing.get(body["metadata"]["uid"])
    return "" if queue is None or queueing is None else why_waiting(queue, queueing)


def _why_failed(failed: Body, pods: Sequence[Body]) -> str:
    """Return how a failed launch's last failed pod ended; empty if it has none."""
    if failed.get("reason") == "DeadlineExceeded":
        return _DEADLINE
    ended = [pod for pod in pods if _phase(pod) == "Failed"]
    return _why_ended(ended[-1]) if ended else ""


def _why_stopped(body: Body) -> str:
    """Return the reason why a batch ended before all of its trials."""
    found = conditions(body)
    if "Complete" in found:
        return "another trial has reached the target"
    failed = found.get("Failed", {})
    if failed.get("reason") == "DeadlineExceeded":
        return "the batch exceeded the sweep's activeDeadlineSeconds"
    if failed.get("reason") == "MaxFailedIndexesExceeded":
        return "too many other trials have failed (maxFailedIndexes)"
    return f"its batch has failed: {_words(failed)}"


def _words(condition: Body) -> str:
    return ": ".join(filter(None, (condition.get("reason"), condition.get("message"))))


def _why_ended(pod: Body) -> str:
    status = pod.get("status") or {}
    if status.get("reason") == "DeadlineExceeded":
        return _DEADLINE
    disrupted = conditions(pod).get("DisruptionTarget", {})
    if disrupted.get("status") == "True" or status.get("reason") == "Evicted":
        words = disrupted.get("message") or status.get("message") or disrupted.get("reason", "")
        return f"evicted: {words}" if words else "evicted"
    attempt = ended_attempt(pod)
    if attempt is None:
        return status.get("message") or "its pod has failed"
    if attempt.reason == "OOMKilled":
        return f"out of memory (exit {attempt.exit_code}): raise its limit in `resources`"
    return f"crashed (exit {attempt.exit_code})"
