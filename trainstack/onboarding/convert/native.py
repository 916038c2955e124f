"""Jobs and PyTorchJobs as settings instead of a manifest, if the settings render every field of the object."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from trainstack.objects.labels import PRIORITY, QUEUE
from trainstack.onboarding.convert.comparison import compare
from trainstack.onboarding.convert.documents import InputObject
from trainstack.runs.errors import WorkloadError
from trainstack.runs.identity import PLACEHOLDER_FACTS
from trainstack.runs.launch import Launch
from trainstack.runs.manifests.build import manifest
from trainstack.settings.sections.workloads import Workload

Fields = dict[str, Any]

_JOB_FIELDS = ("backoffLimit", "completions", "parallelism", "activeDeadlineSeconds", "ttlSecondsAfterFinished")
_RUN_POLICY_FIELDS = ("cleanPodPolicy", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished")
_POD_FIELDS = ("nodeSelector", "tolerations", "affinity", "hostNetwork")
_CONTAINER_FIELDS = ("imagePullPolicy", "command", "args", "workingDir", "resources")
_ROLE_FIELDS = ("args", "env", "volumes", "resources", "annotations")
"""The fields that a role may have in place of the workload's."""


def native_settings(source: InputObject, namespace: str, stack: str) -> tuple[Fields, Fields] | None:
    """Return the settings of a workload and of its run; None if they do not say everything that the object has.

    `namespace`: that of an object whose file has none. `stack`: the owner.
    """
    builders = {("batch", "Job"): _job, ("kubeflow.org", "PyTorchJob"): _pytorchjob}
    builder = builders.get((source.group, source.kind))
    if builder is None or "name" not in source.metadata:
        return None
    labels = source.metadata.get("labels") or {}
    run = {"namespace": source.namespace or namespace, "naming": "fixed"}
    run |= {key: labels[label] for key, label in (("queue", QUEUE), ("priority", PRIORITY)) if label in labels}
    own_labels = {key: value for key, value in labels.items() if key not in (QUEUE, PRIORITY)}
    try:
        workload = {"kind": source.kind, "managed": False, "security": "baseline", **builder(source.body["spec"])}
        workload |= {"labels": own_labels} if own_labels else {}
        return (workload, run) if _is_complete(source, {**workload, **run, "name": source.name}, stack) else None
    except (AttributeError, KeyError, TypeError, ValueError):
        return None  # The pods have several containers, or another form than the API's.


def _is_complete(source: InputObject, settings: Fields, stack: str) -> bool:
    try:
        workload = Workload.model_validate(_lists_to_tuples(settings), by_alias=True, by_name=False)
        facts = replace(PLACEHOLDER_FACTS, image=str(workload.image.name))
        rendered = manifest(workload, stack, Launch(run_id=workload.name, name=workload.name, facts=facts))
    except (ValidationError, WorkloadError):
        return False
    return compare(source.body, rendered).is_complete


def _job(spec: Mapping[str, Any]) -> Fields:
    return {**_pick(spec, _JOB_FIELDS), **_pods(spec["template"]), **_restart_policy(spec["template"]["spec"])}


def _pytorchjob(spec: Mapping[str, Any]) -> Fields:
    """Return the settings of the first role, with what differs in the other roles."""
    pods_by_role = {name: _pods(role["template"]) for name, role in sorted(spec["pytorchReplicaSpecs"].items())}
    shared = next(iter(pods_by_role.values()))
    shared.pop("container")  # The operator requires its name.
    roles = {}
    for name, role in sorted(spec["pytorchReplicaSpecs"].items()):
        own_fields = {key: pods_by_role[name].get(key, _EMPTY[key]) for key in _ROLE_FIELDS}
        different = {key: value for key, value in own_fields.items() if value != shared.get(key, _EMPTY[key])}
        roles[name] = {**_pick(role, ("replicas", "restartPolicy")), **different}
    return {
        **_pick(spec, ("nprocPerNode",)),
        **_pick(spec.get("runPolicy") or {}, _RUN_POLICY_FIELDS),
        **shared,
        "roles": roles,
    }


_EMPTY: Mapping[str, Any] = {"args": [], "env": {}, "volumes": [], "resources": {}, "annotations": {}}


def _pods(template: Mapping[str, Any]) -> Fields:
    """Return the settings of a pod template, as far as there are any: the comparison finds what is missing."""
    spec = template["spec"]
    (container,) = spec["containers"]
    variables = container.get("env") or ()
    result: Fields = {
        "container": container["name"],
        "image": {"name": container["image"]},
        **_pick(container, _CONTAINER_FIELDS),
        "env": {item["name"]: item["value"] for item in variables if "value" in item},
        "secretEnv": dict(_secret_variables(variables)),
        "volumes": list(_mounts(spec, container)),
        **_pick(spec, _POD_FIELDS),
        "imagePullSecrets": [item["name"] for item in spec.get("imagePullSecrets") or ()],
        "annotations": dict((template.get("metadata") or {}).get("annotations") or {}),
    }
    if "serviceAccountName" in spec:
        result["serviceAccount"] = spec["serviceAccountName"]
    if "runAsUser" in (spec.get("securityContext") or {}):
        result["runAsUser"] = spec["securityContext"]["runAsUser"]
    return {key: value for key, value in result.items() if value not in ([], {})}


def _secret_variables(variables: Any) -> Iterator[tuple[str, Fields]]:
    for item in variables:
        if reference := (item.get("valueFrom") or {}).get("secretKeyRef"):
            yield item["name"], {"secret": reference["name"], "key": reference["key"]}


def _mounts(spec: Mapping[str, Any], container: Mapping[str, Any]) -> Iterator[Fields]:
    claims = {
        volume["name"]: volume["persistentVolumeClaim"]["claimName"]
        for volume in spec.get("volumes") or ()
        if "persistentVolumeClaim" in volume
    }
    for mount in container.get("volumeMounts") or ():
        if mount["name"] in claims:
            yield {"volume": claims[mount["name"]], **_pick(mount, ("mountPath", "readOnly"))}


def _restart_policy(spec: Mapping[str, Any]) -> Fields:
    return _pick(spec, ("restartPolicy",))


def _pick(fields: Mapping[str, Any], keys: tuple[str, ...]) -> Fields:
    return {key: fields[key] for key in keys if key in fields}


def _lists_to_tuples(value: Any) -> Any:
    """Return a value of a file in the form in which the settings are validated."""
    if isinstance(value, Mapping):
        return {key: _lists_to_tuples(item) for key, item in value.items()}
    return tuple(map(_lists_to_tuples, value)) if isinstance(value, list) else value
