"""Environments with random values: mostly valid ones, and many that are nearly valid."""

import copy
from typing import Any

from hypothesis import strategies as st

from tests.unit.make import CIPHERTEXT

Config = dict[str, Any]
Change = tuple[tuple[str | int, ...], Any]
"""The path of a value in the sections, and the value."""

_ODD = "aZ09-_./:=@$ ,~é\n\t'\"{}\0"
_LONG = ("a" * 63, "a" * 64, "a" * 253, "a" * 254, "a" * 300, f"{'b' * 63}/{'a' * 63}", f"{'b' * 64}.c/{'a' * 64}")
_WORDS = (
    *("", "a", "A", "0", "-", "a-b", "-a", "a-", "a.b", "a..b", ".a", "..", ".", "a_b", "a/b", "a/b/c", "/a", "a/"),
    *(
        "A/b",
        "example.org/Name_1",
        "example_org/a",
        "kubernetes.io/x",
        "a=b",
        "1A",
        "a b",
        " a",
        "a:b",
        "team",
        "x" * 5,
    ),
)
words = st.one_of(st.sampled_from(_WORDS), st.text(_ODD, max_size=6), st.sampled_from(_LONG))
names = st.one_of(st.sampled_from(("n", "n-1", "n.m", "a" * 40, "N", "n_1", "1n", "n-", "a" * 63, "a" * 64)), words)
few_labels = st.dictionaries(words, words, max_size=3)
many_labels = st.integers(0, 10).map(lambda count: {f"key-{number}": "x" for number in range(count)})
labels = st.one_of(few_labels, few_labels, many_labels)
paths = st.one_of(
    st.sampled_from(("/", "/mnt", "/mnt/", "//mnt", "/mnt/../a", "/a:b", "a", "", "/..", "/a/..b", "/" + "a" * 5000)),
    words.map(lambda word: f"/{word}"),
)
integers = st.one_of(
    st.integers(-2, 5),
    st.sampled_from((-(2**31) - 1, -(2**31), 2**31 - 1, 2**31, 10**12, 2**63 - 1, 2**63, 99999, 100001)),
)
booleans = st.booleans()
quantities = st.one_of(
    st.sampled_from(
        ("0", "1", "2", "500m", "1.5", "1Gi", "512", "1e3", "1e30", "0.1m", "1n", "9Ei", "10E", "-1", "1 Gi", "1gb", "")
    ),
    st.integers(-1, 2**62),
)
_IMAGES = (
    *("busybox", "busybox:1.35", "a/b:c", "registry.example.org:5000/a/b@sha256:" + "0" * 64, "a b", " a", "a ", "A"),
    *("http://a/b", "a@sha256:0", "a:", "a:b:c", "a//b", "a" * 300),
)
images = st.one_of(st.sampled_from(_IMAGES), words)
_RESOURCES = ("cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "hugepages-2Mi", "hugepages-", "gpu", "storage")
resource_names = st.one_of(st.sampled_from(_RESOURCES), st.sampled_from(_RESOURCES), words)
amounts = st.dictionaries(resource_names, quantities, max_size=3)
same = st.dictionaries(resource_names, quantities, max_size=2).map(
    lambda amounts: {"requests": amounts, "limits": amounts}
)
resources = st.one_of(st.fixed_dictionaries({}, optional={"requests": amounts, "limits": amounts}), same)
many_tolerations = st.integers(0, 10).map(
    lambda count: [{"key": f"key-{number}", "operator": "Exists"} for number in range(count)]
)
few_tolerations = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "key": words,
            "operator": st.sampled_from(("Equal", "Exists", "Exists", "In")),
            "value": words,
            "effect": st.sampled_from(("NoSchedule", "NoExecute", "PreferNoSchedule", "")),
            "tolerationSeconds": integers,
        },
    ),
    max_size=2,
)
tolerations = st.one_of(few_tolerations, few_tolerations, many_tolerations)
modes = st.lists(
    st.sampled_from(("ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany", "ReadWriteOncePod", "ReadWrite")), max_size=3
)
env = st.dictionaries(words, words, max_size=3)
secret_env = st.dictionaries(words, st.fixed_dictionaries({"secret": names, "key": words}), max_size=2)
mounts = st.lists(
    st.fixed_dictionaries({"volume": st.sampled_from(("data", "more", "code-1")), "mountPath": paths},
                          optional={"readOnly": booleans, "subPath": st.one_of(paths, words)}),
    max_size=3,
)  # fmt: skip
few_taints = st.lists(
    st.fixed_dictionaries(
        {"key": words, "effect": st.sampled_from(("NoSchedule", "NoExecute"))}, optional={"value": words}
    ),
    max_size=2,
)
many_taints = st.integers(0, 10).map(
    lambda count: [{"key": f"key-{number}", "effect": "NoSchedule"} for number in range(count)]
)
taints = st.one_of(few_taints, many_taints)
code = st.fixed_dictionaries(
    {"git": st.just("https://git.example.org/a/b.git"), "revision": st.just("a" * 40), "mountPath": paths},
    optional={"secret": names},
)
egress = st.lists(
    st.fixed_dictionaries(
        {"cidr": st.sampled_from(("10.0.0.0/8", "10.0.0.1", "10.0.0.1/8", "::/0", "0.0.0.0/0", "10.0.0.0/255.0.0.0",
                                  "::ffff:10.0.0.0/104", "fe80::%1/64", "010.0.0.0/8", "10.0.0.0/08"))},
        optional={"ports": st.lists(integers, max_size=2)},
    ),
    min_size=1, max_size=2,
)  # fmt: skip
_LEVEL = st.sampled_from(("restricted", "baseline", "privileged", "restrictd", ""))
pod_security = st.fixed_dictionaries(
    {},
    optional={
        "pod-security.kubernetes.io/enforce": _LEVEL,
        "pod-security.kubernetes.io/warn": _LEVEL,
        "pod-security.kubernetes.io/audit-version": st.sampled_from(("latest", "v1.34", "v1.034", "1.34", "v2.0", "")),
        "kubernetes.io/metadata.name": words,
    },
)
first = st.fixed_dictionaries({"name": st.sampled_from(("a", "b")), "status": st.sampled_from(("Ready", "Complete"))})
replicated = st.lists(
    st.fixed_dictionaries(
        {"name": st.one_of(st.sampled_from(("a", "b")), names)},
        optional={
            "replicas": integers,
            "parallelism": integers,
            "completions": integers,
            "backoffLimit": integers,
            "dependsOn": st.lists(first, max_size=2),
        },
    ),
    min_size=1,
    max_size=3,
)
elastic = st.fixed_dictionaries(
    {"maxReplicas": integers},
    optional={"minReplicas": integers, "rdzvHost": words, "rdzvPort": integers, "maxRestarts": integers},
)


_expressions = st.lists(
    st.fixed_dictionaries(
        {"key": words, "operator": st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Is"))},
        optional={"values": st.lists(st.one_of(words, st.sampled_from(("1", "-1", "1.5"))), max_size=2)},
    ),
    max_size=2,
)
_selectors = st.fixed_dictionaries({}, optional={"matchLabels": few_labels, "matchExpressions": _expressions})
_node_terms = st.fixed_dictionaries(
    {},
    optional={
        "matchExpressions": _expressions,
        "matchFields": st.lists(
            st.fixed_dictionaries(
                {"key": st.sampled_from(("metadata.name", "metadata.uid")), "operator": st.sampled_from(("In", "Gt"))},
                optional={"values": st.lists(names, max_size=2)},
            ),
            max_size=1,
        ),
    },
)
_pod_terms = st.fixed_dictionaries(
    {"topologyKey": words},
    optional={
        "labelSelector": _selectors,
        "namespaceSelector": _selectors,
        "namespaces": st.lists(names, max_size=2),
    },
)
_REQUIRED, _PREFERRED = (f"{how}DuringSchedulingIgnoredDuringExecution" for how in ("required", "preferred"))
_weights = st.sampled_from((0, 1, 100, 101))
_pods = st.fixed_dictionaries(
    {},
    optional={
        _REQUIRED: st.lists(_pod_terms, max_size=2),
        _PREFERRED: st.lists(st.fixed_dictionaries({"weight": _weights, "podAffinityTerm": _pod_terms}), max_size=1),
    },
)
affinities = st.fixed_dictionaries(
    {},
    optional={
        "nodeAffinity": st.fixed_dictionaries(
            {},
            optional={
                _REQUIRED: st.fixed_dictionaries({"nodeSelectorTerms": st.lists(_node_terms, max_size=2)}),
                _PREFERRED: st.lists(
                    st.fixed_dictionaries({"weight": _weights, "preference": _node_terms}), max_size=1
                ),
            },
        ),
        "podAffinity": _pods,
        "podAntiAffinity": _pods,
    },
)
scratch = st.lists(
    st.fixed_dictionaries(
        {"name": st.one_of(st.sampled_from(("a", "b")), names), "mountPath": paths},
        optional={
            "size": quantities,
            "medium": st.sampled_from(("Memory", "HugePages", "")),
            "storageClass": st.sampled_from(("shared", "spare", "a/b")),
        },
    ),
    max_size=2,
)
_linux = st.lists(st.sampled_from(("NET_BIND_SERVICE", "CHOWN", "IPC_LOCK", "ALL", "CAP_KILL", "kill")), max_size=2)
capabilities = st.fixed_dictionaries({}, optional={"add": _linux, "drop": _linux})
# The API server validates the values of a patch; check knows fields and types.
pod_patches = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries({"annotations": st.just({"a": "b"})}),
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "nodeSelector": st.just({"disk": "ssd"}),
                "tolerations": st.just([{"operator": "Exists"}]),
                "runtimeClassName": st.sampled_from(("kata", "spare")),
                "hostname": names,
                "serviceAccountName": names,
                "terminationGracePeriodSeconds": st.sampled_from((1, 60, 90)),
                "volumes": st.lists(
                    st.fixed_dictionaries({"name": st.sampled_from(("x", "data"))}, optional={"emptyDir": st.just({})}),
                    max_size=1,
                ),
            },
        ),
    },
)


def _group(flavor: str) -> Config:
    quota = {"name": "cpu", "nominalQuota": 4000}
    return {"coveredResources": ["cpu"], "flavors": [{"name": flavor, "resources": [quota]}]}


OF_RUNS = {
    "container": names,
    "image": st.fixed_dictionaries({"name": images}),
    "imagePullPolicy": st.sampled_from(("Always", "Never", "IfNotPresent", "always", "")),
    "imagePullSecrets": st.lists(names, max_size=2),
    "command": st.lists(words, max_size=3),
    "args": st.lists(words, max_size=3),
    "workingDir": st.one_of(paths, words),
    "env": env,
    "secretEnv": secret_env,
    "fieldEnv": st.dictionaries(
        words, st.one_of(st.sampled_from(("metadata.name", "status.podIPs", "metadata.labels['a']")), words), max_size=2
    ),
    "envFrom": st.lists(
        st.fixed_dictionaries({}, optional={"secret": names, "configMap": names, "prefix": words}), max_size=2
    ),
    "seed": integers,
    "attempt": integers,
    "code": code,
    "volumes": mounts,
    "sharedMemory": quantities,
    "scratch": scratch,
    "capabilities": capabilities,
    "hostNetwork": booleans,
    "hostIPC": booleans,
    "priorityClassName": names,
    "runAsGroup": integers,
    "fsGroup": integers,
    "podPatch": pod_patches,
    "affinity": affinities,
    "resources": resources,
    "nodeSelector": labels,
    "tolerations": tolerations,
    "labels": labels,
    "annotations": labels,
    "objectAnnotations": labels,
    "subdomain": names,
    "completionMode": st.sampled_from(("Indexed", "NonIndexed", "")),
    "runAsUser": integers,
    "security": st.sampled_from(("restricted", "baseline", "privileged")),
    "serviceAccount": names,
    "activeDeadlineSeconds": integers,
    "ttlSecondsAfterFinished": integers,
    "backoffLimit": integers,
    "completions": integers,
    "parallelism": integers,
    "minParallelism": integers,
    "restartPolicy": st.sampled_from(("Never", "OnFailure", "Always", "")),
    "naming": st.sampled_from(("derived", "fixed", "generated")),
    "name": names,
    "queue": names,
}
OF_KINDS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "mpi": {
        "slotsPerWorker": integers,
        "mpiImplementation": st.sampled_from(("OpenMPI", "Intel", "MPICH", "openmpi")),
        "sshAuthMountPath": paths,
        "cleanPodPolicy": st.sampled_from(("None", "Running", "All", "Any")),
    },
    "pytorch": {
        "elastic": elastic,
        "nprocPerNode": st.one_of(words, integers),
        "cleanPodPolicy": st.sampled_from(("None", "Running", "All", "Any")),
    },
    "runtime": {"runtime": names},
    "ray": {
        "rayVersion": st.sampled_from(("2.52.0", "latest", "")),
        "runtimeEnvYAML": st.sampled_from(("pip: [a]", "pip: [", "a", "")),
    },
    "jobset": {
        "replicatedJobs": replicated,
        "network": st.fixed_dictionaries(
            {}, optional={"subdomain": names, "enableDNSHostnames": booleans, "publishNotReadyAddresses": booleans}
        ),
        "successPolicy": st.fixed_dictionaries(
            {"operator": st.sampled_from(("All", "Any"))},
            optional={"targetReplicatedJobs": st.lists(st.sampled_from(("a", "b")), max_size=3)},
        ),
        "failurePolicy": st.fixed_dictionaries(
            {"maxRestarts": integers},
            optional={
                "rules": st.lists(
                    st.fixed_dictionaries(
                        # JobSet's webhook, which does not run here, would set the names of rules.
                        {"action": st.sampled_from(("FailJobSet", "RestartJobSet")), "name": words},
                        optional={
                            "onJobFailureMessagePatterns": st.lists(words, max_size=2),
                            "targetReplicatedJobs": st.lists(st.sampled_from(("a", "b")), max_size=2),
                        },
                    ),
                    max_size=3,
                )
            },
        ),
    },
}
_OVERRIDDEN = (
    *("env", "volumes", "sharedMemory", "scratch", "resources", "nodeSelector", "tolerations", "affinity", "labels"),
    *("annotations", "runAsUser", "runAsGroup", "fsGroup", "security", "capabilities", "podPatch"),
)
ROLES = {
    "replicas": integers,
    "restartPolicy": st.sampled_from(("Never", "OnFailure", "Always", "ExitCode")),
    "minReplicas": integers,
    "maxReplicas": integers,
    "rayStartParams": few_labels,
    **{key: OF_RUNS[key] for key in _OVERRIDDEN},
}
RUNS = ("job", "pod", "loader", "pytorch", "jobset", "train", "mpi", "ray", "object", "runtime")
OF_SECTIONS: dict[tuple[str | int, ...], st.SearchStrategy[Any]] = {
    ("environment", "namespaces", 1, "name"): names,
    ("environment", "namespaces", 1, "labels"): st.one_of(labels, pod_security),
    ("environment", "namespaces", 1, "network"): st.fixed_dictionaries({"egress": egress}),
    ("storage", "classes", 1, "name"): names,
    ("storage", "classes", 1, "provisioner"): words,
    ("storage", "classes", 1, "parameters"): labels,
    ("storage", "classes", 1, "allowedTopologies"): st.fixed_dictionaries(
        {"key": words, "values": st.lists(words, max_size=2)}
    ).map(lambda values: [{"matchLabelExpressions": [values]}]),
    ("storage", "persistentVolumes", 1, "source"): st.fixed_dictionaries({"server": words, "path": paths}).map(
        lambda nfs: {"nfs": nfs}
    ),
    ("storage", "persistentVolumes", 2, "source", "csi"): st.fixed_dictionaries(
        {"driver": names, "volumeHandle": words, "volumeAttributes": labels}
    ),
    ("storage", "persistentVolumes", 4, "source", "local", "path"): paths,
    ("storage", "persistentVolumes", 0, "name"): names,
    ("storage", "persistentVolumes", 0, "storageClass"): names,
    ("storage", "persistentVolumes", 0, "size"): quantities,
    ("storage", "persistentVolumes", 0, "accessModes"): modes,
    ("storage", "persistentVolumes", 0, "hostPath"): paths,
    ("storage", "persistentVolumes", 0, "node"): names,
    ("storage", "persistentVolumes", 0, "labels"): labels,
    ("storage", "volumes", 3, "name"): names,
    ("storage", "volumes", 3, "size"): quantities,
    ("storage", "volumes", 3, "accessModes"): modes,
    ("storage", "volumes", 3, "labels"): labels,
    ("storage", "volumes", 3, "selector"): labels,
    ("queues", "flavors", 1, "name"): names,
    ("queues", "flavors", 1, "nodeLabels"): labels,
    ("queues", "flavors", 1, "nodeTaints"): taints,
    ("queues", "flavors", 1, "tolerations"): tolerations,
    ("queues", "topologies", 1, "levels"): st.lists(words, max_size=3),
    ("queues", "flavors", 1, "topology"): names,
    ("queues", "admissionChecks", 1, "controllerName"): words,
    ("queues", "admissionChecks", 1, "parameters", "name"): names,
    ("queues", "admissionChecks", 1, "parameters", "kind"): words,
    ("queues", "provisioningRequestConfigs", 0, "parameters"): few_labels,
    ("queues", "provisioningRequestConfigs", 0, "managedResources"): st.lists(resource_names, max_size=2),
    ("queues", "provisioningRequestConfigs", 0, "provisioningClassName"): names,
    ("queues", "provisioningRequestConfigs", 0, "retryStrategy"): st.dictionaries(
        st.sampled_from(("backoffLimitCount", "backoffBaseSeconds", "backoffMaxSeconds")), integers
    ),
    ("queues", "provisioningRequestConfigs", 0, "podSetUpdates", "nodeSelector"): st.lists(
        st.one_of(st.just("a"), words).map(lambda key: {"key": key, "valueFromProvisioningClassDetail": "c"}),
        max_size=2,
    ),
    ("queues", "clusterQueues", 1, "admissionChecks"): st.lists(
        st.fixed_dictionaries(
            {"name": st.sampled_from(("elsewhere", "spare"))},
            optional={"onFlavors": st.lists(st.sampled_from(("cpu", "spare")), max_size=2)},
        ),
        max_size=2,
    ),
    ("queues", "multiKueueConfigs", 0, "clusters"): st.lists(st.just("west"), max_size=2),
    ("queues", "cohorts", 0, "resourceGroups"): st.lists(
        st.sampled_from(("cpu", "spare")).map(_group), min_size=1, max_size=2
    ),
    ("queues", "multiKueueClusters", 0, "kubeConfig", "location"): words,
    ("queues", "clusterQueues", 1, "fairSharing"): st.fixed_dictionaries({"weight": quantities}),
    ("queues", "clusterQueues", 1, "flavorFungibility"): st.fixed_dictionaries(
        {"whenCanBorrow": st.sampled_from(("MayStopSearch", "TryNextFlavor"))},
        optional={
            "whenCanPreempt": st.sampled_from(("MayStopSearch", "TryNextFlavor")),
            "preference": st.sampled_from(("BorrowingOverPreemption", "PreemptionOverBorrowing")),
        },
    ),
    ("queues", "localQueues", 1, "fairSharing"): st.fixed_dictionaries({"weight": quantities}),
    ("queues", "cohorts", 1, "fairSharing"): st.fixed_dictionaries({"weight": quantities}),
    ("queues", "cohorts", 1, "name"): names,
    ("queues", "clusterQueues", 1, "name"): names,
    ("queues", "clusterQueues", 1, "namespaces"): st.lists(st.sampled_from(("research", "default")), max_size=3),
    ("queues", "clusterQueues", 1, "resourceGroups", 0, "coveredResources", 0): resource_names,
    ("queues", "clusterQueues", 1, "preemption"): st.fixed_dictionaries(
        {"reclaimWithinCohort": st.sampled_from(("Any", "Never"))},
        optional={
            "borrowWithinCohort": st.fixed_dictionaries(
                {"policy": st.sampled_from(("LowerPriority", "Never"))}, optional={"maxPriorityThreshold": integers}
            )
        },
    ),
    ("queues", "localQueues", 1, "name"): names,
    ("queues", "priorityClasses", 0, "name"): names,
    ("queues", "priorityClasses", 0, "value"): integers,
    ("queues", "priorityClasses", 0, "description"): st.one_of(words, st.just("x" * 3000)),
    ("tenants", "teams", 0, "name"): names,
    ("tenants", "teams", 0, "groups"): st.lists(words, min_size=1, max_size=2),
    ("tenants", "teams", 0, "users"): st.lists(words, max_size=2),
    ("tenants", "teams", 0, "serviceAccount"): names,
    ("secrets", "secrets", 0, "name"): names,
    **{("workloads", "runs", index, key): drawn for index in range(len(RUNS)) for key, drawn in OF_RUNS.items()},
    **{
        ("workloads", "runs", RUNS.index(run), key): drawn
        for run, fields in OF_KINDS.items()
        for key, drawn in fields.items()
    },
    **{
        ("workloads", "runs", RUNS.index(run), "roles", role, key): drawn
        for run, role in (("pytorch", "Worker"), ("mpi", "Worker"), ("ray", "workers"), ("object", "worker"))
        for key, drawn in ROLES.items()
    },
}
"""Strategies by path. Referenced objects stay unchanged; the values are those of further, unreferenced objects."""


def _volume(name: str, **changes: Any) -> Config:
    base = {"name": name, "namespace": "research", "storageClass": "shared", "size": "2Gi"}
    return {**base, "accessModes": ["ReadWriteMany"], **changes}


def _queue(name: str) -> Config:
    return {"name": name, "cohort": "lab", "resourceGroups": [_group("cpu")]}


def _run(name: str, kind: str, **changes: Any) -> Config:
    base = {"name": name, "kind": kind, "namespace": "research", "image": {"name": "busybox:1.35"}}
    program = {"command": ["sh"], "volumes": [{"volume": "data", "mountPath": "/mnt/data"}]}
    recorded = {"record": {"volume": "data"}} if changes.get("managed", True) else {}
    return {**base, **program, **recorded, **changes}


JAX: Config = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "JAXJob",
    "framework": "kubeflow.org/jaxjob",
    "pods": [
        {
            "name": "worker",
            "template": "spec.jaxReplicaSpecs.Worker.template",
            "replicas": "spec.jaxReplicaSpecs.Worker.replicas",
        }
    ],
}
BASE: Config = {
    "environment": {"namespaces": [{"name": "research"}, {"name": "spare"}]},
    "storage": {
        "classes": [
            {"name": "shared", "provisioner": "a.b/c"},
            {"name": "spare", "provisioner": "a.b/c", "mountOptions": ["nconnect=8"],
             "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}]},
        ],
        "persistentVolumes": [
            {"name": "disk", "storageClass": "manual", "size": "1Gi", "accessModes": ["ReadWriteMany"],
             "hostPath": "/mnt/disk"},
            {"name": "share", "size": "10Ti", "accessModes": ["ReadOnlyMany"], "mountOptions": ["vers=4.1"],
             "source": {"nfs": {"server": "10.0.0.2", "path": "/export"}}, "claim": "research/bound"},
            {"name": "lustre", "size": "1Ti", "accessModes": ["ReadWriteMany"], "reclaimPolicy": "Delete",
             "source": {"csi": {"driver": "fsx.csi.aws.com", "volumeHandle": "fs-1", "fsType": "lustre",
                                "volumeAttributes": {"dnsname": "a.b", "mountname": "c"}}}},
            {"name": "files", "storageClass": "files", "size": "5Gi", "accessModes": ["ReadWriteMany"],
             "source": {"azureFile": {"secretName": "s", "secretNamespace": "research", "shareName": "a"}}},
            {"name": "local", "storageClass": "manual", "size": "5Gi", "accessModes": ["ReadWriteOnce"],
             "source": {"local": {"path": "/mnt/ssd"}}, "node": "a"},
        ],
        "volumes": [
            _volume("data"), _volume("more"), _volume("code-1"), _volume("spare"),
            _volume("bound", storageClass="", volumeName="share", accessModes=["ReadOnlyMany"]),
            _volume("copy", dataSource={"kind": "PersistentVolumeClaim", "name": "data"}),
            _volume("restored", dataSourceRef={"apiGroup": "a.b", "kind": "C", "name": "d"}),
        ],
    },
    "queues": {
        "flavors": [{"name": "cpu"}, {"name": "spare"}],
        "topologies": [{"name": "racks", "levels": ["rack"]}, {"name": "spare", "levels": ["rack"]}],
        "admissionChecks": [
            {"name": "elsewhere", "controllerName": "kueue.x-k8s.io/multikueue",
             "parameters": {"kind": "MultiKueueConfig", "name": "workers"}},
            {"name": "spare", "controllerName": "a.b/c", "parameters": {"apiGroup": "a.b", "kind": "C", "name": "d"}},
        ],
        "provisioningRequestConfigs": [
            {"name": "nodes", "provisioningClassName": "check-capacity.autoscaling.x-k8s.io",
             "podSetUpdates": {"nodeSelector": [{"key": "a", "valueFromProvisioningClassDetail": "b"}]},
             "podSetMergePolicy": "IdenticalPodTemplates"},
        ],
        "multiKueueClusters": [{"name": "west", "kubeConfig": {"location": "west"}}],
        "multiKueueConfigs": [{"name": "workers", "clusters": ["west"]}],
        "cohorts": [{"name": "lab"}, {"name": "spare"}],
        "clusterQueues": [
            _queue("research"),
            {**_queue("spare"), "admissionScope": {"admissionMode": "NoAdmissionFairSharing"},
             "admissionChecks": [{"name": "elsewhere"}, {"name": "spare", "onFlavors": ["cpu"]}]},
        ],
        "localQueues": [
            {"name": "research", "namespace": "research", "clusterQueue": "research"},
            {"name": "spare", "namespace": "research", "clusterQueue": "spare"},
        ],
        "priorityClasses": [{"name": "spare", "value": 1}],
    },
    "tenants": {"teams": [{"name": "vision", "namespace": "research", "groups": ["vision"]}]},
    "secrets": {
        "secrets": [
            {"name": "git", "namespace": "research", "values": {"a": {"secure": CIPHERTEXT}}}
        ]
    },
    "workloads": {
        "runs": [
            _run("job", "Job"),
            _run("pod", "Pod", managed=False),
            _run("loader", "DataLoader", managed=False),
            _run("pytorch", "PyTorchJob", roles={"Master": {}, "Worker": {}}),
            _run("jobset", "JobSet", managed=False, replicatedJobs=[{"name": "a"}, {"name": "b"}]),
            _run("train", "TrainJob", roles={"Master": {}}),
            _run("mpi", "MPIJob", managed=False, sshAuthMountPath="/.ssh", roles={"Launcher": {}, "Worker": {}}),
            _run("ray", "RayJob", managed=False, roles={"head": {}, "submitter": {}, "workers": {}}),
            _run("object", "Object", managed=False, object=JAX, roles={"worker": {}}),
            _run("runtime", "TrainJob", managed=False, volumes=[], runtime="torch-distributed", roles={"Master": {}}),
        ]
    },
}  # fmt: skip


@st.composite
def changes(draw: st.DrawFn) -> list[Change]:
    """Return one to three paths with random values."""
    places = draw(st.lists(st.sampled_from(list(OF_SECTIONS)), min_size=1, max_size=3, unique=True))
    return [(place, draw(OF_SECTIONS[place])) for place in places]


def apply_changes(listed: list[Change]) -> Config:
    """Return the environment with these values. A covered resource is also set in its flavor."""
    config = copy.deepcopy(BASE)
    for place, value in listed:
        holder: Any = config
        for step in place[:-1]:
            holder = holder[step]
        holder[place[-1]] = value
        if place[-2:-1] == ("coveredResources",):
            config["queues"]["clusterQueues"][1]["resourceGroups"][0]["flavors"][0]["resources"][0]["name"] = value
    return config
