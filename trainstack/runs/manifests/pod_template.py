"""The pod template that all kinds of workloads share."""

from collections.abc import Collection, Mapping, Sequence

from trainstack.objects import labels
from trainstack.objects.labels import Manifest
from trainstack.runs.errors import ReservedVariableError, WorkloadError
from trainstack.runs.identity import canonical
from trainstack.runs.launch import Launch
from trainstack.runs.manifests.git_init_container import checkout_container, checkout_mount, checkout_volumes
from trainstack.runs.manifests.pod_patch import apply_pod_patch
from trainstack.runs.manifests.sweep_pod import sweep_definition, sweep_env, sweep_labels, sweep_mounts, sweep_volumes
from trainstack.runs.manifests.variable_expansion import referenced_variables
from trainstack.runs.role_pods import RolePods, role_pods
from trainstack.settings.sections.pod_options import Capabilities, Scratch
from trainstack.settings.sections.secrets import EnvSource
from trainstack.settings.sections.workloads import Mount, Workload

TRAINING_CONTAINER = "training"
"""The name of the training container, unless the workload or the operator prescribes another."""
WRAPPER_FOLDER = "/opt/trainstack"
"""The mount path of the wrapper in a managed pod."""
WRAPPER_FILE = "run.py"
SHARED_MEMORY_FOLDER = "/dev/shm"  # noqa: S108 (the container's own)
"""The mount path of `sharedMemory`."""
GRACE_SECONDS = 60
"""The time that a managed pod has after SIGTERM to write its checkpoint."""

WRAPPER_VOLUME = "trainstack-wrapper"
_SHARED_MEMORY_VOLUME = "trainstack-shared-memory"
_SCRATCH_VOLUME = "trainstack-scratch-{}"
SEED_VARIABLE = "TRAINSTACK_SEED"
"""The name of the variable with the workload's seed, which unmanaged programs receive, too."""
_RESERVED_PREFIX = "TRAINSTACK_"
"""The prefix of the variables that the stack or the wrapper sets in managed pods."""
WRAPPER_SETTINGS = ("TRAINSTACK_DATA_TIMEOUT", "TRAINSTACK_HEARTBEAT_SECONDS", "TRAINSTACK_STALE_SECONDS")
"""The variables with the reserved prefix that a workload may set."""
MAX_VARIABLE_BYTES = 131_071
"""Linux limits each argument, and each variable with its name, to 32 pages of 4 KiB with the zero at the end
(MAX_ARG_STRLEN)."""
_LONG_DEFINITION_CHARACTERS = 32 << 10
"""The length of a run's definition above which it omits the texts that the pod contains anyway."""
_PART_CHARACTERS = MAX_VARIABLE_BYTES - 71
"""The length of the part of a definition in one variable. The difference leaves room for the variable's name."""


def pod_template(
    workload: Workload,
    pod: RolePods,
    launch: Launch,
    *,
    container: str,
    restart_policy: str | None = None,
    port: Manifest | None = None,
    kind_variables: Sequence[Manifest] = (),
    operator_variables: Collection[str] = (),
) -> Manifest:
    """Return the template of a role's pods. Raises WorkloadError.

    `container`: the default name of the main container. `restart_policy`: None leaves the policy to the operator or the
    cluster. `kind_variables`: environment variables that the kind adds to the workload's. `operator_variables`: the
    names of variables that the kind's operator sets, which a patch may not set.
    """
    spec: Manifest = {
        "containers": [_container(workload, pod, launch, container, port, kind_variables)],
        **_service_account(workload, pod),
    }
    if workload.code is not None:
        spec["initContainers"] = [checkout_container(workload.code, launch, pod.resources)]
    if workload.managed:
        spec["enableServiceLinks"] = False
        spec["terminationGracePeriodSeconds"] = GRACE_SECONDS
    optional = {
        "imagePullSecrets": [{"name": name} for name in workload.image_pull_secrets],
        "nodeSelector": dict(pod.node_selector),
        "tolerations": [item.model_dump(by_alias=True, exclude_none=True) for item in pod.tolerations],
        "affinity": _affinity(pod),
        "subdomain": workload.subdomain,
        "priorityClassName": workload.priority_class_name,
        "restartPolicy": restart_policy,
        "securityContext": _pod_security(workload, pod),
        "volumes": _volumes(workload, pod, launch),
    }
    spec.update({key: value for key, value in optional.items() if value})
    if workload.host_network:
        # With the default policy, a pod in the node's network uses the node's DNS, which does not resolve Services.
        spec.update(hostNetwork=True, dnsPolicy="ClusterFirstWithHostNet")
    if workload.host_ipc:
        spec["hostIPC"] = True
    metadata: Manifest = {"labels": launch_labels(workload, launch, pod.labels)}
    topology_annotations = pod.topology_request.annotations if pod.topology_request else {}
    if annotations := {**pod.annotations, **topology_annotations}:
        metadata["annotations"] = annotations
    reserved: dict[str, str] = {}
    if workload.managed:
        reserved[WRAPPER_FOLDER] = "mount it elsewhere: the wrapper is there"
        record = _record_path(workload, pod, role_pods(workload)[0])
        reserved[record] = "mount it elsewhere: the records of runs are there"
    return apply_pod_patch(
        workload,
        pod,
        {"metadata": metadata, "spec": spec},
        spec["containers"][0]["name"],
        reserved,
        operator_variables,
        {scratch.name: _SCRATCH_VOLUME.format(scratch.name) for scratch in pod.scratch},
    )


def launch_labels(workload: Workload, launch: Launch, own_labels: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the labels of a launch or of its pods. `own_labels`: those of a role's pods; None: the workload's."""
    return {
        **(workload.labels if own_labels is None else own_labels),
        labels.WORKLOAD: workload.name,
        labels.RUN: launch.run_id,
        labels.LAUNCH: launch.name,
        **sweep_labels(launch),
    }


def find_mount(pod: RolePods, volume: str) -> Mount | None:
    """Return the first mount of a whole claim in a role's pods; None if they do not mount it."""
    return next((mount for mount in pod.volumes if mount.volume == volume and mount.sub_path is None), None)


def _find_writable_mount(pod: RolePods, volume: str) -> Mount | None:
    """Return the first writable mount of a whole claim in a role's pods, else the first mount, else None."""
    mounts = [mount for mount in pod.volumes if mount.volume == volume and mount.sub_path is None]
    return next((mount for mount in mounts if not mount.read_only), None) or find_mount(pod, volume)


def _container(
    workload: Workload,
    pod: RolePods,
    launch: Launch,
    name: str,
    port: Manifest | None,
    kind_variables: Sequence[Manifest],
) -> Manifest:
    result: Manifest = {
        "name": name if workload.container is None else workload.container,
        "image": launch.facts.image,
    }
    if workload.has_field("image_pull_policy"):
        result["imagePullPolicy"] = workload.image_pull_policy
    result.update(_program(workload, pod))
    env = _settings_env(workload, pod)
    # A managed pod gets the seed from the wrapper's variables, an unmanaged one unless it sets the variable itself.
    if workload.managed:
        env += wrapper_env(workload, pod, role_pods(workload)[0], launch)
    elif workload.seed is not None and SEED_VARIABLE not in {*pod.env, *workload.referenced_variables}:
        env.append({"name": SEED_VARIABLE, "value": str(workload.seed)})
    # These variables are last, and the workload may not set them, so they are never overridden.
    kind_variables = [*kind_variables, *sweep_env(launch)]
    _check_reserved(workload, pod, {variable["name"] for variable in kind_variables}, workload.kind)
    if context := _container_security(pod):
        result["securityContext"] = context
    optional = {
        "workingDir": workload.working_dir,
        "env": [*env, *kind_variables],
        "envFrom": list(map(_env_source, workload.env_from)),
        "ports": [dict(port)] if port else [],
        "resources": pod.resources.model_dump(exclude_defaults=True),
        "volumeMounts": _mounts(workload, pod, launch),
    }
    return {**result, **{key: value for key, value in optional.items() if value}}


def _settings_env(workload: Workload, pod: RolePods) -> list[Manifest]:
    """Return the variables of `env`, `secretEnv` and `fieldEnv`.

    A variable can only refer to those before it, so fields, and values from Secrets that others refer to, are first.
    """
    # The API version is set because of the API server's default, see `wrapper_env`.
    field_env: list[Manifest] = [
        {"name": key, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
        for key, path in workload.field_env.items()
    ]
    plain_env: list[Manifest] = [{"name": key, "value": value} for key, value in pod.env.items()]
    secret_env: dict[str, Manifest] = {
        key: {"name": key, "valueFrom": {"secretKeyRef": {"name": value.secret, "key": value.key}}}
        for key, value in workload.secret_env.items()
    }
    referenced = frozenset[str]().union(*map(referenced_variables, pod.env.values()))
    first_env = [variable for key, variable in secret_env.items() if key in referenced]
    return [
        *field_env,
        *first_env,
        *plain_env,
        *(variable for key, variable in secret_env.items() if key not in referenced),
    ]


def _env_source(source: EnvSource) -> Manifest:
    kind, name = ("secretRef", source.secret) if source.secret else ("configMapRef", source.config_map)
    return {kind: {"name": name}, **({"prefix": source.prefix} if source.prefix else {})}


def _check_reserved(workload: Workload, pod: RolePods, reserved: set[str], reserved_for: str) -> None:
    if reserved_names := sorted(reserved & {*pod.env, *workload.referenced_variables}):
        raise ReservedVariableError(
            f"workload {workload.name}: env sets {', '.join(reserved_names)}, which is reserved for a {reserved_for}",
            "remove or rename it",
        )


def wrapper_command(program: Sequence[str]) -> list[str]:
    """Return the command of a container whose program the wrapper starts."""
    return ["python3", f"{WRAPPER_FOLDER}/{WRAPPER_FILE}", "--", *program]


def wrapper_mount() -> Manifest:
    return {"name": WRAPPER_VOLUME, "mountPath": WRAPPER_FOLDER, "readOnly": True}


def wrapper_volume(launch: Launch) -> Manifest:
    return {"name": WRAPPER_VOLUME, "configMap": {"name": launch.facts.wrapper}}


def _program(workload: Workload, pod: RolePods) -> Manifest:
    if workload.managed:
        return {"command": wrapper_command((*pod.command, *pod.args))}
    program = {"command": list(pod.command), "args": list(pod.args)}
    return {key: arguments for key, arguments in program.items() if arguments}


def wrapper_env(workload: Workload, pod: RolePods, recorder: RolePods, launch: Launch) -> list[Manifest]:
    """Return the environment of the wrapper, as described in trainstack/runs/wrapper/run.py.

    `recorder`: the pods that write the record. Raises WorkloadError.
    """
    values = {
        "TRAINSTACK_RUN_ID": launch.run_id,
        "TRAINSTACK_LAUNCH": launch.name,
        "TRAINSTACK_RECORD": _record_path(workload, pod, recorder),
        **_definition_variables(_run_record(workload, pod, launch)),
    }
    if workload.data is not None:
        data = find_mount(pod, workload.data.volume)
        if data is not None:
            path = f"{data.mount_path.rstrip('/')}/{workload.data.path}"
            values["TRAINSTACK_DATA"] = _escape_dollars(canonical({"path": path, "manifest": launch.facts.data_digest}))
    if workload.seed is not None:
        values[SEED_VARIABLE] = str(workload.seed)
    prefixed_names = {name for name in (*pod.env, *workload.referenced_variables) if name.startswith(_RESERVED_PREFIX)}
    _check_reserved(workload, pod, prefixed_names - {*WRAPPER_SETTINGS}, "managed workload")
    # apiVersion is set because the API server defaults it: a reference that differs from the live one is a conflict
    # under server-side apply, and an interrupted `up` could not be resumed.
    field = {"apiVersion": "v1", "fieldPath": "metadata.name"}
    pod_name = {"name": "TRAINSTACK_POD", "valueFrom": {"fieldRef": field}}
    return [{"name": key, "value": value} for key, value in values.items()] + [pod_name]


def _definition_variables(record: Manifest) -> dict[str, str]:
    """Return the variables with the definition of a run, split because Linux limits the length of a variable.

    A long definition contains null instead of texts that the pod contains unchanged; the wrapper inserts them. It
    contains the declared form of texts with `$(` or `$$`, which Kubernetes expands.
    """
    text = canonical(record)
    if len(text) > _LONG_DEFINITION_CHARACTERS:
        env = {name: _text_unless_in_pod(value) for name, value in record["env"].items()}
        programs = {key: list(map(_text_unless_in_pod, record[key])) for key in ("command", "args")}
        text = canonical({**record, **programs, "env": env})
    parts = [text[start : start + _PART_CHARACTERS] for start in range(0, len(text), _PART_CHARACTERS)]
    names = ("TRAINSTACK_RUN", *(f"TRAINSTACK_RUN_PART_{number}" for number in range(2, len(parts) + 1)))
    return dict(zip(names, map(_escape_dollars, parts), strict=True))


def _text_unless_in_pod(text: str) -> str | None:
    """Return a text if the pod contains another form of it, because Kubernetes expands it; else None."""
    return text if "$(" in text or "$$" in text else None


def _escape_dollars(text: str) -> str:
    # Kubernetes replaces $(NAME) in the values of variables, and `$$` by `$`.
    return text.replace("$", "$$")


def _run_record(workload: Workload, pod: RolePods, launch: Launch) -> Manifest:
    code = workload.code
    return {
        **({} if code is None else {"code": {"git": code.git, "revision": code.revision}}),
        "args": list(pod.args),
        "attempt": workload.attempt,
        "command": list(pod.command),
        "commit": launch.facts.commit,
        "data": launch.facts.data_digest,
        "env": dict(pod.env),
        "image": launch.facts.image,
        "seed": workload.seed,
        **sweep_definition(launch),
        "workload": workload.name,
    }


def _record_path(workload: Workload, pod: RolePods, recorder: RolePods) -> str:
    """Return the path of the folder of all records in a role's pods. Raises WorkloadError.

    The pods that write the record, those of a distributed run's master or of a Job, must mount its volume writable.
    Workers without the mount get the master's path. The path does not exist there, so the wrapper writes no record.
    """
    if workload.record is None:
        raise WorkloadError(
            f"workload {workload.name}: a managed workload requires `record`; set it to the volume for its records"
        )
    mount = _find_writable_mount(recorder, workload.record.volume)
    if mount is None or mount.read_only:
        state = "does not mount" if mount is None else "mounts read-only"
        raise WorkloadError(
            f"workload {workload.name}: its {recorder.role.lower()} {state} volume {workload.record.volume}, on which "
            "its runs are recorded; mount it under `volumes` without `readOnly`"
        )
    pod_mount = _find_writable_mount(pod, workload.record.volume) or mount
    return f"{pod_mount.mount_path.rstrip('/')}/{workload.record.path}"


def _mounts(workload: Workload, pod: RolePods, launch: Launch) -> list[Manifest]:
    mounts = list(map(_claim_mount, pod.volumes))
    if workload.code is not None:
        mounts.append(checkout_mount(workload.code))
    if workload.managed:
        mounts.append(wrapper_mount())
    # The sweep's file follows the checkout, because it may be mounted inside the checkout.
    mounts += sweep_mounts(launch)
    if pod.shared_memory is not None:
        mounts.append({"name": _SHARED_MEMORY_VOLUME, "mountPath": SHARED_MEMORY_FOLDER})
    mounts += (
        {"name": _SCRATCH_VOLUME.format(scratch.name), "mountPath": scratch.mount_path} for scratch in pod.scratch
    )
    return mounts


def _claim_mount(mount: Mount) -> Manifest:
    return {
        "name": mount.volume,
        "mountPath": mount.mount_path,
        **({"subPath": mount.sub_path} if mount.sub_path is not None else {}),
        **({"readOnly": True} if mount.read_only else {}),
    }


def _volumes(workload: Workload, pod: RolePods, launch: Launch) -> list[Manifest]:
    claims = dict.fromkeys(mount.volume for mount in pod.volumes)
    volumes: list[Manifest] = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    if workload.code is not None:
        volumes += checkout_volumes(workload.code)
    if workload.managed:
        volumes.append(wrapper_volume(launch))
    volumes += sweep_volumes(launch)
    if pod.shared_memory is not None:
        memory = {"medium": "Memory", "sizeLimit": pod.shared_memory}
        volumes.append({"name": _SHARED_MEMORY_VOLUME, "emptyDir": memory})
    volumes += map(_scratch_volume, pod.scratch)
    return volumes


def _scratch_volume(scratch: Scratch) -> Manifest:
    name = _SCRATCH_VOLUME.format(scratch.name)
    if scratch.storage_class is None:
        limits = {"medium": scratch.medium, "sizeLimit": scratch.size}
        return {"name": name, "emptyDir": {key: value for key, value in limits.items() if value is not None}}
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": scratch.size}},
        "storageClassName": scratch.storage_class,
        "volumeMode": "Filesystem",
    }
    return {"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}


def _affinity(pod: RolePods) -> Manifest:
    if pod.affinity is None:
        return {}
    return pod.affinity.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)


def _service_account(workload: Workload, pod: RolePods) -> Manifest:
    """Return the fields for the service account. By default, training has no access to the API server."""
    if workload.service_account is not None:
        return {"serviceAccountName": workload.service_account}
    if workload.managed or pod.security == "restricted":
        return {"automountServiceAccountToken": False}
    return {}


def _container_security(pod: RolePods) -> Manifest:
    restricted, capability_settings = pod.security == "restricted", pod.capabilities or Capabilities()
    lists = {"add": list(capability_settings.add), "drop": ["ALL"] if restricted else list(capability_settings.drop)}
    capabilities = {key: names for key, names in lists.items() if names}
    return {
        **({"allowPrivilegeEscalation": False} if restricted else {}),
        **({"capabilities": capabilities} if capabilities else {}),
    }


def _owns_volumes(workload: Workload) -> bool:
    """Return whether the pods' group owns their volumes. An unmanaged run has only what its settings declare."""
    return workload.managed or workload.kind == "DataLoader"


def _pod_security(workload: Workload, pod: RolePods) -> Manifest:
    result: Manifest = {}
    if pod.run_as_user is not None:
        result["runAsUser"] = pod.run_as_user
    if pod.run_as_group is not None:
        result["runAsGroup"] = pod.run_as_group
    # The group owns the volumes, so that a user other than root can write to them.
    fs_group = pod.run_as_user if pod.fs_group is None and _owns_volumes(workload) else pod.fs_group
    if fs_group is not None:
        result["fsGroup"] = fs_group
    if pod.security == "restricted":
        result["runAsNonRoot"] = True
        result["seccompProfile"] = {"type": "RuntimeDefault"}
    return result
