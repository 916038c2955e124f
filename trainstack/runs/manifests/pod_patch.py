"""The application of a run's `podPatch` to its pod template, with the checks of what a patch may not change.

The checks compare the templates before and after the patch, so they do not depend on how the patch is written.
"""

import posixpath
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainstack.objects.labels import DEFAULT_CONTAINER, Manifest
from trainstack.runs.errors import WorkloadError
from trainstack.runs.manifests.git_init_container import CHECKOUT_CONTAINER as CHECKOUT
from trainstack.runs.manifests.strategic_merge import merge_patch
from trainstack.runs.role_pods import NODE, RolePods
from trainstack.settings.sections.workloads import Workload
from trainstack.settings.values.paths import child_path

MAIN_CONTAINERS = ("training", "pytorch", NODE, "data-loader")
"""The names by which main containers are found in live pods. Beside further containers, one of another name is found by
an annotation."""
_RESERVED_PREFIXES = ("kueue.x-k8s.io/", "pulumi.com/", "trainstack.dev/")
"""The prefixes of labels and annotations that select pods, contain their queue, or control the engine."""
_ACCOUNT_REMEDY = "set serviceAccount of the run"
_PRIORITY_REMEDY = "set priority of the run, which Kueue admits it by"
_HOSTNAME_REMEDY = "remove it: replicas find each other by the names that their controller sets"
_POD_REMEDIES: Mapping[str, str] = {
    "activeDeadlineSeconds": "set activeDeadlineSeconds of the run",
    "automountServiceAccountToken": _ACCOUNT_REMEDY,
    "ephemeralContainers": "list it under containers or initContainers",
    "hostNetwork": "set hostNetwork of the run",
    "hostname": _HOSTNAME_REMEDY,
    "hostnameOverride": _HOSTNAME_REMEDY,
    "nodeName": "set nodeSelector or affinity, by which Kueue and the scheduler choose nodes",
    "preemptionPolicy": _PRIORITY_REMEDY,
    "priority": _PRIORITY_REMEDY,
    "priorityClassName": "set priorityClassName of the run",
    "resourceClaims": "request devices under resources, since quota does not count claims",
    "restartPolicy": "set restartPolicy of the run or its role",
    "schedulingGates": "remove it: Kueue holds pods back until they are admitted",
    "serviceAccount": _ACCOUNT_REMEDY,
    "serviceAccountName": _ACCOUNT_REMEDY,
    "setHostnameAsFQDN": _HOSTNAME_REMEDY,
    "subdomain": _HOSTNAME_REMEDY,
}
"""The remedies by fields of the pod that a patch may not change."""
_MAIN_CONTAINER_REMEDIES: Mapping[str, str] = {
    "image": "set image of the run, which is part of its identity",
    "command": "set command of the run, which is part of its identity",
    "args": "set args of the run, which are part of its identity",
    "workingDir": "set workingDir of the run, which is part of its identity",
    "restartPolicy": "set restartPolicy of the run or its role",
    "restartPolicyRules": "set restartPolicy of the run or its role",
}
"""The remedies by fields of the main container that a patch may not change."""
_LIST_KEYS = {"env": "name", "ports": "containerPort", "volumeMounts": "mountPath"}
"""The merge keys by lists of the main container to which a patch may only add elements."""
_LIST_REMEDIES = {
    "env": "set env, secretEnv or fieldEnv of the run",
    "ports": "remove it: the operator uses the port",
    "volumeMounts": "set volumes, scratch, sharedMemory or code of the run",
}
_CREDENTIALS = ("podCertificate", "serviceAccountToken")
"""The projected sources by which a pod authenticates to the API server."""


@dataclass(frozen=True)
class PatchFault:
    """A change of the template that a patch may not make."""

    path: str
    """The path relative to the pod template, such as `spec.containers[training].image`."""
    problem: str
    remedy: str


class PodPatchError(WorkloadError):
    """The faults of a workload's `podPatch`."""

    def __init__(self, workload: str, role: str, faults: Sequence[PatchFault]) -> None:
        self.role, self.faults = role, tuple(faults)
        lines = (f"workload {workload}: podPatch.{fault.path} {fault.problem}; {fault.remedy}" for fault in faults)
        super().__init__("\n".join(lines))


def apply_pod_patch(
    workload: Workload,
    pod: RolePods,
    template: Manifest,
    main: str,
    reserved: Mapping[str, str],
    variables: Collection[str],
    scratch_volumes: Mapping[str, str],
) -> Manifest:
    """Return the template with the patch of a role's pods, its main container first. Raises PodPatchError.

    `main`: the name of the main container. `reserved`: remedies by folders that no mount of the patch may be in or
    contain. `variables`: the names of the variables that the operator sets in the main container. `scratch_volumes`:
    the names of scratch volumes in the template, by those in the settings.
    """
    if pod.pod_patch is None:
        return template
    result = _with_scratch_volumes(merge_patch(template, pod.pod_patch), scratch_volumes)
    original, patched = _TemplateParts.from_template(template, main), _TemplateParts.from_template(result, main)
    faults = [
        *_faults_of_changes(original, patched, main),
        *_faults_of_env(original, patched, main, variables),
        *_faults_of_mounts(original, patched, main, reserved),
        *_faults_of_volumes(original, patched),
        *_faults_of_containers(original, patched, main),
        *_faults_of_stopping(original, patched, main),
    ]
    if faults:
        raise PodPatchError(workload.name, pod.role, faults)
    # Kubernetes tools use the first container by default, and Trainer's fields are read from it.
    containers = sorted(result["spec"]["containers"], key=lambda container: container["name"] != main)
    if main not in MAIN_CONTAINERS and len(containers) > 1:
        annotations = {**(result["metadata"].get("annotations") or {}), DEFAULT_CONTAINER: main}
        result = {**result, "metadata": {**result["metadata"], "annotations": annotations}}
    return {**result, "spec": {**result["spec"], "containers": containers}}


def _with_scratch_volumes(template: Manifest, scratch_volumes: Mapping[str, str]) -> Manifest:
    """Return the template with mounts of scratch volumes by the names in the settings.

    A volume of the template that has such a name takes precedence. The volumes themselves keep their names, so that
    launches keep theirs.
    """
    spec = template.get("spec") or {}
    volumes = _index_by("name", spec.get("volumes"))
    aliases = {name: volume for name, volume in scratch_volumes.items() if name not in volumes and volume in volumes}

    def mount_by_alias(container: Mapping[str, Any]) -> Mapping[str, Any]:
        mounts = [
            {**mount, "name": aliases[mount["name"]]} if mount.get("name") in aliases else mount
            for mount in container.get("volumeMounts") or ()
        ]
        return {**container, "volumeMounts": mounts} if mounts else container

    containers = {
        field: list(map(mount_by_alias, spec[field])) for field in ("initContainers", "containers") if spec.get(field)
    }
    return {**template, "spec": {**spec, **containers}} if aliases else template


@dataclass(frozen=True)
class _TemplateParts:
    """The parts of a template; absent ones are empty."""

    metadata: Mapping[str, Any]
    spec: Mapping[str, Any]
    main: Mapping[str, Any]
    containers: Mapping[str, Mapping[str, Any]]
    init_containers: Mapping[str, Mapping[str, Any]]
    volumes: Mapping[str, Mapping[str, Any]]

    @classmethod
    def from_template(cls, template: Manifest, main: str) -> "_TemplateParts":
        spec = template.get("spec") or {}
        containers = _index_by("name", spec.get("containers"))
        return cls(
            metadata=template.get("metadata") or {},
            spec=spec,
            main=containers.get(main, {}),
            containers=containers,
            init_containers=_index_by("name", spec.get("initContainers")),
            volumes=_index_by("name", spec.get("volumes")),
        )

    def protected_values(self, main: str) -> Iterator[tuple[str, Any, str]]:
        """Yield the path, the value and the remedy of what a patch may not change."""
        for field in ("labels", "annotations"):
            for key, value in (self.metadata.get(field) or {}).items():
                if key.startswith(_RESERVED_PREFIXES):
                    yield child_path(f"metadata.{field}", key), value, "set queue, priority or annotations of the run"
        for field, remedy in _POD_REMEDIES.items():
            yield f"spec.{field}", self.spec.get(field), remedy
        user = "set runAsUser of the run, which also owns its files"
        yield "spec.securityContext.runAsUser", (self.spec.get("securityContext") or {}).get("runAsUser"), user
        container = f"spec.containers[{main}]"
        context = self.main.get("securityContext") or {}
        yield f"{container}.securityContext.runAsUser", context.get("runAsUser"), user
        for field, remedy in _MAIN_CONTAINER_REMEDIES.items():
            yield f"{container}.{field}", self.main.get(field), remedy
        checkout = self.init_containers.get(CHECKOUT)
        yield f"spec.initContainers[{CHECKOUT}]", checkout, "set code of the run"


def _index_by(key: str, elements: Sequence[Mapping[str, Any]] | None) -> dict[Any, Mapping[str, Any]]:
    return {element[key]: element for element in elements or () if key in element}


def _faults_of_changes(original: _TemplateParts, patched: _TemplateParts, main: str) -> Iterator[PatchFault]:
    if not patched.main:
        yield PatchFault(f"spec.containers[{main}]", "removes the main container", "keep it, or leave out $patch")
        return
    old, new = (
        {path: (value, remedy) for path, value, remedy in parts.protected_values(main)} for parts in (original, patched)
    )
    for path in dict.fromkeys([*old, *new]):
        value, remedy = new.get(path) or (None, old[path][1])
        if value != old.get(path, (None, ""))[0]:
            yield PatchFault(path, "may not be changed by a patch", remedy)
    for field, key in _LIST_KEYS.items():
        patched_elements = _index_by(key, patched.main.get(field))
        for name, element in _index_by(key, original.main.get(field)).items():
            if patched_elements.get(name) != element:
                path = f"spec.containers[{main}].{field}[{name}]"
                yield PatchFault(path, "may not be changed by a patch", _LIST_REMEDIES[field])


def _faults_of_env(
    original: _TemplateParts, patched: _TemplateParts, main: str, variables: Collection[str]
) -> Iterator[PatchFault]:
    old, new = (_index_by("name", parts.main.get("env")) for parts in (original, patched))
    for name in (name for name in new if name not in old):
        path = f"spec.containers[{main}].env[{name}]"
        if name.startswith("TRAINSTACK_"):
            yield PatchFault(path, "is a variable of the wrapper", _LIST_REMEDIES["env"])
        elif name in variables:
            yield PatchFault(path, "is a variable that the operator sets", "remove it")


def _faults_of_mounts(
    original: _TemplateParts, patched: _TemplateParts, main: str, reserved: Mapping[str, str]
) -> Iterator[PatchFault]:
    old, new = (_index_by("mountPath", parts.main.get("volumeMounts")) for parts in (original, patched))
    mounted, folders = (
        {_normalize_path(path) for path in old},
        {_normalize_path(path): remedy for path, remedy in reserved.items()},
    )
    for path in (path for path in new if path not in old):
        fault_path, normalized = f"spec.containers[{main}].volumeMounts[{path}]", _normalize_path(path)
        if normalized in mounted:
            yield PatchFault(fault_path, "is a mount path of the settings", _LIST_REMEDIES["volumeMounts"])
            continue
        for folder, remedy in folders.items():
            if _is_inside(normalized, folder):
                yield PatchFault(fault_path, f"is in {folder}", remedy)
            elif _is_inside(folder, normalized):
                yield PatchFault(fault_path, f"contains {folder}", remedy)


def _normalize_path(path: str) -> str:
    # Container runtimes resolve relative paths and paths with `//` or `..` to this path, too.
    return "/" + posixpath.normpath(path).lstrip("/")


def _is_inside(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder.rstrip('/')}/")


def _faults_of_volumes(original: _TemplateParts, patched: _TemplateParts) -> Iterator[PatchFault]:
    for name, volume in original.volumes.items():
        if patched.volumes.get(name) != volume:
            remedy = "set volumes, scratch, sharedMemory or code of the run"
            yield PatchFault(f"spec.volumes[{name}]", "may not be changed by a patch", remedy)
    for name in sorted(patched.volumes.keys() - original.volumes.keys()):
        volume = patched.volumes[name]
        if "persistentVolumeClaim" in volume:
            yield PatchFault(f"spec.volumes[{name}].persistentVolumeClaim", "mounts a claim", "list it under volumes")
        sources = (volume.get("projected") or {}).get("sources") or ()
        for credential in _CREDENTIALS:
            if any(credential in source for source in sources):
                yield PatchFault(f"spec.volumes[{name}].projected", f"has a {credential}", _ACCOUNT_REMEDY)


def _faults_of_containers(original: _TemplateParts, patched: _TemplateParts, main: str) -> Iterator[PatchFault]:
    default = (patched.metadata.get("annotations") or {}).get(DEFAULT_CONTAINER, main)
    if default != main and main not in MAIN_CONTAINERS and len(patched.containers) > 1:
        path = child_path("metadata.annotations", DEFAULT_CONTAINER)
        yield PatchFault(path, f"is {default}, but commands find the main container {main} by it", "leave it out")
    for field, old, new in (
        ("containers", original.containers, patched.containers),
        ("initContainers", original.init_containers, patched.init_containers),
    ):
        for name in new.keys() - old.keys():
            if name in MAIN_CONTAINERS:
                yield PatchFault(f"spec.{field}[{name}]", "has the name of a main container", "rename it")


def _faults_of_stopping(original: _TemplateParts, patched: _TemplateParts, main: str) -> Iterator[PatchFault]:
    field = "terminationGracePeriodSeconds"
    minimum = original.spec.get(field)
    if minimum is None:  # The run is not managed.
        return
    message, remedy = f"is less than the {minimum} s that a program has for its checkpoint", "raise it, or remove it"
    if (patched.spec.get(field) or 0) < minimum:
        yield PatchFault(f"spec.{field}", message, remedy)
    container, lifecycle = f"spec.containers[{main}]", patched.main.get("lifecycle") or {}
    if "preStop" in lifecycle:
        yield PatchFault(f"{container}.lifecycle.preStop", "takes time from the checkpoint", "remove it")
    if "stopSignal" in lifecycle:
        yield PatchFault(f"{container}.lifecycle.stopSignal", "replaces SIGTERM, which the wrapper awaits", "remove it")
    for probe in ("livenessProbe", "startupProbe"):
        probe_seconds = (patched.main.get(probe) or {}).get(field)
        if probe_seconds is not None and probe_seconds < minimum:
            yield PatchFault(f"{container}.{probe}.{field}", message, remedy)
