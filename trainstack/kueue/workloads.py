"""Workloads from the launches of an environment's runs, and from Kueue's own Workloads."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from trainstack.kueue.fields import unmodeled_fields
from trainstack.kueue.managed_jobs import default_local_queue
from trainstack.kueue.model import AdmittedWorkload, FlavorResource, Model, PodSet, Usage, Workload
from trainstack.kueue.pod_requests import pod_set
from trainstack.kueue.quantities import resource_value
from trainstack.kueue.topology_requests import requested_levels
from trainstack.objects.labels import MIN_PARALLELISM, PRIORITY, QUEUE
from trainstack.runs.errors import WorkloadError
from trainstack.runs.manifests.kind import LaunchedPods
from trainstack.runs.manifests.launched_pods import launched_pods
from trainstack.runs.status.launch_kinds import framework_of
from trainstack.runs.status.queued_workloads import launched_pod_sets
from trainstack.runs.status.queued_workloads import queued_workloads as runs_of
from trainstack.settings.sections.workloads import Workload as Run
from trainstack.stack_objects.stack_objects import StackObjects

Body = Mapping[str, Any]
_PREEMPTOR_UID = re.compile(r"\(UID: ([^,\s]+),")


def run_workloads(stack_objects: StackObjects, model: Model, *, is_queued: bool = True) -> tuple[Workload, ...]:
    """Return the runs, and one trial or the Job of each sweep; runs whose manifests cannot be built are left out.

    `is_queued`: the runs with a queue, also one that Kueue sets; otherwise the runs that it does not manage.
    """
    workloads = []
    for path, run in runs_of(stack_objects.settings):
        if bool(_queue_of(run, model)) != is_queued:
            continue
        workload = run_workload(stack_objects, model, path, run)
        if workload is not None:
            workloads.append(workload)
    return tuple(workloads)


def run_workload(stack_objects: StackObjects, model: Model, path: str, run: Run) -> Workload | None:
    """Return the run at a path of the settings; None if its manifest cannot be built."""
    try:
        objects = stack_objects.queued_objects(run)
    except WorkloadError:
        return None
    launch, companions = objects
    paths = [(pods.path, pods.resources_path) for pods, _ in launched_pod_sets(path, run, launch, companions)]
    workload = read_workload(*objects, model, name=run.name, queue=_queue_of(run, model), path=path, paths=paths)
    runtime = run.runtime_reference
    return workload if companions or runtime is None else replace(workload, unread_runtime=runtime)


def _queue_of(run: Run, model: Model) -> str:
    return run.queue or default_local_queue(model, run.namespace, framework_of(run))


def read_workload(
    launch: Body,
    related_objects: Iterable[Body],
    model: Model,
    *,
    name: str = "",
    queue: str = "",
    path: str = "",
    paths: Iterable[tuple[str, str]] | None = None,
) -> Workload:
    """Return the workload that Kueue would create for a launch and the objects that it refers to.

    `name`: for messages; by default the object's name. `queue`: by default the queue of the launch. `path`: the
    run's path in the settings. `paths`: for each pod set, the paths of its setting and of its resources.
    """
    metadata = launch["metadata"]
    namespace = metadata["namespace"]
    labels = metadata.get("labels") or {}
    launched = launched_pods(launch, related_objects)
    return Workload(
        name=name or metadata["name"],
        namespace=namespace,
        queue=queue or labels.get(QUEUE, ""),
        pod_sets=tuple(
            pod_set(
                pods.name,
                pods.count,
                pods.template,
                namespace,
                model,
                min_count=_min_count(launch),
                path=pods_path,
                resources_path=resources_path,
            )
            for pods, (pods_path, resources_path) in zip(launched, paths or [("", "")] * len(launched), strict=True)
        ),
        priority=(model.priorities or {}).get(labels[PRIORITY], 0) if PRIORITY in labels else model.default_priority,
        created=epoch_seconds(metadata.get("creationTimestamp")),
        path=path,
        uid=metadata.get("uid", ""),
        unmodeled_fields=(*_unmodeled_annotations(launch, model), *_unread_priorities(launch, launched)),
    )


def read_kueue_workload(body: Body, model: Model) -> Workload | AdmittedWorkload | None:
    """Return a Workload of Kueue, admitted if its quota is reserved; None if it is finished, deactivated or on hold.

    An evicted workload holds its quota, with the condition QuotaReserved, until its pods have ended.
    """
    spec, status = body.get("spec") or {}, body.get("status") or {}
    conditions = {
        condition["type"]: condition for condition in status.get("conditions") or () if condition["status"] == "True"
    }
    if "Finished" in conditions or spec.get("active") is False:
        return None
    if model.release.holds_workloads and _is_held(status, conditions):
        return None
    metadata = body["metadata"]
    namespace = metadata["namespace"]
    counts = {_pod_set_name(pods): pods["count"] for pods in spec.get("podSets") or ()}
    reclaimed = {pods["name"]: pods["count"] for pods in status.get("reclaimablePods") or ()}
    # Without the gate, Kueue counts pods that have succeeded until the workload has finished.
    if not model.gates.is_enabled("ReclaimablePods"):
        reclaimed = {}
    workload = Workload(
        name=metadata["name"],
        namespace=namespace,
        queue=spec.get("queueName") or "",
        pod_sets=tuple(_live_pod_set(pods, namespace, model, reclaimed) for pods in spec.get("podSets") or ()),
        priority=spec.get("priority") or 0,
        created=_queue_order_time(body, conditions, model),
        uid=metadata.get("uid", ""),
        requeue_at=_requeue_at(status),
        unmodeled_fields=(
            *unmodeled_fields("Workload", body, model.release.fields),
            *_unmodeled_annotations(body, model),
        ),
        failed_checks={
            check["name"]: check["state"]
            for check in status.get("admissionChecks") or ()
            if check["state"] in ("Retry", "Rejected")
        },
    )
    admission = status.get("admission")
    if not admission or "QuotaReserved" not in conditions:
        return workload
    return AdmittedWorkload(
        workload=workload,
        cluster_queue=admission["clusterQueue"],
        usage=_usage(admission["podSetAssignments"], counts, reclaimed),
        reserved_at=epoch_seconds(conditions["QuotaReserved"].get("lastTransitionTime")),
        is_evicted="Evicted" in conditions,
        preemptor_uid=_preemptor_uid(conditions),
        is_ready="PodsReady" in conditions,
    )


def _preemptor_uid(conditions: Mapping[str, Body]) -> str:
    """Source: preemptionMessage in Kueue's pkg/scheduler/preemption/preemption.go."""
    match = _PREEMPTOR_UID.search(conditions.get("Preempted", {}).get("message", ""))
    return match[1] if match and "Evicted" in conditions else ""


def _is_held(status: Body, conditions: Body) -> bool:
    """Source: IsAdmissible in Kueue's pkg/workload/workload.go of v0.18."""
    if "QuotaReserved" in conditions:
        return False
    reasons = {condition["type"]: condition.get("reason") for condition in status.get("conditions") or ()}
    return reasons.get("QuotaReserved") == "OnHold" or "WaitingForReplacementPods" in conditions


_PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
"""The label, and in v0.19 the annotation, of a job for which somebody else creates the Workload."""
_GATE_OF_ANNOTATION = {
    "kueue.x-k8s.io/admission-gated-by": ("AdmissionGatedBy", "gates of admission are not calculated"),
    "kueue.x-k8s.io/elastic-job": (
        "ElasticJobsViaWorkloadSlices",
        "the replacement of workload slices is not calculated",
    ),
    "kueue.x-k8s.io/workload-slice-replacement-for": (
        "ElasticJobsViaWorkloadSlices",
        "the replacement of workload slices is not calculated",
    ),
}
"""By annotation of a job or Workload: the feature gate with which it counts, and why its verdict is unknown."""


def _unmodeled_annotations(body: Body, model: Model) -> Iterator[str]:
    """Yield the annotations and labels of a job or Workload that make its verdict unknown, with the reason."""
    annotations = body["metadata"].get("annotations") or {}
    labels = body["metadata"].get("labels") or {}
    if body.get("kind") != "Workload" and (labels.get(_PREBUILT) or annotations.get(_PREBUILT)):
        yield f"{_PREBUILT}: Kueue admits that Workload, which is not read, and creates none"
    for name, (gate, reason) in _GATE_OF_ANNOTATION.items():
        if annotations.get(name, "") not in ("", "false") and model.gates.is_enabled(gate):
            yield f"annotation {name}: {reason}"


def _unread_priorities(launch: Body, pod_sets: Iterable[LaunchedPods]) -> Iterator[str]:
    """Yield the PriorityClasses by which Kueue would order a job that names no WorkloadPriorityClass.

    Source: ExtractPriority in Kueue's pkg/controller/jobframework/reconciler.go; PriorityClass of Kubeflow's kinds.
    """
    if PRIORITY in (launch["metadata"].get("labels") or {}):
        return
    run_policy = (launch.get("spec") or {}).get("runPolicy") or {}
    if name := (run_policy.get("schedulingPolicy") or {}).get("priorityClass"):
        yield f"runPolicy.schedulingPolicy.priorityClass {name}: priorities of jobs by it are not calculated"
    for name in dict.fromkeys(pods.spec.get("priorityClassName") for pods in pod_sets):
        if name:
            yield f"priorityClassName {name} of its pods: priorities of jobs by it are not calculated"


_TOPOLOGY_KEYS = {"required", "preferred", "unconstrained", "podSetSliceRequiredTopology", "podSetSliceSize"}
"""Fields of a topologyRequest; Kueue adds one without these fields to pod sets that do not request a topology."""


def _live_pod_set(body: Body, namespace: str, model: Model, reclaimed: Mapping[str, int]) -> PodSet:
    """Source: totalRequestsFromPodSets in Kueue's pkg/workload/workload.go."""
    name, request = _pod_set_name(body), body.get("topologyRequest") or {}
    reclaimed_count = reclaimed.get(name, 0)
    live_pods = pod_set(
        name, body["count"] - reclaimed_count, body["template"], namespace, model, min_count=body.get("minCount")
    )
    topology = model.gates.is_enabled("TopologyAwareScheduling") and not _TOPOLOGY_KEYS.isdisjoint(request)
    return replace(
        live_pods,
        requests_topology=topology,
        levels=requested_levels(request),
        group=request.get("podSetGroupName") or "",
        reclaimed_count=reclaimed_count,
    )


def _pod_set_name(body: Body) -> str:
    return body.get("name") or "main"


def _queue_order_time(body: Body, conditions: Mapping[str, Body], model: Model) -> float:
    """Source: GetQueueOrderTimestamp in Kueue's pkg/workload/workload.go."""
    evicted, preempted = conditions.get("Evicted", {}), conditions.get("Preempted", {})
    reasons_to_move = {"AdmissionCheck"} if model.requeues_by_creation else {"AdmissionCheck", "PodsReadyTimeout"}
    if evicted.get("reason") in reasons_to_move:
        return epoch_seconds(evicted.get("lastTransitionTime"))
    if (
        not model.gates.is_enabled("PrioritySortingWithinCohort")
        and preempted.get("reason") == "InCohortReclaimWhileBorrowing"
    ):
        return epoch_seconds(preempted.get("lastTransitionTime")) + 0.001
    return epoch_seconds(body["metadata"].get("creationTimestamp"))


def _requeue_at(status: Body) -> float | None:
    """Return the end of the backoff; Kueue removes the field when it has ended.

    Source: backoffWaitingTimeExpired in Kueue's pkg/cache/queue/cluster_queue.go.
    """
    requeue_at = (status.get("requeueState") or {}).get("requeueAt")
    return None if requeue_at is None else epoch_seconds(requeue_at)


def _usage(assignments: Iterable[Body], counts: Mapping[str, int], reclaimed: Mapping[str, int]) -> Usage:
    """Return the usage of an admission without reclaimed pods.

    Source: totalRequestsFromAdmission in Kueue's pkg/workload/workload.go.
    """
    usage: dict[FlavorResource, int] = {}
    for assignment in assignments:
        name = assignment["name"]
        count = assignment.get("count", counts[name])
        remaining = min(count, counts[name] - reclaimed.get(name, 0))
        # Resources without a flavor use no quota.
        for resource, flavor in (assignment.get("flavors") or {}).items():
            number = resource_value(resource, assignment["resourceUsage"][resource])
            if remaining < count:
                number = number // count * remaining
            usage[flavor, resource] = usage.get((flavor, resource), 0) + number
    return usage


def _min_count(launch: Body) -> int | None:
    """Source: minPodsCount in Kueue's pkg/controller/jobs/job/job_controller.go."""
    text = (launch["metadata"].get("annotations") or {}).get(MIN_PARALLELISM, "")
    return int(text) if launch["kind"] == "Job" and text.removeprefix("-").isdecimal() else None


def epoch_seconds(timestamp: str | None) -> float:
    """Return a timestamp of the API server in seconds since 1970; 0 for None."""
    return datetime.fromisoformat(timestamp).timestamp() if timestamp else 0.0
