"""Pod Security `restricted`: the API server accepts our pods without warnings, and refuses upstream's failing ones."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from tests.cluster.lab import Config, managed_run, unmanaged_run, volume
from tests.cluster.project import Project, eventually
from trainstack.objects.labels import STACK
from trainstack.runs.manifests.launched_pods import launched_pods
from trainstack.toolchain import go_toolchain
from trainstack.toolchain.build import Builder
from trainstack.toolchain.groups import GROUPS_BY_NAME

pytestmark = pytest.mark.cluster

NAMESPACE = "research"
"""It is in the dev environment, which does not set Pod Security: the default is `restricted` in all modes."""
MODULE, FIXTURES = "k8s.io/pod-security-admission", "test/testdata/restricted/v1.34/fail"
"""Upstream's pods that violate the level, in the pinned Go module of the cluster's API server."""
CODE = {"git": "https://git.example.org/code.git", "revision": "1" * 40, "mountPath": "/code", "secret": "git"}
PRIVILEGED = "local-path-storage"
"""The local cluster's namespace that enforces no level."""
LINUX = {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}
AFFINITY: Config = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [LINUX]}]}
    },
    "podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}}
        ]
    },
}
STRICT = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
HELPER: Config = {
    "name": "helper",
    "image": "busybox:1.35",
    "command": ["sleep", "600"],
    "restartPolicy": "Always",
    "resources": {"requests": {"cpu": "10m"}},
    "securityContext": STRICT,
}
EQUIPMENT: Config = {
    "affinity": AFFINITY,
    "scratch": [
        {"name": "disk", "mountPath": "/disk", "size": "16Mi"},
        {"name": "ram", "mountPath": "/ram", "size": "8Mi", "medium": "Memory"},
        {"name": "claim", "mountPath": "/claim", "size": "32Mi", "storageClass": "shared"},
    ],
    "capabilities": {"add": ["NET_BIND_SERVICE"]},
    "podPatch": {
        "metadata": {"annotations": {"team": "vision"}},
        "spec": {"initContainers": [HELPER], "dnsConfig": {"options": [{"name": "ndots", "value": "2"}]}},
    },
}
"""All options that a run in a restricted namespace may have."""
IPC_LOCK = 14
"""The bit of the capability in the kernel's sets."""
CONTROLLERS = {"kueue-system", "kubeflow", "jobset-system", "kubeflow-system"}
"""The namespaces of controllers. Only they use the API server, and so have its token."""


def runs() -> list[Config]:
    """Return a run of each kind, managed and unmanaged, with all options that add a container or a volume."""
    role: Config = {"restartPolicy": "OnFailure"}
    roles = {"Master": role, "Worker": role}
    jobs = [{"name": "node", "parallelism": 2}]
    command = ["true"]
    plain = [
        run | {"namespace": NAMESPACE, "queue": None}
        for run in (
            managed_run("job", "pass", sharedMemory="16Mi", code=CODE),
            managed_run("torch", "pass", "PyTorchJob", roles=roles),
            managed_run("train", "pass", "TrainJob", roles=roles),
            managed_run("set", "pass", "JobSet", replicatedJobs=jobs),
            unmanaged_run("plain-pod", "Pod", command=command),
            unmanaged_run("plain-job", command=command, code={**CODE, "secret": None}),
            unmanaged_run("plain-torch", "PyTorchJob", command=command, roles=roles),
            unmanaged_run("plain-set", "JobSet", command=command, replicatedJobs=jobs),
            unmanaged_run("loader", "DataLoader"),
        )
    ]
    node: Config = {"hostNetwork": True, "capabilities": {"add": ["IPC_LOCK"]}, "volumes": []}
    script = ["sh", "-c", "touch /disk/a /ram/a /claim/a && sleep 600"]
    special = [
        unmanaged_run("equipped", command=script, volumes=[], **EQUIPMENT),
        unmanaged_run("on-node", "Pod", command=["sleep", "600"], restartPolicy="Never", **node),
    ]
    return [
        *plain,
        *(run | EQUIPMENT | {"name": f"{run['name']}-more"} for run in plain),
        *(run | {"namespace": NAMESPACE, "queue": None} for run in special),
    ]


def make_environment() -> Config:
    """Return an environment with all operators and all kinds of runs."""
    frameworks = ["batch/job", "kubeflow.org/pytorchjob", "jobset.x-k8s.io/jobset", "trainer.kubeflow.org/trainjob"]
    kueue = {"configuration": {"frameworks": frameworks}}
    return {
        "trainstack:environment": {"namespaces": [{"name": NAMESPACE}]},
        "trainstack:operators": {"kueue": kueue, "trainingOperator": {}, "jobset": {}, "trainer": {}},
        "trainstack:queues": {"priorityClasses": None},
        "trainstack:storage": {"volumes": [volume("lab", NAMESPACE)]},
        "trainstack:workloads": {"runs": runs()},
    }


def launch_of(rendered: list[dict[str, Any]], workload: str) -> dict[str, Any]:
    """Return a run's launch, which is not its ledger."""
    of_run = [
        manifest for manifest in rendered if manifest["metadata"]["labels"].get("trainstack.dev/workload") == workload
    ]
    (body,) = (manifest for manifest in of_run if manifest["kind"] != "ConfigMap")
    return body


@contextmanager
def created_launch(project: Project, body: dict[str, Any], namespace: str) -> Iterator[list[dict[str, Any]]]:
    """Create a launch that Kueue does not manage, yield its running pods, and delete it afterwards."""
    metadata = body["metadata"]
    stored = {**body, "metadata": {**metadata, "namespace": namespace}}
    selector = f"trainstack.dev/launch={metadata['labels']['trainstack.dev/launch']}"
    assert project.kubectl("create", stdin=yaml.safe_dump(stored)).code == 0

    def running() -> list[dict[str, Any]]:
        pods = project.select("pods", selector, namespace)
        return pods if pods and all(pod["status"]["phase"] == "Running" for pod in pods) else []

    try:
        yield eventually("a running pod", running)
    finally:
        words = ("-n", namespace, f"{body['kind'].lower()}/{metadata['name']}")
        done = project.kubectl("delete", *words, "--cascade=foreground", "--grace-period=1", "--timeout=60s")
    assert done.code == 0, done.text


def dry_run(project: Project, pods: dict[str, dict[str, Any]]) -> str:
    """Create these pods in the namespace by a dry run of the API server, and return its warnings."""
    bodies = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}
        for name, spec in pods.items()
    ]
    done = project.kubectl("create", "--dry-run=server", stdin=yaml.safe_dump_all(bodies))
    assert done.code == 0, done.text
    assert sorted(done.out.splitlines()) == [f"pod/{name} created (server dry run)" for name in sorted(pods)]
    return done.err


def spec_of(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a pod's spec without the fields that bind it to a node or a service account."""
    bound = ("nodeName", "serviceAccount", "serviceAccountName")
    return {key: value for key, value in spec.items() if key not in bound}


def audit_violations(project: Project) -> float:
    """Return the number of violations of `restricted` in the API server's audit log."""
    done = project.kubectl("get", "--raw", "/metrics")
    assert done.code == 0, done.text
    lines = re.findall(r"^pod_security_evaluations_total\{(.*)\} (\S+)$", done.out, re.MULTILINE)
    denied = ('decision="deny"', 'mode="audit"', 'policy_level="restricted"')
    return sum(float(count) for labels, count in lines if all(label in labels for label in denied))


@pytest.fixture(scope="module")
def rendered(dev: Project) -> list[dict[str, Any]]:
    """Return the objects of the environment."""
    done = dev.other_stack("strict", make_environment()).trainstack("render")
    assert done.code == 0, done.text
    return [body for body in yaml.safe_load_all(done.out) if body]


def test_pods_of_every_kind_are_accepted_without_warnings(dev: Project, rendered: list[dict[str, Any]]) -> None:
    """Runs of all kinds, loaders, checkouts and the controllers of all operators cause no warning or audit entry."""
    pods: dict[str, dict[str, Any]] = {}
    for body in rendered:
        name = body["metadata"]["name"]
        companions = [
            manifest
            for manifest in rendered
            if manifest["kind"] == "TrainingRuntime" and manifest["metadata"]["name"] == name
        ]
        for pod in launched_pods(body, companions):
            if not name.startswith("on-node-"):
                pods[f"{body['kind'].lower()}-{name}-{pod.name}"] = spec_of(dict(pod.spec))
        if body["kind"] == "Deployment":
            pods[f"deployment-{name}"] = spec_of(body["spec"]["template"]["spec"])
    kinds = {name.partition("-")[0] for name in pods}
    assert kinds == {"deployment", "job", "jobset", "pod", "pytorchjob", "trainjob"}
    assert sum(name.startswith("deployment-") for name in pods) == 4
    assert any("initContainers" in spec for spec in pods.values())
    before = audit_violations(dev)
    assert dry_run(dev, pods) == ""
    assert audit_violations(dev) == before


def test_live_pods_are_accepted_where_restricted_is_enforced(dev: Project) -> None:
    """They are those of the run and of the controllers, and only the controllers' have a token of the API."""
    namespaces = dev.get("namespaces", namespace="")["items"]
    labelled = {namespace["metadata"]["name"]: namespace["metadata"]["labels"] for namespace in namespaces}
    ours = {name: labels for name, labels in labelled.items() if labels.get(STACK) == dev.stack}
    assert ours.keys() == {NAMESPACE, "kueue-system", "jobset-system", "kubeflow-system"}
    for labels in ours.values():
        levels = {labels[f"pod-security.kubernetes.io/{mode}"] for mode in ("enforce", "warn", "audit")}
        assert levels == {"restricted"}
    live = [pod for pod in dev.get("pods")["items"] if pod["metadata"]["namespace"] in ours]
    assert {pod["metadata"]["namespace"] for pod in live} == ours.keys()
    for pod in live:
        projected = (volume.get("projected", {}) for volume in pod["spec"].get("volumes", ()))
        has_token = any("serviceAccountToken" in item for source in projected for item in source.get("sources", ()))
        assert has_token == (pod["metadata"]["namespace"] in CONTROLLERS), pod["metadata"]["name"]
    before = audit_violations(dev)
    assert dry_run(dev, {f"again-{pod['metadata']['name']}": spec_of(pod["spec"]) for pod in live}) == ""
    assert audit_violations(dev) == before


def test_live_pods_have_the_fields_of_their_run(dev: Project, rendered: list[dict[str, Any]]) -> None:
    """Affinity, writable scratch volumes, capabilities and the patch apply; a scratch claim is deleted with its pod."""
    body = launch_of(rendered, "equipped")
    with created_launch(dev, body, NAMESPACE) as (pod,):
        spec, (main,) = pod["spec"], pod["spec"]["containers"]
        assert spec["affinity"] == AFFINITY
        assert main["securityContext"]["capabilities"] == {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}
        assert pod["metadata"]["annotations"]["team"] == "vision"
        assert spec["dnsConfig"] == EQUIPMENT["podPatch"]["spec"]["dnsConfig"]
        (helper,) = spec["initContainers"]
        assert {key: helper[key] for key in HELPER} == HELPER
        written = dev.kubectl("exec", "-n", NAMESPACE, pod["metadata"]["name"], "-c", main["name"], "--", "df", "/ram")
        assert "tmpfs" in written.out, written.text
        claim = f"{pod['metadata']['name']}-trainstack-scratch-claim"
        live = dev.get("pvc", claim, NAMESPACE)
        assert (live["spec"]["storageClassName"], live["status"]["phase"]) == ("shared", "Bound")
    eventually("the claim went with its pod", lambda: not dev.get("pvc", claim, NAMESPACE))


def test_a_pod_on_the_host_network_needs_a_privileged_namespace(dev: Project, rendered: list[dict[str, Any]]) -> None:
    """`restricted` refuses the pod. In a privileged namespace, it has the node's address and resolves Services."""
    body = launch_of(rendered, "on-node")
    assert dev.other_stack("strict", make_environment()).trainstack("check").code != 0
    done = dev.kubectl("create", "--dry-run=server", stdin=yaml.safe_dump(body))
    assert "host namespaces (hostNetwork=true)" in done.err
    assert "IPC_LOCK" in done.err
    with created_launch(dev, body, PRIVILEGED) as (pod,):
        assert pod["status"]["podIP"] == pod["status"]["hostIP"]
        name = pod["metadata"]["name"]
        found = dev.kubectl("exec", "-n", PRIVILEGED, name, "--", "nslookup", "kubernetes.default.svc.cluster.local")
        assert found.code == 0, found.text
        granted = dev.kubectl("exec", "-n", PRIVILEGED, name, "--", "grep", "CapBnd", "/proc/1/status")
        assert int(granted.out.split()[1], 16) == 1 << IPC_LOCK


def test_the_failing_pods_of_upstream_are_refused(dev: Project) -> None:
    """Each refusal has the level's name, so the level is in force where our pods are accepted."""
    folder = fixtures()
    pods = {}
    for file in sorted(folder.glob("*.yaml")):
        body = yaml.safe_load(file.read_text(encoding="utf-8"))
        body["metadata"] |= {"name": file.stem.lower().replace("_", "-"), "namespace": NAMESPACE}
        pods[body["metadata"]["name"]] = body
    assert len(pods) > 50
    before = audit_violations(dev)
    done = dev.kubectl("create", "--dry-run=server", stdin=yaml.safe_dump_all(pods.values()))
    assert done.code != 0
    assert done.out == ""
    refused = re.findall(r'pods "(\S+)" is forbidden: violates PodSecurity "restricted:latest"', done.err)
    assert sorted(refused) == sorted(pods)
    assert audit_violations(dev) == before + len(pods)


def fixtures() -> Path:
    """Return the folder in Go's module cache, which `go mod download` has verified against go.sum."""
    builder = Builder(go_toolchain.ensure(Console(stderr=True)))
    return builder.module_folder(GROUPS_BY_NAME["cluster"], MODULE) / FIXTURES


def test_network_policies_allow_only_replicas_and_dns(dev: Project) -> None:
    """Only the objects are checked, because this cluster does not enforce network policies.

    The policy for replicas selects the live pods of a run. The API server has added defaults, but changed nothing else.
    """
    policies = {body["metadata"]["name"]: body for body in dev.get("networkpolicies", namespace=NAMESPACE)["items"]}
    assert policies.keys() == {"trainstack-isolated", "trainstack-replicas"}
    isolated, replicas = (policies[f"trainstack-{name}"]["spec"] for name in ("isolated", "replicas"))
    assert isolated["podSelector"] == {}
    assert all(spec["policyTypes"] == ["Ingress", "Egress"] for spec in (isolated, replicas))
    assert "ingress" not in isolated
    (dns,) = isolated["egress"]
    assert {(port["protocol"], port["port"]) for port in dns["ports"]} == {("UDP", 53), ("TCP", 53)}
    assert dns["to"] == [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}},
        {"ipBlock": {"cidr": "169.254.20.10/32"}},
    ]
    (label,) = (selector["key"] for selector in replicas["podSelector"]["matchExpressions"])
    pods = dev.select("pods", "trainstack.dev/workload=digits", NAMESPACE)
    assert pods
    assert all(label in pod["metadata"]["labels"] for pod in pods)
    assert replicas["ingress"] == [{"from": [{"podSelector": replicas["podSelector"]}]}]
    assert replicas["egress"] == [{"to": [{"podSelector": replicas["podSelector"]}]}]
