"""Workloads from the objects that bear them: the launches of an environment's runs, and Kueue's own Workloads."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from trainstack.declared.declared import Declared
from trainstack.kueue.model import Admitted, Model, PodSet, Usage, Workload
from trainstack.kueue.pod_requests import pod_set
from trainstack.kueue.quantities import value
from trainstack.objects.labels import MIN_PARALLELISM, PRIORITY, QUEUE
from trainstack.runs.errors import WorkloadError
from trainstack.runs.manifests.launched_pods import launched_pods
from trainstack.runs.status.run_pods import pod_sets
from trainstack.runs.status.run_pods import queued as runs_of

Body = Mapping[str, Any]


def declared_workloads(declared: Declared, model: Model, *, queued: bool = True) -> tuple[Workload, ...]:
    """The runs that Kueue holds, and of each sweep a trial or its Job, with their paths; without what cannot be built.

    `queued`: those that name a queue; else those that name none, which Kueue does not hold.
    """
    return tuple(_declared(declared, model, queued=queued))


def _declared(declared: Declared, model: Model, *, queued: bool) -> Iterator[Workload]:
    for path, run in runs_of(declared.settings):
        if (run.queue is not None) != queued:
            continue
        try:
            objects = declared.queued(run)
        except WorkloadError:
            continue
        paths = [(pods.path, pods.resources_path) for pods in pod_sets(path, run)]
        yield read_workload(*objects, model, name=run.name, path=path, paths=paths)


def read_workload(
    launch: Body,
    others: Iterable[Body],
    model: Model,
    *,
    name: str = "",
    path: str = "",
    paths: Iterable[tuple[str, str]] | None = None,
) -> Workload:
    """The workload that Kueue would make of a launch.

    Args:
        launch: a Job, PyTorchJob, JobSet, TrainJob or Pod.
        others: what it refers to.
        model: what its pods' figures depend on.
        name: what it is called to people; empty: as its object.
        path: of the run in the settings.
        paths: for each pod set, the setting that says it and the one that says its resources.

    """
    metadata = launch["metadata"]
    namespace = metadata["namespace"]
    labels = metadata.get("labels") or {}
    launched = launched_pods(launch, others)
    return Workload(
        name=name or metadata["name"],
        namespace=namespace,
        queue=labels.get(QUEUE, ""),
        pod_sets=tuple(
            pod_set(
                pods.name,
                pods.count,
                pods.template,
                namespace,
                model,
                least=_least(launch),
                path=place,
                resources_path=resources,
            )
            for pods, (place, resources) in zip(launched, paths or [("", "")] * len(launched), strict=True)
        ),
        priority=(model.priorities or {}).get(labels.get(PRIORITY, ""), 0),
        created=seconds(metadata.get("creationTimestamp")),
        path=path,
    )


def read_kueue_workload(body: Body, model: Model) -> Workload | Admitted | None:
    """One of Kueue's Workloads: admitted where it has its quota; None where it asks for none any more."""
    spec, status = body["spec"], body.get("status") or {}
    true = {each["type"]: each for each in status.get("conditions") or () if each["status"] == "True"}
    if "Finished" in true or spec.get("active") is False:
        return None
    metadata = body["metadata"]
    namespace = metadata["namespace"]
    workload = Workload(
        name=metadata["name"],
        namespace=namespace,
        queue=spec.get("queueName") or "",
        pod_sets=tuple(_live_pod_set(one, namespace, model) for one in spec["podSets"]),
        priority=spec.get("priority") or 0,
        created=seconds(metadata.get("creationTimestamp")),
    )
    admission = status.get("admission")
    if not admission or "QuotaReserved" not in true:
        return workload
    gone = {each["name"]: each["count"] for each in status.get("reclaimablePods") or ()}
    return Admitted(
        workload=workload,
        cluster_queue=admission["clusterQueue"],
        usage=_usage(admission["podSetAssignments"], {one.name: one.count for one in workload.pod_sets}, gone),
        reserved=seconds(true["QuotaReserved"].get("lastTransitionTime")),
        evicted="Evicted" in true,
    )


def _live_pod_set(body: Body, namespace: str, model: Model) -> PodSet:
    found = pod_set(
        body.get("name") or "main", body["count"], body["template"], namespace, model, least=body.get("minCount")
    )
    # Kueue writes one of its own into pod sets that ask for none.
    asked = {*(body.get("topologyRequest") or {})} & {"required", "preferred", "unconstrained"}
    return replace(found, topology=found.topology or bool(asked))


def _usage(assignments: Iterable[Body], counts: Mapping[str, int], gone: Mapping[str, int]) -> Usage:
    """What an admission takes, less the pods that are not needed any more.

    Source: totalRequestsFromAdmission in Kueue's pkg/workload/workload.go.
    """
    usage: dict[tuple[str, str], int] = {}
    for given in assignments:
        name = given["name"]
        count = given.get("count", counts[name])
        left = min(count, counts[name] - gone.get(name, 0))
        # What is listed without a flavor takes no quota.
        for resource, flavor in (given.get("flavors") or {}).items():
            number = value(resource, given["resourceUsage"][resource])
            if left < count:
                number = number // count * left
            fr = (flavor, resource)
            usage[fr] = usage.get(fr, 0) + number
    return usage


def _least(launch: Body) -> int | None:
    """None where no number is written. Source: minPodsCount in Kueue's pkg/controller/jobs/job/job_controller.go."""
    said = (launch["metadata"].get("annotations") or {}).get(MIN_PARALLELISM, "")
    return int(said) if launch["kind"] == "Job" and said.removeprefix("-").isdecimal() else None


def seconds(timestamp: str | None) -> float:
    """Since 1970, of a time as the API server writes it; 0 where none is written."""
    return datetime.fromisoformat(timestamp).timestamp() if timestamp else 0.0
