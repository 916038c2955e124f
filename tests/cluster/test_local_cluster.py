"""The local cluster: its features, its access control, and its recovery from the death of a component."""

import json
import os
import shutil
import signal
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.pods import PODS, api_of, await_phase, make_pod, make_spec, run_pod
from tests.cluster.project import Project
from tests.cluster.registry_push import push
from trainstack.local_cluster import cluster
from trainstack.local_cluster.api import object_path
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.image_archive import Symlink
from trainstack.local_cluster.processes import wait_until

pytestmark = pytest.mark.cluster
NAMESPACE = {
    "trainstack:environment": {"layers": ["platform"], "namespaces": [{"name": "small"}]},
    "trainstack:cluster": {"local": True},
    "trainstack:operators": {"kueue": None, "jobset": None, "trainer": None},
    "trainstack:queues": {"priorityClasses": None},
}
"""An environment with only a namespace."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Start one cluster with GPUs and simulated nodes, for the tests that do not harm it."""
    folder = tmp_path_factory.mktemp("running")
    with cluster.temporary_cluster(folder / "cluster", make_spec(folder, gpus=2, simulated_nodes=2)) as found:
        yield found


def test_up_again_changes_nothing_and_refuses_other_options(running: LocalCluster) -> None:
    """Options that would end the pods of a ready cluster are refused with the remedy."""
    assert cluster.up(running.state) == running
    with pytest.raises(LocalClusterError, match=r"\(simulated_nodes: 2 → 3\).*cluster down"):
        cluster.up(running.state, make_spec(running.state.parent, gpus=4, simulated_nodes=3))


def test_gpus_change_without_a_restart(running: LocalCluster) -> None:
    """`up` returns once the node has the GPUs."""
    api = api_of(running)
    for count, product in ((5, "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"), (2, "NVIDIA-A100-SXM4-40GB")):
        spec = make_spec(running.state.parent, gpus=count, gpu_product=product, simulated_nodes=2)
        assert cluster.up(running.state, spec) == running
        node = api.request("GET", f"/api/v1/nodes/{running.node}")
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == str(count)
        assert node["metadata"]["labels"]["nvidia.com/gpu.product"] == product


def test_pods_resolve_names_and_reach_only_services(running: LocalCluster) -> None:
    """Cluster DNS and services work between pods on the node; connections elsewhere fail at once, without a timeout."""
    api = api_of(running)
    server = make_pod("server", "mkdir /tmp/w; echo page > /tmp/w/index.html; exec httpd -f -p 8000 -h /tmp/w")
    server["metadata"]["labels"] = {"app": "server"}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "server"}, "ports": [{"port": 80, "targetPort": 8000}]},
    }
    api.request("POST", PODS, server)
    api.request("POST", object_path(service).rpartition("/")[0], service)
    await_phase(api, "server", "Running")
    script = """
        nslookup web.default.svc.cluster.local
        until printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 2 "$(nslookup web.default.svc.cluster.local \
            | awk '/^Address/ {last = $2} END {print last}')" 80 | grep page; do sleep 0.2; done
        nc -w 20 192.0.2.77 80 < /dev/null || echo unreachable
    """
    output = run_pod(api, make_pod("client", script))
    assert "Name:\tweb.default.svc.cluster.local" in output
    assert "page" in output.splitlines()
    assert "unreachable" in output.splitlines()


def test_volumes_are_bound_written_and_read(running: LocalCluster) -> None:
    """A pod that is not root writes to claims of both provisioners, and another pod reads them.

    The folders of the volumes are open to all accounts of the pods, and their parent to none of this machine.
    """
    api = api_of(running)
    for name, provisioner in (("any-name", "rancher.io/local-path"), ("tied", "rancher.io/local-path-node")):
        api.request(
            "POST",
            "/apis/storage.k8s.io/v1/storageclasses",
            {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"},
        )
    for name, storage_class, mode in (("many", "any-name", "ReadWriteMany"), ("once", "tied", "ReadWriteOnce")):
        claim = {
            "metadata": {"name": name},
            "spec": {
                "storageClassName": storage_class,
                "accessModes": [mode],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        api.request("POST", "/api/v1/namespaces/default/persistentvolumeclaims", claim)
    volumes: dict[str, Any] = {
        "volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("many", "once")],
        "volumeMounts": [{"name": name, "mountPath": f"/{name}"} for name in ("many", "once")],
        "securityContext": {"runAsUser": 1000, "runAsNonRoot": True},
    }
    run_pod(api, make_pod("writer", "echo kept > /many/file; echo kept > /once/file", **volumes))
    assert run_pod(api, make_pod("reader", "cat /many/file /once/file", **volumes)) == "kept\nkept\n"
    files = [*Path(running.state, "volumes").rglob("file")]
    assert [path.read_text() for path in files] == ["kept\n", "kept\n"]
    assert {path.parent.stat().st_mode & 0o777 for path in files} == {0o777}
    assert running.state.stat().st_mode & 0o777 == 0o700


def test_every_image_name_is_pulled_from_the_local_registry(running: LocalCluster) -> None:
    """An image pushed as `team/tool` is pulled under every registry's name, also with pull policy Always."""
    api, busybox = api_of(running), shutil.which("busybox")
    assert busybox
    files: dict[str, bytes | Symlink] = {"bin/busybox": Path(busybox).read_bytes(), "bin/sh": Symlink("/bin/busybox")}
    push(running.registry, "team/tool", "1.0", files)
    for number, registry in enumerate(("", "docker.io/", "registry.local/", "images.example.com:8443/")):
        pod = make_pod(f"pull-{number}", "echo here", image=f"{registry}team/tool:1.0", imagePullPolicy="Always")
        assert run_pod(api, pod) == "here\n"


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_registry_refuses_clients_without_credentials(running: LocalCluster, method: str) -> None:
    """Pulls and pushes are refused without a certificate, by plain HTTP, from another account and from a pod."""
    path = {"GET": "tags/list", "POST": "blobs/uploads/"}[method]
    url = f"https://{running.registry.address}/v2/kueue/kueue/{path}"
    authority = ssl.create_default_context(cafile=str(running.registry.authority))
    with pytest.raises(OSError, match=r"(?i)alert.(bad.certificate|certificate.required)"):
        urllib.request.urlopen(urllib.request.Request(url, method=method), context=authority, timeout=10)

    request = f"{method} /v2/kueue/kueue/{path} HTTP/1.0\r\n\r\n"
    host, _, port = running.registry.address.partition(":")
    refused = "Client sent an HTTP request to an HTTPS server"
    busybox = [shutil.which("busybox") or "busybox", "nc", "-w", "10", host, port]
    other_account = subprocess.run(
        busybox, input=request, capture_output=True, text=True, check=False, user=65534, group=65534, extra_groups=[]
    )
    assert refused in other_account.stdout
    script = f"printf '{request}' | nc -w 10 {host} {port}"
    assert refused in run_pod(api_of(running), make_pod(f"client-{method.lower()}", script))


def test_the_registry_files_are_private(running: LocalCluster) -> None:
    """No other account can read the client's key or the stored images."""
    images = running.state.parent / "registry"
    assert {path.stat().st_mode & 0o777 for path in (running.registry.certs, images)} == {0o700}
    assert running.registry.client_pair[1].stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("name", "message"), [("thesis.tex", r"contains thesis\.tex"), ("log", r"has no spec\.json")])
def test_down_keeps_a_folder_without_a_cluster(tmp_path: Path, name: str, message: str) -> None:
    """A mistyped --state deletes no files."""
    (tmp_path / name).write_text("years of work")
    with pytest.raises(LocalClusterError, match=message):
        cluster.down(tmp_path, keep_data=False)
    cluster.down(tmp_path)
    assert (tmp_path / name).read_text() == "years of work"


def test_simulated_gpus(running: LocalCluster) -> None:
    """The real node runs containers that request GPUs; simulated nodes accept only pods that tolerate them."""
    api = api_of(running)
    gpu = {"limits": {"nvidia.com/gpu": "2"}}
    assert run_pod(api, make_pod("gpu", "echo ran", resources=gpu)) == "ran\n"
    product = {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}}
    api.request("POST", PODS, make_pod("too-big", "echo no", resources={"limits": {"nvidia.com/gpu": "8"}}, **product))

    def unschedulable() -> bool:
        conditions = api.request("GET", f"{PODS}/too-big")["status"].get("conditions", [])
        return any(condition.get("reason") == "Unschedulable" for condition in conditions)

    assert wait_until(unschedulable, 20, 0.2)
    job = {
        "metadata": {"name": "simulated"},
        "spec": {
            "completions": 2,
            "parallelism": 2,
            "template": {
                "metadata": {"annotations": {"pod-complete.stage.kwok.x-k8s.io/delay": "2s"}},
                "spec": {
                    "restartPolicy": "Never",
                    "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
                    "containers": [{"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "8"}}}],
                },
            },
        },
    }
    api.request("POST", "/apis/batch/v1/namespaces/default/jobs", job)

    def succeeded() -> bool:
        status = api.request("GET", "/apis/batch/v1/namespaces/default/jobs/simulated")["status"]
        return bool(status.get("succeeded") == 2)

    assert wait_until(succeeded, 30, 0.2)
    pods = api.request("GET", f"{PODS}?labelSelector=job-name%3Dsimulated")["items"]
    assert {pod["spec"]["nodeName"] for pod in pods} == {"simulated-0", "simulated-1"}


def test_up_without_a_kubeconfig_starts_a_local_cluster(tmp_path: Path, running: LocalCluster) -> None:
    """The cluster belongs to the checkout; a second `up` uses it unchanged, and `cluster down` removes it."""
    project = Project.copy(tmp_path, running).other_stack("small", NAMESPACE)
    local = {"KUBECONFIG": None}
    words = ["up", "-s", "small", "--yes"]
    try:
        for _ in range(2):
            done = project.run(words, trainstack=True, environment=local)
            assert done.code == 0, done.text
        status = project.run(["cluster", "status", "--json"], trainstack=True, environment=local)
        assert json.loads(status.out)["ready"] is True
        own = Project(project.root, project.root / ".trainstack" / "cluster" / "kubeconfig", "small")
        assert own.kubectl("get", "namespace", "small").code == 0
        assert project.kubectl("get", "namespace", "small").code != 0
    finally:
        done = project.run(["cluster", "down", "--wipe"], trainstack=True, environment=local)
        assert done.code == 0, done.text
    assert not (project.root / ".trainstack" / "cluster").exists()


@pytest.mark.parametrize("victim", ["kubelet", "containerd", "etcd", "apiserver", "coredns", "reconcile"])
def test_a_killed_component_restarts_and_pods_keep_running(running: LocalCluster, victim: str) -> None:
    """After a SIGKILL the component is restarted, the cluster is ready, and pods keep their containers and GPUs."""
    api, name = api_of(running), f"survivor-{victim}"
    api.request("POST", PODS, make_pod(name, "sleep 1000", resources={"limits": {"nvidia.com/gpu": "1"}}))
    await_phase(api, name, "Running")
    before = {component.name: component for component in cluster.status(running.state).components}[victim]
    os.kill(before.pid, signal.SIGKILL)

    def restarted() -> bool:
        now = cluster.status(running.state)
        after = {component.name: component for component in now.components}[victim]
        return now.ready and after.restarts == before.restarts + 1

    assert wait_until(restarted, 30, 0.2), cluster.status(running.state).problem
    assert run_pod(api, make_pod(f"after-{victim}", "echo fine")) == "fine\n"
    status = api.request("GET", f"{PODS}/{name}")["status"]
    assert status["phase"] == "Running"
    assert status["containerStatuses"][0]["restartCount"] == 0
    api.request("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")
    assert wait_until(lambda: api.find(f"{PODS}/{name}") is None, 30, 0.2)
