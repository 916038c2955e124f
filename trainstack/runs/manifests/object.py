"""A workload as an object of any kind without a module here, given the paths of its pod templates."""

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from trainstack.objects import labels
from trainstack.objects.labels import Manifest
from trainstack.runs.errors import WorkloadError
from trainstack.runs.launch import Launch
from trainstack.runs.launch_object import launch_object
from trainstack.runs.manifests.kind import (
    FAILED_CONDITIONS,
    SUCCEEDED_CONDITIONS,
    Body,
    LaunchedPods,
    Replicas,
    RunPodSet,
    WorkloadKind,
    count_replicas,
    role_pod_sets,
    status_conditions,
)
from trainstack.runs.manifests.pod_template import TRAINING_CONTAINER, pod_template
from trainstack.runs.role_pods import RolePods, role_pods
from trainstack.settings.base import Section
from trainstack.settings.sections.kueue_object import KueueObject, ObjectPods, StatusValues
from trainstack.settings.sections.workloads import Workload
from trainstack.settings.values.field_paths import put_at, value_at


def kueue_object(workload: Workload, stack: str, launch: Launch) -> Manifest:
    """Return the object, without the field by which Kueue suspends it.

    Its annotation contains the settings that are needed to read it back. Raises WorkloadError.
    """
    object_settings = _object_settings(workload)
    annotations = annotations_of_object(object_settings)
    spec = copy.deepcopy(object_settings.spec)
    body = launch_object(object_settings.kind, object_settings.api_version, workload, stack, launch, spec, annotations)
    pods_by_role = {pod.role: pod for pod in role_pods(workload)}
    for entry in object_settings.pods:
        pod = pods_by_role[entry.name]
        put_at(body, entry.template, _template(workload, pod, launch))
        if entry.replicas is not None:
            put_at(body, entry.replicas, pod.replicas)
    return body


def annotations_of_object(object_settings: KueueObject) -> dict[str, str]:
    """Return the annotation with the settings that are needed to read an object back."""
    fields = object_settings.model_dump(mode="json", exclude_none=True, include={"pods", "succeeded", "failed"})
    return {labels.OBJECT: json.dumps(fields, separators=(",", ":"))}


def _object_settings(workload: Workload) -> KueueObject:
    if workload.object is None:
        raise WorkloadError(f"workload {workload.name}: an Object needs `object`; add it")
    return workload.object


def _template(workload: Workload, pod: RolePods, launch: Launch) -> Manifest:
    template = pod_template(workload, pod, launch, container=TRAINING_CONTAINER, restart_policy=pod.restart_policy)
    template["metadata"]["labels"] = {**template["metadata"]["labels"], labels.ROLE: pod.role}
    return template


def _derived_names(launch: Body, name: str) -> list[str]:
    return [f"{name}-{pods.name}-{pods.count - 1}" for pods in _launched_pods(launch)]


def _launched_pods(launch: Body, _: tuple[Body, ...] = ()) -> Iterator[LaunchedPods]:
    for entry in _annotation_fields(launch).pods:
        template = value_at(launch, entry.template)
        count = None if entry.replicas is None else value_at(launch, entry.replicas)
        # The API server drops unknown fields, so a wrong path leaves no template in the live object.
        if isinstance(template, Mapping) and isinstance(template.get("spec"), Mapping):
            counts = {entry.replicas: count} if entry.replicas is not None and isinstance(count, int) else {}
            yield LaunchedPods(entry.name, count if isinstance(count, int) else 1, template, entry.template, counts)


class _AnnotationFields(Section):
    """The settings in the annotation of an object."""

    pods: tuple[ObjectPods, ...] = ()
    succeeded: StatusValues | None = None
    failed: StatusValues | None = None


def _annotation_fields(launch: Body) -> _AnnotationFields:
    """Return the settings in the annotation; empty ones if it is missing or invalid."""
    try:
        return _AnnotationFields.model_validate_json(
            (launch["metadata"].get("annotations") or {}).get(labels.OBJECT, "{}")
        )
    except ValidationError:
        return _AnnotationFields()


def _conditions(launch: Body) -> Sequence[Body]:
    """Return the conditions of the status, and its phase as a condition.

    If `succeeded` or `failed` is set, its field of the status replaces the conditions for that end.
    """
    fields, status = _annotation_fields(launch), launch.get("status") or {}
    listed_conditions: Sequence[Any] = status_conditions(launch)
    conditions: list[Body] = [
        condition
        for condition in listed_conditions
        if isinstance(condition, Mapping) and condition.keys() >= {"type", "status"}
    ]
    if isinstance(phase := status.get("phase"), str):
        conditions.append({"type": phase, "status": "True"})
    for end_type, types, field in (
        ("Succeeded", SUCCEEDED_CONDITIONS, fields.succeeded),
        ("Failed", FAILED_CONDITIONS, fields.failed),
    ):
        if field is not None:
            conditions = [condition for condition in conditions if condition["type"] not in types]
            conditions += [{"type": end_type, "status": "True"}] if value_at(launch, field.path) in field.values else []
    return conditions


def _pod_sets(path: str, run: Workload) -> Iterator[RunPodSet]:
    return role_pod_sets(path, run, [entry.name for entry in _object_settings(run).pods])


def _replicas(body: Body) -> tuple[Replicas, ...]:
    """Return the replicas by role. Counts are 0 unless the status has Kubeflow's `replicaStatuses`."""
    replica_statuses = (body.get("status") or {}).get("replicaStatuses") or {}
    states = replica_statuses.items() if isinstance(replica_statuses, Mapping) else ()
    status_by_role = {str(role).lower(): state for role, state in states if isinstance(state, Mapping)}
    return tuple(
        count_replicas(pods.name, pods.count, status_by_role.get(pods.name, {})) for pods in _launched_pods(body)
    )


OBJECT = WorkloadKind(
    build=kueue_object,
    derived_names=_derived_names,
    service_note="its operator may give it a Service",
    launched_pods=_launched_pods,
    pod_sets=_pod_sets,
    # The API version and the framework are settings of the workload.
    api_version="",
    framework="",
    role_label=labels.ROLE,
    replicas=_replicas,
    conditions=_conditions,
)
