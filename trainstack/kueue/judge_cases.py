"""Cases for `kueue-judge`, a program of Kueue's own code, from the objects of a snapshot.

The program reads objects strictly, so only what it depends on is passed.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trainstack.kueue.managed_jobs import default_local_queue
from trainstack.kueue.model import Model, QueueState, Workload
from trainstack.kueue.topology_requests import topology_request
from trainstack.objects.labels import RUN
from trainstack.runs.errors import WorkloadError
from trainstack.runs.manifests.launched_pods import launched_pods
from trainstack.runs.status.launch_kinds import framework_of
from trainstack.runs.status.queued_workloads import queued_workloads as runs_of
from trainstack.stack_objects.stack_objects import StackObjects

Body = Mapping[str, Any]
_KINDS_WITH_SPEC = ("Topology", "ResourceFlavor", "Cohort", "ClusterQueue", "LocalQueue", "LimitRange", "RuntimeClass")
"""Kinds that are passed with their spec."""
_METADATA_KEYS = ("name", "namespace", "uid", "creationTimestamp")
_PREFIX = "kueue.x-k8s.io/"
_NODE_OWNERS = ("DaemonSet", "Node")
"""Owners whose pods are always on their nodes."""


def judge_case(state: QueueState, pods: Iterable[Body], submissions: Iterable[Body], *, idle: bool) -> Body:
    """Return a case in which each workload is judged alone.

    `pods`: the pods that are bound to nodes. `idle`: without admitted workloads, with all nodes ready, and only
    with the pods that belong to a node.
    """
    nodes = [_node(body, ready=idle) for body in state.objects if body["kind"] == "Node" and _is_placeable(state, body)]
    names = {node["metadata"]["name"] for node in nodes}
    bound = (pod for pod in pods if pod["spec"].get("nodeName") in names and not (idle and not _is_bound_to_node(pod)))
    return {
        "objects": [*_objects(state, idle=idle), *nodes, *map(_pod, bound)],
        "submit": list(submissions),
        "alone": True,
        "configuration": _configuration(state),
    }


def run_submissions(stack_objects: StackObjects, model: Model, workloads: Iterable[Workload]) -> dict[str, Body]:
    """Return the Workloads that Kueue would create for these runs of an environment, by key."""
    workloads_by_run = {(workload.path, workload.key): workload for workload in workloads}
    submissions = {}
    for path, run in runs_of(stack_objects.settings):
        workload = workloads_by_run.get((path, f"{run.namespace}/{run.name}"))
        if workload is not None and (run.queue or default_local_queue(model, run.namespace, framework_of(run))):
            try:
                launch, related_objects = stack_objects.queued_objects(run)
            except WorkloadError:
                continue
            submissions[workload.key] = submission(workload, launch, related_objects)
    return submissions


def submission(workload: Workload, launch: Body, related_objects: Iterable[Body] = ()) -> Body:
    """Return the Workload that Kueue would create for a launch. `workload`: as the simulator reads it."""
    pod_sets = []
    for pods, pod_set in zip(launched_pods(launch, related_objects), workload.pod_sets, strict=True):
        template = {key: pods.template[key] for key in ("metadata", "spec") if key in pods.template}
        metadata = template.get("metadata") or {}
        template["metadata"] = {key: metadata[key] for key in ("labels", "annotations") if key in metadata}
        body = {"name": pods.name, "count": pods.count, "template": template}
        if pod_set.min_count is not None:
            body["minCount"] = pod_set.min_count
        if request := topology_request(pods.template):
            body["topologyRequest"] = request
        pod_sets.append(body)
    return {
        "kind": "Workload",
        "metadata": {"name": workload.name, "namespace": workload.namespace},
        "spec": {"queueName": workload.queue, "priority": workload.priority, "podSets": pod_sets},
    }


def pending_submissions(state: QueueState, workloads: Iterable[Workload]) -> dict[str, Body]:
    """Return the cluster's own Workloads, by key."""
    keys = {workload.key for workload in workloads}
    bodies = {_key(body): body for body in state.objects if body["kind"] == "Workload"}
    return {key: _select_fields(bodies[key], "spec", "status") for key in sorted(keys & bodies.keys())}


def _key(body: Body) -> str:
    return f"{body['metadata'].get('namespace', '')}/{body['metadata']['name']}"


def _objects(state: QueueState, *, idle: bool) -> Iterator[Body]:
    checks = state.model.active_checks or {}
    admitted = {admission.workload.key for admission in state.admitted}
    for body in state.objects:
        kind = body["kind"]
        if kind in _KINDS_WITH_SPEC:
            yield _select_fields(body, "spec", *(("handler", "overhead") if kind == "RuntimeClass" else ()))
        elif kind == "Namespace":
            labels = body["metadata"].get("labels") or {}
            yield {"kind": kind, "metadata": {"name": body["metadata"]["name"], "labels": dict(labels)}}
        elif kind == "AdmissionCheck":
            active = {"type": "Active", "status": str(bool(checks.get(body["metadata"]["name"])))}
            yield {**_select_fields(body, "spec"), "status": {"conditions": [active]}}
        elif kind == "Workload" and not idle and _key(body) in admitted:
            yield _select_fields(body, "spec", "status")


def _select_fields(body: Body, *keys: str) -> Body:
    metadata = {key: body["metadata"][key] for key in _METADATA_KEYS if body["metadata"].get(key)}
    return {"kind": body["kind"], "metadata": metadata, **{key: body[key] for key in keys if body.get(key)}}


def _configuration(state: QueueState) -> Body:
    configuration, model = state.configuration or {}, state.model
    resources = {
        key: value for key, value in (configuration.get("resources") or {}).items() if key != "deviceClassMappings"
    }
    timestamp = "Creation" if model.requeues_by_creation else "Eviction"
    fair_sharing = {"fairSharing": {"preemptionStrategies": list(model.fair_sharing)}} if model.fair_sharing else {}
    return {
        **({"resources": resources} if resources else {}),
        **fair_sharing,
        "waitForPodsReady": {"requeuingStrategy": {"timestamp": timestamp}},
        "featureGates": dict(configuration.get("featureGates") or {}),
    }


def _is_placeable(state: QueueState, node: Body) -> bool:
    """Whether a node belongs to a topology of a flavor."""
    labels, topologies = node["metadata"].get("labels") or {}, state.model.topologies or {}
    return any(
        flavor.labels.items() <= labels.items() and labels.keys() >= {*topologies.get(flavor.topology, ())}
        for flavor in (state.model.flavors or {}).values()
        if flavor.topology is not None
    )


def _node(body: Body, *, ready: bool) -> Body:
    spec, status = body.get("spec") or {}, body.get("status") or {}
    conditions = [
        {"type": "Ready", "status": "True" if ready else condition["status"]}
        for condition in status.get("conditions") or ()
        if condition["type"] == "Ready"
    ]
    taints = [
        {key: taint[key] for key in ("key", "value", "effect") if key in taint} for taint in spec.get("taints") or ()
    ]
    return {
        "kind": "Node",
        "metadata": {"name": body["metadata"]["name"], "labels": body["metadata"].get("labels") or {}},
        "spec": {"taints": taints, "unschedulable": bool(spec.get("unschedulable")) and not ready},
        "status": {"allocatable": status.get("allocatable") or {}, "conditions": conditions},
    }


def _pod(body: Body) -> Body:
    metadata, spec = body["metadata"], body["spec"]
    marks = {key: _kueue_marks(metadata[key]) for key in ("labels", "annotations") if metadata.get(key)}
    containers = {key: [*map(_container, spec[key])] for key in ("containers", "initContainers") if spec.get(key)}
    requests = (spec.get("resources") or {}).get("requests")
    resources = {"resources": {"requests": requests}} if requests else {}
    return {
        "kind": "Pod",
        "metadata": {"name": metadata["name"], **marks},
        "spec": {"nodeName": spec["nodeName"], **containers, **resources, "overhead": spec.get("overhead") or {}},
    }


def _kueue_marks(marks: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in marks.items() if key.startswith(_PREFIX)}


def _container(body: Body) -> Body:
    requests = (body.get("resources") or {}).get("requests") or {}
    policy = {"restartPolicy": body["restartPolicy"]} if body.get("restartPolicy") else {}
    return {"name": "", "resources": {"requests": requests}, **policy}


def _is_bound_to_node(pod: Body) -> bool:
    return any(owner["kind"] in _NODE_OWNERS for owner in pod["metadata"].get("ownerReferences") or ())


def pods_without_runs(pods: Iterable[Body], runs: Iterable[tuple[str, str]]) -> list[Body]:
    """Return the pods without those of runs, by namespace and run id: a run does not compete with itself."""
    excluded_runs = set(runs)
    return [
        pod
        for pod in pods
        if (pod["metadata"].get("namespace", ""), (pod["metadata"].get("labels") or {}).get(RUN)) not in excluded_runs
    ]
