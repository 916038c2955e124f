"""What the API server would refuse in a pod template, as far as the template alone shows it.

The table of fields in `settings.values.pod_fields` leads to the typed values of a template; the tables below state what
each type requires. Resources have rules of their own, and the settings validate labels, affinity and quantities.

Source: ValidatePodSpec in k8s.io/kubernetes/pkg/apis/core/validation.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainstack.settings.errors import suggest_name
from trainstack.settings.values.kubernetes import MAX_INT32
from trainstack.settings.values.paths import child_path, named_element_paths
from trainstack.settings.values.pod_fields import TEMPLATE, FieldForm

Body = Mapping[str, Any]

_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "ConfigMapEnvSource": ("name",),
    "ConfigMapKeySelector": ("name", "key"),
    "ConfigMapProjection": ("name",),
    "ConfigMapVolumeSource": ("name",),
    "Container": ("image",),
    "CSIVolumeSource": ("driver",),
    "DownwardAPIVolumeFile": ("path",),
    "EphemeralVolumeSource": ("volumeClaimTemplate",),
    "ExecAction": ("command",),
    "GRPCAction": ("port",),
    "HostPathVolumeSource": ("path",),
    "HTTPGetAction": ("port",),
    "ImageVolumeSource": ("reference",),
    "KeyToPath": ("key", "path"),
    "NFSVolumeSource": ("server", "path"),
    "ObjectFieldSelector": ("fieldPath",),
    "ResourceFieldSelector": ("resource",),
    "SecretEnvSource": ("name",),
    "SecretKeySelector": ("name", "key"),
    "SecretProjection": ("name",),
    "SecretVolumeSource": ("secretName",),
    "TCPSocketAction": ("port",),
    "TopologySpreadConstraint": ("maxSkew", "whenUnsatisfiable"),
    "VolumeDevice": ("name",),
    "VolumeMount": ("name",),
}
"""The fields that must have a value, by type. A patch requires the keys by which it is merged anyway."""
_SINGLE: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "EnvFromSource": (1, ("configMapRef", "secretRef")),
    "EnvVarSource": (1, ("configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef")),
    "DownwardAPIVolumeFile": (1, ("fieldRef", "resourceFieldRef")),
    "LifecycleHandler": (1, ("exec", "httpGet", "sleep", "tcpSocket")),
    "Probe": (1, ("exec", "grpc", "httpGet", "tcpSocket")),
    # A volume without a source is an emptyDir.
    "Volume": (0, tuple(sorted((FieldForm("Volume").fields or {}).keys() - {"name"}))),
    "VolumeProjection": (0, tuple(sorted(FieldForm("VolumeProjection").fields or ()))),
}
"""The alternatives of which a value of a type may have one, and whether it must have one."""
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_WORDS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("Container", "imagePullPolicy"): _PULL_POLICIES,
    ("Container", "restartPolicy"): ("Always", "Never", "OnFailure"),
    ("Container", "terminationMessagePolicy"): ("File", "FallbackToLogsOnError"),
    ("ContainerPort", "protocol"): ("TCP", "UDP", "SCTP"),
    ("HTTPGetAction", "scheme"): ("HTTP", "HTTPS"),
    ("ImageVolumeSource", "pullPolicy"): _PULL_POLICIES,
    ("PodSecurityContext", "fsGroupChangePolicy"): ("Always", "OnRootMismatch"),
    ("PodSpec", "dnsPolicy"): ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
    ("SeccompProfile", "type"): ("Localhost", "RuntimeDefault", "Unconfined"),
    ("Toleration", "effect"): ("NoExecute", "NoSchedule", "PreferNoSchedule"),
    ("Toleration", "operator"): ("Equal", "Exists"),
    ("TopologySpreadConstraint", "whenUnsatisfiable"): ("DoNotSchedule", "ScheduleAnyway"),
    ("VolumeMount", "mountPropagation"): ("Bidirectional", "HostToContainer", "None"),
}
"""The words that a field accepts, by type and field."""
_PORT, _MODE, _ID = (1, 65535), (0, 0o777), (0, MAX_INT32)
_COUNT = (0, MAX_INT32)
_RANGES: Mapping[tuple[str, str], tuple[int, int]] = {
    ("ConfigMapVolumeSource", "defaultMode"): _MODE,
    ("ContainerPort", "containerPort"): _PORT,
    ("DownwardAPIVolumeFile", "mode"): _MODE,
    ("DownwardAPIVolumeSource", "defaultMode"): _MODE,
    ("GRPCAction", "port"): _PORT,
    ("HTTPGetAction", "port"): _PORT,
    ("KeyToPath", "mode"): _MODE,
    ("PodSecurityContext", "fsGroup"): _ID,
    ("PodSecurityContext", "runAsGroup"): _ID,
    ("PodSpec", "terminationGracePeriodSeconds"): _COUNT,
    ("ProjectedVolumeSource", "defaultMode"): _MODE,
    ("SecretVolumeSource", "defaultMode"): _MODE,
    ("SecurityContext", "runAsGroup"): _ID,
    ("SecurityContext", "runAsUser"): _ID,
    ("TCPSocketAction", "port"): _PORT,
    ("TopologySpreadConstraint", "maxSkew"): (1, MAX_INT32),
    **{
        ("Probe", field): _COUNT
        for field in ("failureThreshold", "initialDelaySeconds", "periodSeconds", "successThreshold", "timeoutSeconds")
    },
}
"""The least and the greatest number that a field accepts, by type and field."""
_INNER_PATHS = (
    *(("DownwardAPIVolumeFile", "path"), ("KeyToPath", "path")),
    *(("VolumeMount", "subPath"), ("VolumeMount", "subPathExpr")),
)
"""The fields whose path is relative to a volume and must not leave it, by type and field."""
_DNS_LABELS = ("Container", "Volume")
"""The types whose `name` is a DNS label."""
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_PORT_NAME = re.compile(r"(?=.{1,15}\Z)(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


@dataclass(frozen=True)
class PodFault:
    """A part of a pod template that the API server refuses."""

    path: str
    """Path in the template, such as `spec.initContainers[fetch].image`."""
    problem: str
    remedy: str


_PLACES_OF_VOLUMES = "spec.volumes of the patch, or to scratch or volumes of the run"


def find_pod_faults(
    template: Body, operator_volumes: Collection[str] = (), places_of_volumes: str = _PLACES_OF_VOLUMES
) -> list[PodFault]:
    """Return what the API server would refuse in a pod template whose fields are known and have the right types.

    `operator_volumes`: the names of volumes that the operator of the launch adds to the pods. `places_of_volumes`: for
    remedies, where a missing volume may be added.
    """
    faults = list(_faults_of_value(FieldForm(TEMPLATE), template, ""))
    spec = template["spec"]
    volumes: dict[str, Body] = {
        **{name: {} for name in operator_volumes},
        **{volume["name"]: volume for volume in spec.get("volumes") or ()},
    }
    main_names = {container["name"] for container in spec["containers"]}
    for path, container in _containers(spec):
        faults += _faults_of_mounts(path, container, volumes, places_of_volumes)
        faults += _faults_of_ports(path, container)
        faults += _faults_of_security(path, container)
        if path.startswith("spec.initContainers"):
            faults += _faults_of_init_container(path, container, main_names)
    if spec.get("dnsPolicy") == "None" and not (spec.get("dnsConfig") or {}).get("nameservers"):
        faults.append(PodFault("spec.dnsConfig.nameservers", "is missing, which dnsPolicy None requires", "add it"))
    return faults


def _containers(spec: Body) -> Iterator[tuple[str, Body]]:
    for field in ("initContainers", "containers"):
        for container in spec.get(field) or ():
            yield f"spec.{field}[{container['name']}]", container


def _faults_of_value(form: FieldForm, value: Any, path: str) -> Iterator[PodFault]:
    """Yield the faults of a value and of all values in it."""
    if form.is_list:
        names = [element.get("name") if isinstance(element, Mapping) else None for element in value]
        for element_path, element in zip(named_element_paths(path, names), value, strict=True):
            yield from _faults_of_value(form.element_form, element, element_path)
    elif form.fields is not None and isinstance(value, Mapping):
        yield from _faults_of_object(form.name, value, path)
        for key, item in value.items():
            if item is not None and key in form.fields:
                yield from _faults_of_value(form.fields[key], item, child_path(path, key))


def _faults_of_object(name: str, value: Body, path: str) -> Iterator[PodFault]:
    for field in _REQUIRED.get(name, ()):
        if not value.get(field):
            yield PodFault(child_path(path, field), "is missing", f"add `{field}:`")
    if name in _SINGLE:
        yield from _faults_of_alternatives(*_SINGLE[name], value, path)
    for field, item in value.items():
        yield from _faults_of_field(name, field, item, child_path(path, field))
    if name in _DNS_LABELS and not _DNS_LABEL.fullmatch(value["name"]):
        remedy = "use up to 63 lower-case letters, digits and '-', with a letter or digit at both ends"
        yield PodFault(path, f"has the invalid name {value['name']}", remedy)
    if name == "EnvVar" and value.get("value") and value.get("valueFrom") is not None:
        yield PodFault(path, "has value and valueFrom", "keep one of them")


def _faults_of_alternatives(minimum: int, alternatives: Sequence[str], value: Body, path: str) -> Iterator[PodFault]:
    present = [field for field in alternatives if value.get(field) is not None]
    if len(present) > 1:
        yield PodFault(path, f"has {' and '.join(present)}", "keep one of them")
    elif len(present) < minimum:
        yield PodFault(path, "has no content", f"add one of {', '.join(alternatives)}")


def _faults_of_field(name: str, field: str, value: Any, path: str) -> Iterator[PodFault]:
    words, limits = _WORDS.get((name, field)), _RANGES.get((name, field))
    # The API server replaces an empty word by its default, or accepts it.
    if words and value and value not in words:
        yield PodFault(path, f"is not supported (value {value})", suggest_name(value, words))
    elif limits and isinstance(value, int) and not limits[0] <= value <= limits[1]:
        yield PodFault(path, f"must be {limits[0]} to {limits[1]} (value {value})", "correct it")
    elif (name, field) in _INNER_PATHS and _leaves_folder(value or ""):
        yield PodFault(path, f"leaves the volume (value {value})", "write a relative path without '..'")
    elif (name, field) == ("HostPathVolumeSource", "path") and ".." in value.split("/"):
        yield PodFault(path, f"contains '..' (value {value})", "write the path without '..'")
    elif (name, field) == ("NFSVolumeSource", "path") and value and not value.startswith("/"):
        yield PodFault(path, f"is not absolute (value {value})", "write an absolute path, beginning with /")


def _leaves_folder(path: str) -> bool:
    return path.startswith("/") or ".." in path.split("/")


def _faults_of_mounts(path: str, container: Body, volumes: Mapping[str, Body], places: str) -> Iterator[PodFault]:
    for field in ("volumeMounts", "volumeDevices"):
        elements = container.get(field) or ()
        element_paths = named_element_paths(f"{path}.{field}", [element.get("name") for element in elements])
        for element_path, element in zip(element_paths, elements, strict=True):
            name = element.get("name")
            if name and name not in volumes:
                remedy = _volume_remedy(name, volumes, places)
                yield PodFault(element_path, f"mounts {name}, which is not a volume", remedy)
            elif name and field == "volumeDevices" and not {"ephemeral", "persistentVolumeClaim"} & {*volumes[name]}:
                yield PodFault(element_path, f"{name} is not a claim", "list it under volumeMounts")
            if element.get("subPath") and element.get("subPathExpr"):
                yield PodFault(element_path, "has subPath and subPathExpr", "keep one of them")


def _volume_remedy(name: str, volumes: Mapping[str, Body], places: str) -> str:
    remedy = suggest_name(name, volumes) if volumes else "the pod has no volumes"
    return f"{remedy.removesuffix('?')}, or add it to {places}"


def _faults_of_ports(path: str, container: Body) -> Iterator[PodFault]:
    names: set[str] = set()
    for port in container.get("ports") or ():
        name = port.get("name") or ""
        if name and not _PORT_NAME.fullmatch(name):
            remedy = "use up to 15 lower-case letters, digits and '-', with a letter"
            yield PodFault(f"{path}.ports", f"has a port with the invalid name {name}", remedy)
        elif name in names:
            yield PodFault(f"{path}.ports", f"has several ports named {name}", "use unique names")
        names |= {name} - {""}


def _faults_of_security(path: str, container: Body) -> Iterator[PodFault]:
    context = container.get("securityContext") or {}
    is_privileged = bool(context.get("privileged"))
    if is_privileged and context.get("allowPrivilegeEscalation") is False:
        problem = "is false, but the container is privileged"
        yield PodFault(f"{path}.securityContext.allowPrivilegeEscalation", problem, "remove one of them")
    mounts = container.get("volumeMounts") or ()
    if not is_privileged and any(mount.get("mountPropagation") == "Bidirectional" for mount in mounts):
        problem = "has mountPropagation Bidirectional, which only privileged containers may have"
        yield PodFault(f"{path}.volumeMounts", problem, "set HostToContainer")


def _faults_of_init_container(path: str, container: Body, main_names: set[str]) -> Iterator[PodFault]:
    if container["name"] in main_names:
        yield PodFault(path, "has the name of another container", "rename it")
    if container.get("restartPolicy") != "Always":
        for field in ("lifecycle", *_PROBES):
            if container.get(field) is not None:
                problem = "is set, but the init container is not restarted"
                yield PodFault(f"{path}.{field}", problem, "remove it, or set restartPolicy: Always")
