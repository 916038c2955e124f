"""The local cluster simulates the reference systems, with their rules, classes, images and folders."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import traces
from tests.cluster.people import (
    NAMESPACE,
    PRODUCT,
    QUEUE,
    Person,
    cluster_command,
    make_claim,
    make_job,
    make_pod,
)
from tests.cluster.project import Project, eventually
from trainstack.local_cluster import cgroups, network
from trainstack.local_cluster import cluster as native
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.state_folder import MOUNT_POINT_ATTRIBUTE, Layout

pytestmark = pytest.mark.cluster

FOLDERS = ("/home/traindbjst/traindb/models", "/mnt/disks/local-storage")


def test_the_status_names_the_sites_and_the_node_has_their_gpus(sites: LocalCluster, owner: Person) -> None:
    """The sites were added at run time. An unknown site is refused with the nearest name, and changes nothing."""
    done = cluster_command("status", "--state", str(sites.state))
    assert "sites: eidf, traindb, vsphere, azurestack\n" in done.out, done.text
    node = owner.get("node", "local")
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "4"
    assert node["metadata"]["labels"]["nvidia.com/gpu.product"] == PRODUCT
    done = cluster_command("up", "--state", str(sites.state), "--site", "eidff")
    assert done.code == 1
    assert "Did you mean eidf?" in done.err


def test_the_user_of_vsphere_has_a_namespace(owner: Person) -> None:
    """The namespace belongs to its owner, with the labels of a Kubeflow profile and without our labels."""
    labels = owner.get("namespace", "user")["metadata"]["labels"]
    assert labels["istio-injection"] == "enabled"
    assert labels["pod-security.kubernetes.io/enforce"] == "baseline"
    assert not [label for label in labels if label.startswith("trainstack.dev/")]


def test_an_unknown_service_account_is_refused(sites: LocalCluster) -> None:
    """The error lists the existing ones."""
    done = cluster_command("kubeconfig", "--state", str(sites.state), "--as", f"{NAMESPACE}/nobody")
    assert done.code == 1
    assert f"no service account nobody in namespace {NAMESPACE}; existing ones: default, researcher" in done.err


def test_the_training_operator_of_a_stateful_set_is_recognized(
    sites: LocalCluster, owner: Person, tmp_path: Path
) -> None:
    """`check` does not suggest a second one, and a declared one is refused; the first is unchanged."""
    pod = owner.get("pod", "training-operator-0", "kubeflow")
    assert [reference["kind"] for reference in pod["metadata"]["ownerReferences"]] == ["StatefulSet"]
    assert len(pod["spec"]["containers"]) == 2
    copy = Project.copy(tmp_path, sites)
    for stack in ("vsphere", "traindb"):
        assert operator_findings(copy.environment(stack, sites.kubeconfig)) == []
    config = {"trainstack:operators": {"trainingOperator": {}}, "trainstack:queues": {"priorityClasses": None}}
    second = copy.other_stack("second", config)
    assert operator_findings(second) == [("operator-duplicate", "error", "operators.trainingOperator")]
    done = second.up()
    assert done.code != 0
    assert "CustomResourceDefinition pytorchjobs.kubeflow.org exists and was created by another owner" in done.text
    assert owner.get("deployment", "training-operator", "kubeflow") == {}
    assert owner.get("pod", "training-operator-0", "kubeflow")["metadata"]["uid"] == pod["metadata"]["uid"]


def operator_findings(project: Project) -> list[tuple[str, str, str]]:
    """Return rule, severity and path of the operator findings of `check --cluster`."""
    findings = json.loads(project.trainstack("check", "--cluster", "--json").out)["findings"]
    return [
        (finding["id"], finding["severity"], finding["path"])
        for finding in findings
        if finding["id"].startswith("operator-")
    ]


def await_refusal(person: Person, body: dict[str, Any], message: str) -> None:
    """Wait until the API server refuses an object with this message. A new policy takes effect with a delay."""
    eventually(message, lambda: message in person.kubectl("create", "--dry-run=server", body=body).err, 30)


def test_the_tenants_rules(owner: Person, tenant: Person) -> None:
    """The API server refuses each violation with a plain message, and accepts a valid Job, with a TTL of a week."""
    violations: dict[str, Callable[[dict[str, Any]], Any]] = {
        f"Jobs must have the label kueue.x-k8s.io/queue-name: {QUEUE}": lambda job: job["metadata"].pop("labels"),
        "Jobs must set metadata.generateName": lambda job: job["metadata"].update(generateName="", name="fixed"),
        "activeDeadlineSeconds must be at most 3024000": lambda job: job["spec"].update(activeDeadlineSeconds=3024001),
    }
    for message, violate in violations.items():
        job = make_job()
        violate(job)
        await_refusal(tenant, job, message)
    pod = make_pod("alone", "busybox")
    pod["metadata"]["namespace"] = NAMESPACE
    await_refusal(tenant, pod, "Pods must have an owner")
    job = tenant.create(make_job(command="echo trained", activeDeadlineSeconds=3024000))
    assert job["spec"]["ttlSecondsAfterFinished"] == 604800
    assert tenant.create(make_job(ttlSecondsAfterFinished=60))["spec"]["ttlSecondsAfterFinished"] == 60
    assert list(tenant.await_succeeded(f"job-name={job['metadata']['name']}", NAMESPACE, 1).values()) == ["trained\n"]
    workloads = tenant.items("workloads", NAMESPACE)
    assert any(workload["metadata"]["ownerReferences"][0]["name"] == job["metadata"]["name"] for workload in workloads)
    unrestricted_pod = make_pod("elsewhere", "busybox", command=["true"])
    assert owner.create(unrestricted_pod)["metadata"]["name"] == "elsewhere"


@pytest.mark.parametrize(
    "resource", ["nodes", "storageclasses", "clusterqueues", "resourceflavors", "namespaces", "pv"]
)
def test_a_tenant_cannot_read_cluster_scoped_objects(tenant: Person, resource: str) -> None:
    done = tenant.kubectl("get", resource)
    assert done.code == 1
    assert "is forbidden" in done.err


def test_a_tenant_can_read_its_queue_and_no_other_namespace(tenant: Person) -> None:
    """Kueue's visibility API also lists the pending workloads of the queue."""
    assert tenant.kubectl("get", "localqueues", "-o", "name").out.split() == [f"localqueue.kueue.x-k8s.io/{QUEUE}"]
    path = f"/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/localqueues/{QUEUE}/pendingworkloads"
    assert tenant.kubectl("get", "--raw", path).code == 0
    assert "is forbidden" in tenant.kubectl("get", "pods", "-n", "default").err


def test_the_model_is_in_the_nodes_folder(sites: LocalCluster, owner: Person) -> None:
    """A pod writes it to a hostPath volume, and a non-root pod reads it. The folder of this machine stays empty."""
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "models-by-hand", "labels": {"type": "by-hand"}},
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "manual",
            "hostPath": {"path": FOLDERS[0], "type": "Directory"},
        },
    }
    owner.create(volume)
    selector = {"matchLabels": {"type": "by-hand"}}
    owner.create(make_claim("models", "manual", "ReadWriteMany", "default", selector=selector))
    owner.create(make_pod("trainer", "busybox", claim="models", command=["touch", "/data/mnist_cnn.pt"]))
    assert list(owner.await_succeeded("test=trainer", "default", 1).values()) == [""]
    script = ["sh", "-c", "touch /data/written && ls /data"]
    owner.create(make_pod("reader", "busybox", claim="models", command=script, securityContext={"runAsUser": 1000}))
    assert list(owner.await_succeeded("test=reader", "default", 1).values()) == ["mnist_cnn.pt\nwritten\n"]
    assert not list(Path(FOLDERS[0]).iterdir())
    kept = Path(sites.state, "node-folders", FOLDERS[0].lstrip("/"))
    assert sorted(path.name for path in kept.iterdir()) == ["mnist_cnn.pt", "written"]


def assert_nothing_left(state: Path, inside: traces.ProcessNamespaces, before: traces.Traces) -> None:
    """Assert that this machine has no trace of the cluster.

    Other clusters may have started, stopped or covered the same folders meanwhile.
    """
    now, layout, hierarchies = traces.collect_traces(state, inside), Layout.of(state), cgroups.read_hierarchies()
    assert (now.processes, now.mounts, now.cgroups) == (before.processes, before.mounts, before.cgroups)
    assert (now.firewall, now.sysctls) == (before.firewall, before.sysctls)
    assert not network.has_link(layout.cgroup)
    others = {f"{MOUNT_POINT_ATTRIBUTE}.{name}" for name in cgroups.cluster_names(hierarchies)}
    assert not [folder for folder in FOLDERS if Path(folder).exists() and not others & set(os.listxattr(folder))]


@pytest.mark.last
def test_a_restart_keeps_sites_and_files_and_a_final_down_leaves_nothing(
    traces_before_sites: traces.Traces, sites: LocalCluster, owner: Person
) -> None:
    """The files are in the node's folders."""
    inside = traces.process_namespaces(sites.pid)
    native.down(sites.state)
    assert_nothing_left(sites.state, inside, traces_before_sites)
    done = cluster_command("up", "--state", str(sites.state))
    assert done.code == 0, done.text
    restarted = native.status(sites.state)
    assert restarted.ready
    assert restarted.cluster
    assert restarted.cluster.server == sites.server
    words = ["ls", "/data/mnist_cnn.pt", "/data/written"]
    owner.create(make_pod("later", "busybox", claim="models", command=words))
    assert list(owner.await_succeeded("test=later", "default", 1).values()) == ["/data/mnist_cnn.pt\n/data/written\n"]
    inside = traces.process_namespaces(restarted.cluster.pid)
    native.down(sites.state, keep_data=False)
    assert_nothing_left(sites.state, inside, traces_before_sites)
    assert not sites.state.exists()
