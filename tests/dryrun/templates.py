"""Random pod templates with every field of the pinned Kubernetes, most of which the API server accepts in a Job.

The fields are those of `pod_fields.json`. Fields without a strategy of their own get a word, a small number or a
boolean, so a new field of Kubernetes is drawn without an edit here, unless it accepts only certain values.
"""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from itertools import count
from typing import Any

from hypothesis import strategies as st

from trainstack.settings.values.pod_fields import TEMPLATE, FieldForm, pod_fields

Values = st.SearchStrategy[Any]
Manifest = dict[str, Any]
Field = tuple[str, str]
"""A type and a field of it."""

NOT_DRAWN: Mapping[Field, str] = {
    ("PodSpec", "ephemeralContainers"): "templates may not have it",
    ("TypedObjectReference", "namespace"): "its feature is off by default",
    ("VolumeProjection", "clusterTrustBundle"): "its feature is off by default",
    ("VolumeProjection", "podCertificate"): "its feature is off by default",
}
"""Fields that the API server refuses or drops, with the reason."""


def one_of(*values: Any) -> Values:
    return st.sampled_from(values)


words = one_of("a", "b1", "c-c")
dns_names = one_of("a", "b-1", "c.example.org")
keys = one_of("a", "example.org/b", "example.net/c", "d_e.f")
absolute_paths = one_of("/a", "/b/c")
relative_paths = one_of("a", "b/c")
addresses = one_of("10.0.0.1", "192.168.7.9", "2001:db8::1")
modes = one_of(0, 0o400, 0o644, 0o755)
ids = one_of(0, 1000, 65534)
_SCALARS: Mapping[str, Values] = {
    "string": words,
    "integer": st.integers(1, 5),
    "boolean": st.booleans(),
    "quantity": one_of("1", 2, "500m", "1.5", "1Gi", "1e3", 0.5),
    "integer or string": one_of(80, "http"),
}
_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "AWSElasticBlockStoreVolumeSource": ("volumeID",),
    "AzureFileVolumeSource": ("secretName", "shareName"),
    "CSIVolumeSource": ("driver",),
    "CephFSVolumeSource": ("monitors",),
    "CinderVolumeSource": ("volumeID",),
    "ConfigMapEnvSource": ("name",),
    "ConfigMapKeySelector": ("name", "key"),
    "ConfigMapProjection": ("name",),
    "ConfigMapVolumeSource": ("name",),
    "Container": ("name", "image"),
    "ContainerPort": ("containerPort",),
    "DownwardAPIVolumeFile": ("path",),
    "EphemeralVolumeSource": ("volumeClaimTemplate",),
    "EnvVar": ("name",),
    "ExecAction": ("command",),
    "FileKeySelector": ("key", "path", "volumeName"),
    "FlexVolumeSource": ("driver",),
    "GCEPersistentDiskVolumeSource": ("pdName",),
    "GRPCAction": ("port",),
    "GitRepoVolumeSource": ("repository",),
    "GlusterfsVolumeSource": ("endpoints", "path"),
    "HTTPGetAction": ("port",),
    "HTTPHeader": ("name", "value"),
    "HostAlias": ("ip", "hostnames"),
    "HostPathVolumeSource": ("path",),
    "ISCSIVolumeSource": ("targetPortal", "iqn", "lun"),
    "ImageVolumeSource": ("reference",),
    "KeyToPath": ("key", "path"),
    "LocalObjectReference": ("name",),
    "NFSVolumeSource": ("server", "path"),
    "NodeSelector": ("nodeSelectorTerms",),
    "PersistentVolumeClaimSpec": ("accessModes", "resources"),
    "PersistentVolumeClaimTemplate": ("spec",),
    "PersistentVolumeClaimVolumeSource": ("claimName",),
    "PhotonPersistentDiskVolumeSource": ("pdID",),
    "PodDNSConfigOption": ("name",),
    "PodReadinessGate": ("conditionType",),
    "PodSchedulingGate": ("name",),
    "PodSchedulingGroup": ("podGroupName",),
    "PodSpec": ("containers", "restartPolicy", "volumes"),
    "PodTemplateSpec": ("spec",),
    "PortworxVolumeSource": ("volumeID",),
    "PreferredSchedulingTerm": ("preference", "weight"),
    "ProjectedVolumeSource": ("sources",),
    "QuobyteVolumeSource": ("registry", "volume"),
    "RBDVolumeSource": ("image", "monitors"),
    "ScaleIOVolumeSource": ("gateway", "secretRef", "storageMode", "system", "volumeName"),
    "SecretEnvSource": ("name",),
    "SecretKeySelector": ("name", "key"),
    "SecretProjection": ("name",),
    "SecretVolumeSource": ("secretName",),
    "ServiceAccountTokenProjection": ("path",),
    "SleepAction": ("seconds",),
    "StorageOSVolumeSource": ("volumeName",),
    "TCPSocketAction": ("port",),
    "TopologySpreadConstraint": ("maxSkew", "topologyKey", "whenUnsatisfiable", "labelSelector"),
    "Volume": ("name",),
    "VolumeDevice": ("name", "devicePath"),
    "VolumeMount": ("name", "mountPath"),
    "VsphereVirtualDiskVolumeSource": ("volumePath",),
    "PodAffinityTerm": ("topologyKey", "labelSelector"),
    "WeightedPodAffinityTerm": ("podAffinityTerm", "weight"),
}
_ALTERNATIVES = frozenset(
    {
        "DownwardAPIVolumeFile",
        "EnvFromSource",
        "EnvVarSource",
        "LifecycleHandler",
        "Probe",
        "Volume",
        "VolumeProjection",
    }
)
"""The types with fields of which exactly one is set: those that are objects."""
_MANY = {"PodSpec": 7, "Container": 7}
"""The largest number of optional fields of an object, by type; 3 of others."""
_SELINUX = {"level": "s0:c1,c2", "role": "system_r", "type": "spc_t", "user": "system_u"}
_DISK = {"diskName": "a", "diskURI": "/subscriptions/a/disks/b", "kind": "Managed", "cachingMode": "ReadOnly"}
_TERM = one_of(
    {"key": "a", "operator": "In", "values": ["b", "c"]},
    {"key": "example.org/b", "operator": "NotIn", "values": ["d"]},
    {"key": "c", "operator": "Exists"},
)
_NODE_TERM = st.one_of(_TERM, one_of({"key": "d", "operator": "Gt", "values": ["5"]}))
_SELECTORS = one_of(
    {"matchLabels": {"app": "a"}},
    {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a"]}], "matchLabels": {"b": "c"}},
    {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
)
_TYPES: Mapping[str, Values] = {
    "AppArmorProfile": one_of(
        {"type": "RuntimeDefault"}, {"type": "Unconfined"}, {"type": "Localhost", "localhostProfile": "a"}
    ),
    "AzureDiskVolumeSource": one_of(
        _DISK,
        {**_DISK, "fsType": "ext4", "readOnly": True},
        {**_DISK, "cachingMode": "None"},
    ),
    "ContainerRestartRule": one_of(
        {"action": "Restart", "exitCodes": {"operator": "In", "values": [3, 42]}},
        {"action": "Restart", "exitCodes": {"operator": "NotIn", "values": [1]}},
    ),
    "ContainerResizePolicy": one_of({"resourceName": "cpu", "restartPolicy": "NotRequired"}),
    "FCVolumeSource": one_of(
        {"targetWWNs": ["50060e801049cfd1"], "lun": 0, "fsType": "ext4"}, {"wwids": ["3600508b4"], "readOnly": True}
    ),
    "FlockerVolumeSource": one_of({"datasetName": "a"}, {"datasetUUID": "b"}),
    "LabelSelector": _SELECTORS,
    "NodeSelectorTerm": st.fixed_dictionaries(
        {"matchExpressions": st.lists(_NODE_TERM, min_size=1, max_size=2)},
        optional={"matchFields": one_of([{"key": "metadata.name", "operator": "In", "values": ["n"]}])},
    ),
    "PodResourceClaim": st.nothing(),
    "PodOS": one_of({"name": "linux"}),
    "SELinuxOptions": one_of(_SELINUX, {"level": "s0"}),
    "SeccompProfile": one_of(
        {"type": "RuntimeDefault"}, {"type": "Unconfined"}, {"type": "Localhost", "localhostProfile": "a.json"}
    ),
    "Sysctl": one_of(
        {"name": "net.ipv4.tcp_syncookies", "value": "1"}, {"name": "kernel.shm_rmid_forced", "value": "0"}
    ),
    "Toleration": one_of(
        {"operator": "Exists"},
        {"key": "a", "value": "b"},
        {"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"},
        {"key": "c", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
        {"key": "d", "operator": "Exists", "effect": "PreferNoSchedule"},
    ),
    "TypedLocalObjectReference": one_of(
        {"kind": "PersistentVolumeClaim", "name": "a"},
        {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "b"},
    ),
    "VolumeResourceRequirements": one_of(
        {"requests": {"storage": "1Gi"}}, {"requests": {"storage": "1.5Gi"}, "limits": {"storage": 4e9}}
    ),
    "WindowsSecurityContextOptions": one_of(
        {"gmsaCredentialSpecName": "a", "gmsaCredentialSpec": "b", "hostProcess": False, "runAsUserName": "user"},
        {"runAsUserName": "user"},
    ),
}
"""Whole objects of types whose fields depend on each other."""
_RESOURCES = one_of(
    {"requests": {"cpu": "1.5", "memory": "1e9"}},
    {"requests": {"cpu": 1}, "limits": {"cpu": 2, "memory": "2Gi"}},
    {"limits": {"cpu": "0.5", "nvidia.com/gpu": 1, "memory": "1.5Gi"}},
    {"requests": {"example.org/a": 2}, "limits": {"example.org/a": "2"}},
    {"requests": {"ephemeral-storage": "1G"}, "limits": {"ephemeral-storage": "2000M"}},
    {"requests": {"cpu": 1, "memory": "1Gi", "hugepages-2Mi": "4Mi"}, "limits": {"hugepages-2Mi": "4Mi"}},
)
_FIELDS: Mapping[Field, Values] = {
    ("AWSElasticBlockStoreVolumeSource", "partition"): one_of(0, 3),
    ("CSIVolumeSource", "driver"): dns_names,
    ("Capabilities", "add"): one_of(["IPC_LOCK"], ["SYS_PTRACE", "NET_ADMIN"]),
    ("Capabilities", "drop"): one_of(["ALL"], ["NET_RAW"]),
    ("CephFSVolumeSource", "path"): absolute_paths,
    ("ConfigMapVolumeSource", "defaultMode"): modes,
    ("Container", "image"): one_of("a:1", "registry.example.org/b@sha256:" + "0" * 64),
    ("Container", "imagePullPolicy"): one_of("Always", "IfNotPresent", "Never"),
    ("Container", "resources"): _RESOURCES,
    ("Container", "restartPolicy"): one_of("Never", "OnFailure", "Always"),
    ("Container", "terminationMessagePath"): absolute_paths,
    ("Container", "terminationMessagePolicy"): one_of("File", "FallbackToLogsOnError"),
    ("Container", "workingDir"): absolute_paths,
    ("ContainerPort", "containerPort"): st.integers(1, 65535),
    ("ContainerPort", "hostIP"): one_of("10.0.0.1", "0.0.0.0"),
    ("ContainerPort", "protocol"): one_of("TCP", "UDP", "SCTP"),
    ("DownwardAPIVolumeFile", "fieldRef"): st.fixed_dictionaries(
        {"fieldPath": one_of("metadata.name", "metadata.labels", "metadata.annotations['a']")},
        optional={"apiVersion": one_of("v1")},
    ),
    ("DownwardAPIVolumeFile", "resourceFieldRef"): one_of(
        {"containerName": "main", "resource": "limits.memory", "divisor": "1Mi"},
        {"containerName": "main", "resource": "requests.cpu"},
    ),
    ("DownwardAPIVolumeFile", "mode"): modes,
    ("DownwardAPIVolumeFile", "path"): relative_paths,
    ("DownwardAPIVolumeSource", "defaultMode"): modes,
    ("EmptyDirVolumeSource", "medium"): one_of("", "Memory", "HugePages", "HugePages-2Mi"),
    ("EnvFromSource", "prefix"): one_of("A_", "b"),
    ("EnvVar", "name"): one_of("A", "B_2", "c.d-e"),
    ("EnvVar", "value"): one_of("", "x", "$(A) $$(B)", "1"),
    ("EnvVarSource", "fieldRef"): st.fixed_dictionaries(
        {"fieldPath": one_of("metadata.name", "spec.nodeName", "status.podIP", "metadata.labels['a']")},
        optional={"apiVersion": one_of("v1")},
    ),
    ("EnvVarSource", "fileKeyRef"): st.fixed_dictionaries(
        {"volumeName": one_of("files"), "path": relative_paths, "key": one_of("A")},
        optional={"optional": st.booleans()},
    ),
    ("EnvVarSource", "resourceFieldRef"): one_of(
        {"resource": "limits.cpu"},
        {"containerName": "main", "resource": "requests.memory", "divisor": "1Ki"},
        {"resource": "limits.ephemeral-storage", "divisor": 1},
    ),
    ("HTTPGetAction", "path"): one_of("/", "/healthz?a=b"),
    ("HTTPGetAction", "scheme"): one_of("HTTP", "HTTPS"),
    ("HTTPHeader", "name"): one_of("X-Probe"),
    ("HostAlias", "ip"): addresses,
    ("HostAlias", "hostnames"): one_of(["a"], ["a.example.org", "b"]),
    ("HostPathVolumeSource", "path"): absolute_paths,
    ("HostPathVolumeSource", "type"): one_of("", "Directory", "DirectoryOrCreate", "File", "CharDevice"),
    ("ISCSIVolumeSource", "chapAuthDiscovery"): st.just(False),
    ("ISCSIVolumeSource", "chapAuthSession"): st.just(False),
    ("ISCSIVolumeSource", "initiatorName"): one_of("iqn.2015-02.example.com:init"),
    ("ISCSIVolumeSource", "iqn"): one_of("iqn.2001-04.com.example:storage.a"),
    ("ISCSIVolumeSource", "targetPortal"): one_of("10.0.2.15:3260"),
    ("ImageVolumeSource", "pullPolicy"): one_of("Always", "IfNotPresent", "Never"),
    ("KeyToPath", "mode"): modes,
    ("KeyToPath", "path"): relative_paths,
    ("Lifecycle", "stopSignal"): one_of("SIGTERM", "SIGUSR1"),
    ("NFSVolumeSource", "path"): absolute_paths,
    ("ObjectMeta", "annotations"): st.dictionaries(keys, one_of("", "any text é"), max_size=2),
    ("ObjectMeta", "labels"): st.dictionaries(keys, words, max_size=2),
    ("PersistentVolumeClaimSpec", "accessModes"): one_of(["ReadWriteOnce"], ["ReadWriteMany", "ReadOnlyMany"]),
    ("PersistentVolumeClaimSpec", "dataSourceRef"): st.deferred(lambda: _TYPES["TypedLocalObjectReference"]),
    ("PersistentVolumeClaimSpec", "storageClassName"): one_of("", "fast"),
    ("PersistentVolumeClaimSpec", "volumeMode"): one_of("Filesystem", "Block"),
    ("PodAffinityTerm", "topologyKey"): keys,
    ("PodAffinityTerm", "matchLabelKeys"): one_of(["pod-hash"]),
    ("PodAffinityTerm", "mismatchLabelKeys"): one_of(["team"]),
    ("PodDNSConfig", "nameservers"): st.lists(addresses, min_size=1, max_size=2),
    ("PodDNSConfig", "searches"): one_of(["a.svc.cluster.local", "example.org"]),
    ("PodReadinessGate", "conditionType"): keys,
    ("PodSchedulingGate", "name"): keys,
    ("PodSecurityContext", "fsGroup"): ids,
    ("PodSecurityContext", "fsGroupChangePolicy"): one_of("Always", "OnRootMismatch"),
    ("PodSecurityContext", "runAsGroup"): ids,
    ("PodSecurityContext", "runAsUser"): ids,
    ("PodSecurityContext", "seLinuxChangePolicy"): one_of("Recursive"),
    ("PodSecurityContext", "supplementalGroups"): st.lists(ids, min_size=1, max_size=2),
    ("PodSecurityContext", "supplementalGroupsPolicy"): one_of("Merge", "Strict"),
    ("PodSpec", "activeDeadlineSeconds"): one_of(1, 3600),
    ("PodSpec", "dnsPolicy"): one_of("ClusterFirst", "Default", "ClusterFirstWithHostNet"),
    ("PodSpec", "hostname"): words,
    ("PodSpec", "hostnameOverride"): dns_names,
    ("PodSpec", "nodeSelector"): st.dictionaries(keys, words, max_size=2),
    ("PodSpec", "overhead"): one_of({"cpu": "0.25", "memory": "120Mi"}),
    ("PodSpec", "preemptionPolicy"): one_of("Never", "PreemptLowerPriority"),
    ("PodSpec", "resourceClaims"): one_of(
        [{"name": "gpu", "resourceClaimTemplateName": "one"}], [{"name": "gpu", "resourceClaimName": "shared"}]
    ),
    ("PodSpec", "resources"): one_of(
        {"requests": {"cpu": 64, "memory": "0.5Ti"}}, {"limits": {"cpu": "64", "memory": "512Gi"}}
    ),
    ("PodSpec", "restartPolicy"): one_of("Never", "OnFailure"),
    ("PodSpec", "serviceAccount"): one_of("account"),
    ("PodSpec", "serviceAccountName"): one_of("account"),
    ("PodSpec", "terminationGracePeriodSeconds"): one_of(10, 600),
    ("Probe", "successThreshold"): st.just(1),
    ("Probe", "terminationGracePeriodSeconds"): one_of(1, 30),
    ("ProjectedVolumeSource", "defaultMode"): modes,
    ("QuobyteVolumeSource", "registry"): one_of("registry:6789,b:7890"),
    ("ScaleIOVolumeSource", "storageMode"): one_of("ThinProvisioned", "ThickProvisioned"),
    ("SecretVolumeSource", "defaultMode"): modes,
    ("SecurityContext", "procMount"): st.just("Default"),
    ("SecurityContext", "runAsGroup"): ids,
    ("SecurityContext", "runAsUser"): ids,
    ("ServiceAccountTokenProjection", "expirationSeconds"): one_of(600, 7200),
    ("TopologySpreadConstraint", "matchLabelKeys"): one_of(["pod-hash"]),
    ("TopologySpreadConstraint", "nodeAffinityPolicy"): one_of("Honor", "Ignore"),
    ("TopologySpreadConstraint", "nodeTaintsPolicy"): one_of("Honor", "Ignore"),
    ("TopologySpreadConstraint", "topologyKey"): keys,
    ("TopologySpreadConstraint", "whenUnsatisfiable"): one_of("DoNotSchedule", "ScheduleAnyway"),
    ("VolumeMount", "mountPath"): one_of("/a", "/b/c", "/dev/shm"),
    ("VolumeMount", "mountPropagation"): one_of("None", "HostToContainer"),
    ("VolumeMount", "recursiveReadOnly"): one_of("IfPossible", "Enabled", "Disabled"),
    ("VolumeMount", "subPath"): relative_paths,
    ("VolumeMount", "subPathExpr"): one_of("a", "$(NAME)"),
}
"""The values of fields that accept only certain ones."""


def _values(form: FieldForm) -> Values:
    if form.is_list:
        key = form.merge_key
        unique_by = (lambda item: item.get(key)) if key else repr
        return st.lists(_values(form.element_form), min_size=1, max_size=2, unique_by=unique_by)
    if form.is_map:
        return st.dictionaries(keys, _values(form.element_form), max_size=2)
    if form.name in _TYPES:
        return _TYPES[form.name]
    return _SCALARS[form.name] if form.fields is None else _objects(form.name)


@st.composite
def _objects(draw: st.DrawFn, name: str) -> Any:
    """An object of a type: its required fields, one of the alternatives, and a few others."""
    fields = {field: form for field, form in pod_fields()[name].items() if (name, field) not in NOT_DRAWN}
    chosen = [*_REQUIRED.get(name, ())]
    alternatives: list[str] = []
    if name in _ALTERNATIVES:
        alternatives = [field for field, form in fields.items() if form.fields is not None and not form.is_list]
        chosen.append(draw(st.sampled_from(alternatives)))
    optional = [field for field in fields if field not in chosen and field not in alternatives]
    if optional:
        chosen += draw(st.lists(st.sampled_from(optional), max_size=_MANY.get(name, 3), unique=True))
    return {field: draw(_values_of_field(name, field, fields[field])) for field in chosen}


def _values_of_field(name: str, field: str, form: FieldForm) -> Values:
    return _FIELDS[name, field] if (name, field) in _FIELDS else _values(form)


def templates() -> st.SearchStrategy[Manifest]:
    """Draw pod templates whose fields are consistent with each other."""
    return _objects(TEMPLATE).map(_make_consistent)


def drawn_fields(template: Manifest) -> set[Field]:
    """Return the fields, with their types, that a template has."""
    return set(_fields_of(FieldForm(TEMPLATE), template))


def all_fields() -> set[Field]:
    """Return the fields of all types of a pod template that are drawn."""
    found, open_types = set[Field](), [TEMPLATE]
    seen = {TEMPLATE}
    while open_types:
        name = open_types.pop()
        for field, form in pod_fields()[name].items():
            if (name, field) not in NOT_DRAWN:
                found.add((name, field))
                if form.name in pod_fields() and form.name not in seen:
                    seen.add(form.name)
                    open_types.append(form.name)
    return found


def _fields_of(form: FieldForm, value: Any) -> Iterator[Field]:
    if form.is_list:
        for item in value:
            yield from _fields_of(form.element_form, item)
    elif form.fields is not None:
        for field, item in value.items():
            yield form.name, field
            yield from _fields_of(form.fields[field], item)


def _make_consistent(template: Manifest) -> Manifest:
    """Return a template with what its fields require of each other."""
    template = deepcopy(template)  # Drawn values may be shared.
    spec = template["spec"]
    for index, volume in enumerate(spec["volumes"]):
        volume["name"] = f"volume-{index}"
        _make_paths_unique(volume)
        if volume.get("ephemeral"):
            _make_claim_consistent(volume["ephemeral"]["volumeClaimTemplate"]["spec"])
    spec["volumes"] += [
        {"name": "files", "emptyDir": {}},
        {"name": "block", "persistentVolumeClaim": {"claimName": "b"}},
    ]
    _name_containers(spec)
    _make_pod_consistent(spec)
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        _make_container_consistent(container, spec)
    for container in spec.get("initContainers", ()):
        if container.get("restartPolicy") != "Always":
            for field in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe", "resizePolicy"):
                container.pop(field, None)
    return template


def _make_paths_unique(volume: Manifest) -> None:
    numbers = count()
    for source in ("configMap", "secret", "downwardAPI", "projected"):
        for node in _maps(volume.get(source)):
            if "path" in node:
                node["path"] = f"{node['path']}{next(numbers)}"


def _maps(value: Any) -> Iterator[Manifest]:
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _maps(item)


def _make_claim_consistent(claim: Manifest) -> None:
    if "dataSource" in claim:
        claim.pop("dataSourceRef", None)


def _name_containers(spec: Manifest) -> None:
    for names, containers in (
        (("main", "side"), spec["containers"]),
        (("first", "second"), spec.get("initContainers", ())),
    ):
        for name, container in zip(names, containers, strict=False):
            container["name"] = name


def _make_pod_consistent(spec: Manifest) -> None:
    _keep_namespaces_consistent(spec)
    _keep_systems_consistent(spec)
    if "schedulingGates" in spec:
        spec.pop("nodeName", None)
    for constraint in spec.get("topologySpreadConstraints", ()):
        if constraint["whenUnsatisfiable"] != "DoNotSchedule":
            constraint.pop("minDomains", None)


def _keep_namespaces_consistent(spec: Manifest) -> None:
    if spec.get("hostUsers") is False:
        for field in ("hostNetwork", "hostPID", "hostIPC"):
            spec.pop(field, None)
    if spec.get("hostPID"):
        spec.pop("shareProcessNamespace", None)
    if spec.get("hostNetwork") or spec.get("setHostnameAsFQDN"):
        spec.pop("hostnameOverride", None)
    if spec.get("hostNetwork") or spec.get("hostIPC"):
        spec.get("securityContext", {}).pop("sysctls", None)


def _keep_systems_consistent(spec: Manifest) -> None:
    """Keep the fields of Windows, or those of Linux."""
    contexts = [part.get("securityContext", {}) for part in (spec, *_containers(spec))]
    signals = [item["lifecycle"] for item in _containers(spec) if "stopSignal" in item.get("lifecycle", {})]
    if any("windowsOptions" in context for context in contexts):
        spec.pop("os", None)
        for lifecycle in signals:
            del lifecycle["stopSignal"]
    elif signals:
        spec["os"] = {"name": "linux"}


def _containers(spec: Manifest) -> tuple[Manifest, ...]:
    return (*spec.get("initContainers", ()), *spec["containers"])


def _make_container_consistent(container: Manifest, spec: Manifest) -> None:
    if "restartPolicyRules" in container:
        container.setdefault("restartPolicy", "Never")
    container.get("readinessProbe", {}).pop("terminationGracePeriodSeconds", None)
    for variable in container.get("env", ()):
        if "valueFrom" in variable:
            variable.pop("value", None)
    context = container.get("securityContext", {})
    if context.get("privileged"):
        context.pop("allowPrivilegeEscalation", None)
    _connect_mounts(container, spec)
    for number, port in enumerate(container.get("ports", ())):
        if "name" in port:
            port["name"] = f"port-{number}"
        if "hostPort" in port:
            port["hostPort"] = port["containerPort"]
    if "resourceClaims" in spec:
        request = {"request": "one"} if container["name"] in ("side", "second") else {}
        container.setdefault("resources", {})["claims"] = [{"name": "gpu", **request}]


def _connect_mounts(container: Manifest, spec: Manifest) -> None:
    names = [volume["name"] for volume in spec["volumes"] if volume["name"] != "block"]
    for index, mount in enumerate(container.get("volumeMounts", ())):
        mount["name"] = names[(len(mount) + index) % len(names)]
        if "subPath" in mount:
            mount.pop("subPathExpr", None)
        if mount.get("recursiveReadOnly", "Disabled") != "Disabled":
            mount["readOnly"] = True
            mount.pop("mountPropagation", None)
    for device in container.get("volumeDevices", ()):
        device["name"] = "block"
    if spec.get("hostUsers") is False:
        container.pop("volumeDevices", None)
    # Each device is listed once.
    container.get("volumeDevices", [])[1:] = []
