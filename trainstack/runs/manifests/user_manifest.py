"""The launch of a workload that is a manifest: the object as its author wrote it, with Trainstack's additions."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from trainstack.objects import labels
from trainstack.objects.labels import Manifest
from trainstack.runs.errors import WorkloadError
from trainstack.runs.launch import Launch
from trainstack.runs.launch_object import launch_object
from trainstack.runs.manifests.kind import Body, LaunchedPods, RunPodSet, WorkloadKind
from trainstack.runs.manifests.object import annotations_of_object
from trainstack.runs.manifests.pod_template import (
    WRAPPER_VOLUME,
    launch_labels,
    wrapper_command,
    wrapper_env,
    wrapper_mount,
    wrapper_volume,
)
from trainstack.runs.manifests.pytorchjob import PYTORCH_CONTAINER
from trainstack.runs.manifests.registry import WORKLOAD_KINDS
from trainstack.runs.manifests.strategic_merge import merge_patch
from trainstack.runs.manifests.sweep_pod import sweep_env, sweep_mounts, sweep_volumes
from trainstack.runs.role_pods import NODE, RolePods
from trainstack.settings.base import Toleration
from trainstack.settings.sections.affinity import Affinity
from trainstack.settings.sections.workloads import Mount, Resources, Workload
from trainstack.settings.values.paths import named_element_paths
from trainstack.settings.values.pod_patch import canonical_amount, canonical_fields

T = TypeVar("T")

_TOLERATIONS, _AFFINITY = TypeAdapter(tuple[Toleration, ...]), TypeAdapter(Affinity | None)

_REQUIRED_CONTAINERS = (PYTORCH_CONTAINER, NODE)
"""The names by which operators find the container with the program."""
_SECRET_REFERENCES = ("secretKeyRef", "secretRef", "secret")
"""The fields of a variable, of a source of variables and of a volume that refer to a Secret."""
_WAITED_KINDS = ("Job", "Pod")
"""The kinds for whose end the engine would wait."""


def manifest_launch(workload: Workload, stack: str, launch: Launch) -> Manifest:
    """Return the object of a launch: the workload's manifest with additions. Raises WorkloadError.

    The additions are listed in docs/decisions/0032-workloads-as-manifests.md.
    """
    body = deepcopy(_manifest_as_kind(workload))
    spec = body["spec"]
    own_template_labels = _labels_of_template(body)
    if workload.queue is not None:
        for section in (spec, spec.get("runPolicy")):
            if isinstance(section, dict):
                section.pop("suspend", None)
    recorder: RolePods | None = None
    for pods in pods_of_manifest(workload, body):
        if pods.path is not None:
            recorder = _complete_pods(workload, pods, launch, recorder)
    own_metadata = body.get("metadata") or {}
    own_labels = own_metadata.get("labels") or own_template_labels
    annotations = {**(own_metadata.get("annotations") or {})}
    if body["kind"] in _WAITED_KINDS:
        annotations[labels.SKIP_AWAIT] = "true"
    added = launch_object(body["kind"], body["apiVersion"], workload, stack, launch, body["spec"], annotations)
    metadata = {
        **{key: value for key, value in own_metadata.items() if key not in ("name", "generateName")},
        **added["metadata"],
        "labels": {**own_labels, **added["metadata"]["labels"]},
    }
    return {**body, **added, "metadata": metadata}


def _labels_of_template(body: Body) -> Body:
    """Return the labels that the API server gives a Job without labels: those of its template."""
    template = (body["spec"].get("template") or {}) if body["kind"] == "Job" else {}
    return {**((template.get("metadata") or {}).get("labels") or {})}


def pods_of_manifest(workload: Workload, body: Body | None = None) -> tuple[LaunchedPods, ...]:
    """Return the pods of a workload's manifest, or of a copy of it, whose templates are then parts of the copy.

    Raises WorkloadError if the manifest lacks what its kind needs.
    """
    body = _manifest_as_kind(workload) if body is None else body
    kind = _kind(workload)
    try:
        return tuple(kind.launched_pods(body, ()))
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        problem = f"lacks {error.args[0]}" if isinstance(error, KeyError) else f"has another form ({error})"
        raise WorkloadError(
            f"workload {workload.name}: its manifest of kind {body['kind']} {problem}",
            "write it as `kubectl create --dry-run=server` accepts it",
        ) from error


def main_container(workload: Workload, template: Body) -> Manifest:
    """Return the container of a template that runs the program. Raises WorkloadError if `container` names none."""
    containers: Sequence[Manifest] = template["spec"].get("containers") or ()
    names = [container.get("name") for container in containers]
    if not containers:
        raise WorkloadError(f"workload {workload.name}: a pod of its manifest has no container", "add one")
    if workload.container is not None:
        if workload.container not in names:
            raise WorkloadError(
                f"workload {workload.name}: its manifest has no container {workload.container}",
                f"set container to one of {', '.join(map(str, names))}",
            )
        return containers[names.index(workload.container)]
    index = next((index for index, name in enumerate(names) if name in _REQUIRED_CONTAINERS), 0)
    return containers[index]


def first_image(workload: Workload) -> str:
    """Return the image that runs the program of a manifest; empty if the manifest does not name it.

    Raises WorkloadError.
    """
    pods = next(iter(pods_of_manifest(workload)), None)
    return "" if pods is None else str(main_container(workload, pods.template).get("image", ""))


@dataclass(frozen=True)
class ManifestImage:
    """An image that a workload's manifest names."""

    path: str
    """The path of the setting."""
    reference: str


def images_of_manifest(path: str, workload: Workload) -> Iterator[ManifestImage]:
    """Yield the images of the containers and of the image volumes of the workload at a path of the settings.

    None if the workload has no manifest. Raises WorkloadError.
    """
    for pods in pods_of_manifest(workload) if workload.manifest is not None else ():
        spec_path = _spec_path(path, pods)
        for field in ("initContainers", "containers"):
            for container_path, container in _named_elements(f"{spec_path}.{field}", pods.spec.get(field)):
                if image := container.get("image"):
                    yield ManifestImage(f"{container_path}.image", str(image))
        for volume_path, volume in _named_elements(f"{spec_path}.volumes", pods.spec.get("volumes")):
            if reference := (volume.get("image") or {}).get("reference"):
                yield ManifestImage(f"{volume_path}.image.reference", str(reference))


def needs_image_user(workload: Workload) -> bool:
    """Return whether a container of a manifest must not run as root, and has the user of its image.

    Raises WorkloadError.
    """
    specs = [pods.spec for pods in pods_of_manifest(workload) if pods.path is not None]
    return any(_has_image_user(spec, container) for spec in specs for container in spec.get("containers") or ())


def _has_image_user(spec: Body, container: Body) -> bool:
    contexts = [part.get("securityContext") or {} for part in (container, spec)]
    users, non_root = (
        [context[name] for context in contexts if context.get(name) is not None]
        for name in ("runAsUser", "runAsNonRoot")
    )
    return not users and non_root[:1] == [True]


def secrets_of_manifest(path: str, workload: Workload) -> Iterator[tuple[str, str]]:
    """Yield the path and the name of each Secret that the pods of a manifest need; none without a manifest.

    `path`: that of the workload in the settings. Raises WorkloadError.
    """
    for pods in pods_of_manifest(workload) if workload.manifest is not None else ():
        spec_path = _spec_path(path, pods)
        for index, secret in enumerate(pods.spec.get("imagePullSecrets") or ()):
            yield f"{spec_path}.imagePullSecrets[{index}]", secret["name"]
        for part_path, part in _parts_with_references(spec_path, pods.spec):
            for key in _SECRET_REFERENCES:
                reference = part.get(key)
                if reference is not None and not reference.get("optional"):
                    yield f"{part_path}.{key}", reference.get("name") or reference.get("secretName") or ""


def _parts_with_references(path: str, spec: Body) -> Iterator[tuple[str, Body]]:
    """Yield the sources of variables and volumes of a pod, with their paths."""
    for field in ("initContainers", "containers"):
        for container_path, container in _named_elements(f"{path}.{field}", spec.get(field)):
            for variable_path, variable in _named_elements(f"{container_path}.env", container.get("env")):
                yield f"{variable_path}.valueFrom", variable.get("valueFrom") or {}
            yield from _named_elements(f"{container_path}.envFrom", container.get("envFrom"))
    for volume_path, volume in _named_elements(f"{path}.volumes", spec.get("volumes")):
        yield volume_path, volume
        yield from _named_elements(f"{volume_path}.projected.sources", (volume.get("projected") or {}).get("sources"))


def manifest_pod_sets(path: str, workload: Workload) -> Iterator[RunPodSet]:
    """Yield the pod sets of a workload with a manifest, with the paths of their values in the manifest.

    Raises WorkloadError.
    """
    for pods in pods_of_manifest(workload):
        if pods.path is None:
            yield _pod_set_of_runtime(path, pods)
            continue
        spec_path = _spec_path(path, pods)
        container = main_container(workload, pods.template)
        claims = [*_claim_mounts(f"{spec_path}.volumes", pods.spec)]
        names = [item.get("name") for item in pods.spec["containers"]]
        containers_path = list(named_element_paths(f"{spec_path}.containers", names))
        container_path = containers_path[names.index(container.get("name"))]
        yield RunPodSet(
            path=spec_path,
            name=pods.name,
            count=pods.count,
            resources=_resources(container),
            resources_path=f"{container_path}.resources",
            mounts=tuple(mount for _, mount in claims),
            mounts_path=f"{spec_path}.volumes",
            claim_paths=tuple(path for path, _ in claims),
            settings=replace(
                _role_pods(pods, container),
                node_selector=pods.spec.get("nodeSelector") or {},
                tolerations=_parse(_TOLERATIONS, pods.spec.get("tolerations") or ()) or (),
                affinity=_parse(_AFFINITY, pods.spec.get("affinity") or None),
                pod_patch=pods.template,
            ),
            run_path=path,
            template_path=spec_path.removesuffix(".spec"),
        )


def _pod_set_of_runtime(path: str, pods: LaunchedPods) -> RunPodSet:
    """Return the pod set of the nodes of a TrainJob, whose pods are in a runtime."""
    (container,) = pods.spec["containers"]
    return RunPodSet(
        path=f"{path}.manifest.spec",
        name=pods.name,
        count=pods.count,
        resources=_resources(container),
        resources_path=f"{path}.manifest.spec.trainer.resourcesPerNode",
        mounts=(),
        mounts_path=f"{path}.manifest.spec",
        settings=_role_pods(pods, container),
        run_path=path,
    )


def _parse(adapter: TypeAdapter[T], value: Any) -> T | None:
    """Return a value of a manifest in the form of the settings; None if the settings do not have this form."""
    try:
        return adapter.validate_json(to_json(value))
    except ValidationError:
        return None


def _spec_path(path: str, pods: LaunchedPods) -> str:
    return f"{path}.manifest.{pods.path}.spec" if pods.path else f"{path}.manifest.spec"


def _named_elements(path: str, elements: Sequence[Body] | None) -> Iterator[tuple[str, Body]]:
    items = elements or ()
    return zip(named_element_paths(path, [item.get("name") for item in items]), items, strict=True)


def _resources(container: Body) -> Resources:
    """Return the requests and limits of a container, as far as they are amounts."""
    amounts = container.get("resources") or {}
    requests, limits = (
        {name: str(canonical_amount(amount)) for name, amount in (amounts.get(key) or {}).items()}
        for key in ("requests", "limits")
    )
    return Resources.model_construct(requests=requests, limits=limits)


def _claim_mounts(path: str, spec: Body) -> Iterator[tuple[str, Mount]]:
    """Yield the claims among the volumes of a pod at a path, each with its path and its first mount in a container."""
    for volume_path, volume in _named_elements(path, spec.get("volumes")):
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim is None:
            continue
        mounts = [
            mount
            for field in ("containers", "initContainers")
            for container in spec.get(field) or ()
            for mount in container.get("volumeMounts") or ()
            if mount.get("name") == volume.get("name")
        ]
        read_only = bool(volume["persistentVolumeClaim"].get("readOnly")) or all(
            mount.get("readOnly", False) for mount in mounts
        )
        mount_path = str(mounts[0].get("mountPath", "")) if mounts else ""
        yield volume_path, Mount.model_construct(volume=str(claim), mount_path=mount_path, read_only=read_only)


def _manifest_as_kind(workload: Workload) -> Manifest:
    """Return the workload's manifest, with the annotations by which an Object is read back. Raises WorkloadError."""
    if workload.manifest is None:
        raise WorkloadError(f"workload {workload.name} has no manifest")
    if workload.object is None:
        return workload.manifest
    metadata = workload.manifest.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), **annotations_of_object(workload.object)}
    return {**workload.manifest, "metadata": {**metadata, "annotations": annotations}}


def _kind(workload: Workload) -> WorkloadKind:
    return WORKLOAD_KINDS[workload.kind]


def _complete_pods(
    workload: Workload, pods: LaunchedPods, launch: Launch, recorder: RolePods | None
) -> RolePods | None:
    """Add to a template, which is part of the launch's object, what Trainstack adds to pods.

    `recorder`: the pods that write the record, if they are among those before. Return them.
    """
    template = cast("Manifest", pods.template)
    if workload.pod_patch is not None:
        patched = merge_patch(template, workload.pod_patch)
        template.clear()
        template.update(patched)
    spec = template["spec"] = canonical_fields("PodSpec", template["spec"])
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        if "image" in container:
            container["image"] = launch.facts.pinned_images.get(container["image"], container["image"])
    _add_parameters(workload, template, launch)
    if workload.managed:
        recorder = _wrap_program(workload, pods, launch, recorder)
    if workload.container is not None and len(spec["containers"]) > 1:
        metadata = template.get("metadata") or {}
        # Commands find the main container of a live pod by the annotation, as kubectl does.
        annotations = {labels.DEFAULT_CONTAINER: workload.container, **(metadata.get("annotations") or {})}
        template["metadata"] = {**metadata, "annotations": annotations}
    if workload.kind != "Pod":  # The labels of a Pod are those of the object.
        role = {labels.ROLE: pods.name} if _kind(workload).role_label == labels.ROLE else {}
        metadata = template.get("metadata") or {}
        own_labels = metadata.get("labels") or {}
        template["metadata"] = {**metadata, "labels": {**own_labels, **launch_labels(workload, launch), **role}}
    return recorder


def _wrap_program(workload: Workload, pods: LaunchedPods, launch: Launch, recorder: RolePods | None) -> RolePods:
    """Replace the program of the main container by the wrapper with this program. Return the recording pods."""
    template = cast("Manifest", pods.template)
    spec = template["spec"]
    container = main_container(workload, template)
    command = container.get("command")
    if not command:
        raise WorkloadError(
            f"workload {workload.name}: container {container.get('name')} of its manifest has no command, and the "
            "wrapper cannot read the image's entrypoint",
            "add the command to the manifest",
        )
    _mount_record(workload, spec, container)
    role = _role_pods(pods, container)
    recorder = recorder or role
    container["command"] = wrapper_command((*command, *(container.pop("args", None) or ())))
    container["env"] = [*(container.get("env") or ()), *wrapper_env(workload, role, recorder, launch)]
    container.setdefault("volumeMounts", []).append(wrapper_mount())
    if all(volume.get("name") != WRAPPER_VOLUME for volume in spec.get("volumes") or ()):
        spec.setdefault("volumes", []).append(wrapper_volume(launch))
    return recorder


def _mount_record(workload: Workload, spec: Manifest, container: Manifest) -> None:
    """Mount the volume of the records in the main container, unless the container mounts it writable."""
    if workload.record is None:
        raise WorkloadError(f"workload {workload.name}: a managed workload needs a record; set its volume")
    claim = workload.record.volume
    names = _volume_names(spec, claim)
    if any(
        mount.get("name") in names and not mount.get("readOnly") and not mount.get("subPath")
        for mount in container.get("volumeMounts") or ()
    ):
        return
    if not names:
        names = [claim]
        spec.setdefault("volumes", []).append({"name": claim, "persistentVolumeClaim": {"claimName": claim}})
    container.setdefault("volumeMounts", []).append({"name": names[0], "mountPath": f"/mnt/{claim}"})


def _volume_names(spec: Body, claim: str) -> list[str]:
    """Return the names of a pod's volumes that are this claim."""
    return [
        str(volume["name"])
        for volume in spec.get("volumes") or ()
        if (volume.get("persistentVolumeClaim") or {}).get("claimName") == claim
    ]


def roles_of_manifest(workload: Workload) -> tuple[RolePods, ...]:
    """Return the programs of the pods of a manifest in the form of roles. Raises WorkloadError."""
    return tuple(_role_pods(pods, main_container(workload, pods.template)) for pods in pods_of_manifest(workload))


def _role_pods(pods: LaunchedPods, container: Body) -> RolePods:
    """Return the main container's program and mounts in the form of a role of a workload."""
    volumes_by_name = {
        volume["name"]: volume["persistentVolumeClaim"]["claimName"]
        for volume in pods.spec.get("volumes") or ()
        if "persistentVolumeClaim" in volume
    }
    mounts = [
        Mount.model_construct(
            volume=volumes_by_name[mount["name"]],
            mount_path=str(mount["mountPath"]),
            sub_path=mount.get("subPath"),
            read_only=bool(mount.get("readOnly", False)),
        )
        for mount in container.get("volumeMounts") or ()
        if mount.get("name") in volumes_by_name
    ]
    return RolePods(
        role=pods.name,
        replicas=pods.count,
        command=tuple(container.get("command") or ()),
        args=tuple(container.get("args") or ()),
        env={
            variable["name"]: str(variable["value"])
            for variable in container.get("env") or ()
            if variable.get("value") is not None
        },
        volumes=tuple(mounts),
        resources=_resources(container),
        annotations={},
        topology_request=None,
        restart_policy=None,
    )


def _add_parameters(workload: Workload, template: Manifest, launch: Launch) -> None:
    """Add the arguments, variables and files of a trial to the main container."""
    if launch.sweep is None:
        return
    spec, container = template["spec"], main_container(workload, template)
    if workload.args:
        container["args"] = [*(container.get("args") or ()), *workload.args]
    new_env = [{"name": name, "value": value} for name, value in workload.env.items()] + [*sweep_env(launch)]
    new_names = {variable["name"] for variable in new_env}
    kept_env = [variable for variable in container.get("env") or () if variable.get("name") not in new_names]
    additions: tuple[tuple[Manifest, str, list[Any]], ...] = (
        (container, "env", [*kept_env, *new_env]),
        (container, "volumeMounts", [*(container.get("volumeMounts") or ()), *sweep_mounts(launch)]),
        (spec, "volumes", [*(spec.get("volumes") or ()), *sweep_volumes(launch)]),
    )
    for section, field, values in additions:
        if values:
            section[field] = values
