"""The application of a run's `podPatch` to its pod template, with the checks of what a patch may not change.

The checks compare the templates before and after the patch, so they do not depend on how the patch is written.
"""

import posixpath
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainstack.objects.labels import Manifest
from trainstack.runs.errors import WorkloadError
from trainstack.runs.manifests.git_init_container import CONTAINER as CHECKOUT
from trainstack.runs.manifests.strategic_merge import merged
from trainstack.runs.pods import NODE
from trainstack.settings.sections.workloads import Workload
from trainstack.settings.values.paths import child

MAIN_CONTAINERS = ("training", "pytorch", NODE, "data-loader")
"""The names by which main containers are found in live pods, unless the workload sets another name."""
_RESERVED = ("kueue.x-k8s.io/", "pulumi.com/", "trainstack.dev/")
"""The prefixes of labels and annotations that select pods, contain their queue, or control the engine."""
_ACCOUNT = "set serviceAccount of the run"
_PRIORITY = "set priority of the run, which Kueue admits it by"
_HOSTNAME = "remove it: replicas find each other by the names that their controller sets"
_OF_POD: Mapping[str, str] = {
    "activeDeadlineSeconds": "set activeDeadlineSeconds of the run",
    "automountServiceAccountToken": _ACCOUNT,
    "ephemeralContainers": "list it under containers or initContainers",
    "hostNetwork": "set hostNetwork of the run",
    "hostname": _HOSTNAME,
    "hostnameOverride": _HOSTNAME,
    "nodeName": "set nodeSelector or affinity, by which Kueue and the scheduler choose nodes",
    "preemptionPolicy": _PRIORITY,
    "priority": _PRIORITY,
    "priorityClassName": _PRIORITY,
    "resourceClaims": "request devices under resources, since quota does not count claims",
    "restartPolicy": "set restartPolicy of the run or its role",
    "schedulingGates": "remove it: Kueue holds pods back until they are admitted",
    "serviceAccount": _ACCOUNT,
    "serviceAccountName": _ACCOUNT,
    "setHostnameAsFQDN": _HOSTNAME,
    "subdomain": _HOSTNAME,
}
"""The remedies by fields of the pod that a patch may not change."""
_OF_MAIN: Mapping[str, str] = {
    "image": "set image of the run, which is part of its identity",
    "command": "set command of the run, which is part of its identity",
    "args": "set args of the run, which are part of its identity",
    "workingDir": "set workingDir of the run, which is part of its identity",
    "restartPolicy": "set restartPolicy of the run or its role",
    "restartPolicyRules": "set restartPolicy of the run or its role",
}
"""The remedies by fields of the main container that a patch may not change."""
_LISTS = {"env": "name", "ports": "containerPort", "volumeMounts": "mountPath"}
"""The merge keys by lists of the main container to which a patch may only add elements."""
_OF_LISTS = {
    "env": "set env or secretEnv of the run",
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

    def __init__(self, workload: str, faults: Sequence[PatchFault]) -> None:
        self.faults = tuple(faults)
        lines = (f"workload {workload}: podPatch.{one.path} {one.problem}; {one.remedy}" for one in faults)
        super().__init__("\n".join(lines))


def patched(
    workload: Workload, template: Manifest, main: str, reserved: Mapping[str, str], variables: Collection[str]
) -> Manifest:
    """Return the template with the workload's patch, its main container first. Raises PodPatchError.

    `main`: the name of the main container. `reserved`: remedies by folders that no mount of the patch may be in or
    contain. `variables`: the names of the variables that the operator sets in the main container.
    """
    if workload.pod_patch is None:
        return template
    result = merged(template, workload.pod_patch)
    before, after = _Parts.of(template, main), _Parts.of(result, main)
    faults = [
        *_changed(before, after, main),
        *_faults_of_env(before, after, main, variables),
        *_faults_of_mounts(before, after, main, reserved),
        *_faults_of_volumes(before, after),
        *_faults_of_containers(workload, before, after, main),
        *_faults_of_stopping(before, after, main),
    ]
    if faults:
        raise PodPatchError(workload.name, faults)
    # Kubernetes tools use the first container by default, and Trainer's fields are read from it.
    containers = sorted(result["spec"]["containers"], key=lambda container: container["name"] != main)
    return {**result, "spec": {**result["spec"], "containers": containers}}


@dataclass(frozen=True)
class _Parts:
    """The parts of a template; absent ones are empty."""

    metadata: Mapping[str, Any]
    spec: Mapping[str, Any]
    main: Mapping[str, Any]
    containers: Mapping[str, Mapping[str, Any]]
    init_containers: Mapping[str, Mapping[str, Any]]
    volumes: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, template: Manifest, main: str) -> "_Parts":
        spec = template.get("spec") or {}
        containers = _by("name", spec.get("containers"))
        return cls(
            metadata=template.get("metadata") or {},
            spec=spec,
            main=containers.get(main, {}),
            containers=containers,
            init_containers=_by("name", spec.get("initContainers")),
            volumes=_by("name", spec.get("volumes")),
        )

    def kept(self, main: str) -> Iterator[tuple[str, Any, str]]:
        """Yield the path, the value and the remedy of what a patch may not change."""
        for field in ("labels", "annotations"):
            for key, value in (self.metadata.get(field) or {}).items():
                if key.startswith(_RESERVED):
                    yield child(f"metadata.{field}", key), value, "set queue, priority or annotations of the run"
        for field, remedy in _OF_POD.items():
            yield f"spec.{field}", self.spec.get(field), remedy
        user = "set runAsUser of the run, which also owns its files"
        yield "spec.securityContext.runAsUser", (self.spec.get("securityContext") or {}).get("runAsUser"), user
        container = f"spec.containers[{main}]"
        context = self.main.get("securityContext") or {}
        yield f"{container}.securityContext.runAsUser", context.get("runAsUser"), user
        for field, remedy in _OF_MAIN.items():
            yield f"{container}.{field}", self.main.get(field), remedy
        checkout = self.init_containers.get(CHECKOUT)
        yield f"spec.initContainers[{CHECKOUT}]", checkout, "set code of the run"


def _by(key: str, listed: Sequence[Mapping[str, Any]] | None) -> dict[Any, Mapping[str, Any]]:
    return {element[key]: element for element in listed or () if key in element}


def _changed(before: _Parts, after: _Parts, main: str) -> Iterator[PatchFault]:
    if not after.main:
        yield PatchFault(f"spec.containers[{main}]", "removes the main container", "keep it, or leave out $patch")
        return
    old, new = ({path: (value, remedy) for path, value, remedy in parts.kept(main)} for parts in (before, after))
    for path in dict.fromkeys([*old, *new]):
        value, remedy = new.get(path) or (None, old[path][1])
        if value != old.get(path, (None, ""))[0]:
            yield PatchFault(path, "may not be changed by a patch", remedy)
    for field, key in _LISTS.items():
        listed = _by(key, after.main.get(field))
        for name, element in _by(key, before.main.get(field)).items():
            if listed.get(name) != element:
                path = f"spec.containers[{main}].{field}[{name}]"
                yield PatchFault(path, "may not be changed by a patch", _OF_LISTS[field])


def _faults_of_env(before: _Parts, after: _Parts, main: str, variables: Collection[str]) -> Iterator[PatchFault]:
    old, new = (_by("name", parts.main.get("env")) for parts in (before, after))
    for name in (name for name in new if name not in old):
        path = f"spec.containers[{main}].env[{name}]"
        if name.startswith("TRAINSTACK_"):
            yield PatchFault(path, "is a variable of the wrapper", _OF_LISTS["env"])
        elif name in variables:
            yield PatchFault(path, "is a variable that the operator sets", "remove it")


def _faults_of_mounts(before: _Parts, after: _Parts, main: str, reserved: Mapping[str, str]) -> Iterator[PatchFault]:
    old, new = (_by("mountPath", parts.main.get("volumeMounts")) for parts in (before, after))
    mounted, folders = {_clean(path) for path in old}, {_clean(path): remedy for path, remedy in reserved.items()}
    for path in (path for path in new if path not in old):
        place, clean = f"spec.containers[{main}].volumeMounts[{path}]", _clean(path)
        if clean in mounted:
            yield PatchFault(place, "is a mount path of the settings", _OF_LISTS["volumeMounts"])
            continue
        for folder, remedy in folders.items():
            if _is_in(clean, folder):
                yield PatchFault(place, f"is in {folder}", remedy)
            elif _is_in(folder, clean):
                yield PatchFault(place, f"contains {folder}", remedy)


def _clean(path: str) -> str:
    # Container runtimes resolve relative paths and paths with `//` or `..` to this path, too.
    return "/" + posixpath.normpath(path).lstrip("/")


def _is_in(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder.rstrip('/')}/")


def _faults_of_volumes(before: _Parts, after: _Parts) -> Iterator[PatchFault]:
    for name, volume in before.volumes.items():
        if after.volumes.get(name) != volume:
            remedy = "set volumes, scratch, sharedMemory or code of the run"
            yield PatchFault(f"spec.volumes[{name}]", "may not be changed by a patch", remedy)
    for name in after.volumes.keys() - before.volumes.keys():
        volume = after.volumes[name]
        if "persistentVolumeClaim" in volume:
            yield PatchFault(f"spec.volumes[{name}].persistentVolumeClaim", "mounts a claim", "list it under volumes")
        sources = (volume.get("projected") or {}).get("sources") or ()
        for credential in _CREDENTIALS:
            if any(credential in source for source in sources):
                yield PatchFault(f"spec.volumes[{name}].projected", f"has a {credential}", _ACCOUNT)


def _faults_of_containers(workload: Workload, before: _Parts, after: _Parts, main: str) -> Iterator[PatchFault]:
    for field, old, new in (
        ("containers", before.containers, after.containers),
        ("initContainers", before.init_containers, after.init_containers),
    ):
        for name in new.keys() - old.keys():
            path = f"spec.{field}[{name}]"
            if name in MAIN_CONTAINERS:
                yield PatchFault(path, "has the name of a main container", "rename it")
            elif workload.container is not None:
                yield PatchFault(path, f"is added to the container {main}", "leave out container of the run")


def _faults_of_stopping(before: _Parts, after: _Parts, main: str) -> Iterator[PatchFault]:
    field = "terminationGracePeriodSeconds"
    least = before.spec.get(field)
    if least is None:  # The run is not managed.
        return
    message, remedy = f"is less than the {least} s that a program has for its checkpoint", "raise it, or remove it"
    if (after.spec.get(field) or 0) < least:
        yield PatchFault(f"spec.{field}", message, remedy)
    container, lifecycle = f"spec.containers[{main}]", after.main.get("lifecycle") or {}
    if "preStop" in lifecycle:
        yield PatchFault(f"{container}.lifecycle.preStop", "takes time from the checkpoint", "remove it")
    if "stopSignal" in lifecycle:
        yield PatchFault(f"{container}.lifecycle.stopSignal", "replaces SIGTERM, which the wrapper awaits", "remove it")
    for probe in ("livenessProbe", "startupProbe"):
        own = (after.main.get(probe) or {}).get(field)
        if own is not None and own < least:
            yield PatchFault(f"{container}.{probe}.{field}", message, remedy)
