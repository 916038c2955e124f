"""Two clusters on one machine, one of which dispatches runs to the other with MultiKueue."""

import base64
import ctypes
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.lab import Config
from tests.cluster.project import Project
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.network import API_PORT

NAMESPACE = QUEUE = "research"
HUB, WEST = "hub", "west"
"""The stacks, and the contexts of their clusters: the manager, and the worker."""
FRAMEWORKS = ["batch/job", "jobset.x-k8s.io/jobset"]


def environment(stack: str, nominal_cpu: int, **workloads: Any) -> Config:
    """Return the environment of a cluster; namespace, queue and volume have the same names in both."""
    quotas = [{"name": "cpu", "nominalQuota": nominal_cpu}, {"name": "memory", "nominalQuota": "4Gi"}]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "cpu", "resources": quotas}]}
    small = {"requests": {"cpu": "50m", "memory": "128Mi"}}
    volume = {"name": "training", "namespace": NAMESPACE, "storageClass": "shared", "size": "1Gi"}
    return {
        "trainstack:environment": {"namespaces": [{"name": NAMESPACE}]},
        "trainstack:cluster": {"context": stack},
        "trainstack:storage": {
            "classes": [{"name": "shared", "provisioner": "rancher.io/local-path"}],
            "volumes": [{**volume, "accessModes": ["ReadWriteMany"], "retain": False}],
        },
        "trainstack:queues": {
            "flavors": [{"name": "cpu"}],
            "clusterQueues": [{"name": QUEUE, "resourceGroups": [group]}],
            "localQueues": [{"name": QUEUE, "namespace": NAMESPACE, "clusterQueue": QUEUE}],
        },
        "trainstack:operators": {"kueue": small | {"configuration": {"frameworks": FRAMEWORKS}}, "jobset": small},
        "trainstack:workloads": workloads,
    }


def hub(*runs: Config) -> Config:
    """Return the manager's environment, with an admission check on the queue and the runs."""
    config = environment(HUB, 2, runs=list(runs))
    parameters = {"kind": "MultiKueueConfig", "name": "workers"}
    controller = "kueue.x-k8s.io/multikueue"
    config["trainstack:queues"] |= {
        "multiKueueClusters": [{"name": WEST, "kubeConfig": {"location": "west-kubeconfig"}}],
        "multiKueueConfigs": [{"name": "workers", "clusters": [WEST]}],
        "admissionChecks": [{"name": "elsewhere", "controllerName": controller, "parameters": parameters}],
    }
    config["trainstack:queues"]["clusterQueues"][0]["admissionChecks"] = [{"name": "elsewhere"}]
    return config


def run(name: str, kind: str, program: str, **changes: Any) -> Config:
    """Return a managed run of a Python program, recorded on the volume."""
    return {
        "name": name,
        "kind": kind,
        "namespace": NAMESPACE,
        "queue": QUEUE,
        "image": {"build": "workloads/digits"},
        "command": ["python3", "-c"],
        "args": [program],
        "volumes": [{"volume": "training", "mountPath": "/mnt/training"}],
        "record": {"volume": "training"},
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
        "runAsUser": 1000,
        **changes,
    }


def merged_kubeconfig(file: Path, clusters: dict[str, LocalCluster]) -> Path:
    """Write a kubeconfig with a context for each cluster."""
    config: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": []}
    for name, cluster in clusters.items():
        own = yaml.safe_load(cluster.kubeconfig.read_text())
        config["clusters"].append({"name": name, "cluster": own["clusters"][0]["cluster"]})
        config["users"].append({"name": name, "user": own["users"][0]["user"]})
        config["contexts"].append({"name": name, "context": {"cluster": name, "user": name}})
    file.touch(0o600)
    file.write_text(yaml.safe_dump(config))
    return file


def create_kubeconfig_secret(project: Project, worker: LocalCluster, server: str) -> None:
    """Create the Secret with the worker's kubeconfig in the manager's cluster, as Kueue's documentation describes."""
    own = yaml.safe_load(worker.kubeconfig.read_text())
    own["clusters"][0]["cluster"] |= {"server": server, "tls-server-name": worker.node_ip}
    data = {"kubeconfig": base64.b64encode(yaml.safe_dump(own).encode()).decode()}
    metadata = {"name": "west-kubeconfig", "namespace": "kueue-system"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
    done = project.kubectl("apply", "--context", HUB, stdin=json.dumps(secret))
    assert done.code == 0, done.text


def _listener_inside(cluster: LocalCluster) -> socket.socket:
    """Return a listener on the node's address in the cluster's network namespace, the only one that pods reach."""
    made: list[socket.socket] = []

    def enter() -> None:
        with Path(f"/proc/{cluster.pid}/ns/net").open() as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), 0):
                raise OSError(ctypes.get_errno(), "setns")
        made.append(socket.create_server((cluster.node_ip, 0)))

    # The namespace is an attribute of the thread, and of a socket from its creation.
    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    (listener,) = made
    return listener


@contextmanager
def exposed_api_server(manager: LocalCluster, worker: LocalCluster) -> Iterator[str]:
    """Serve the worker's API server in the manager's cluster for the duration of the block; yields the URL.

    Connections end with the block, as at the loss of a worker cluster.
    """
    open_ends: set[socket.socket] = set()
    listener = _listener_inside(manager)

    def copy(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while chunk := source.recv(65536):
                sink.sendall(chunk)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                upstream = socket.create_connection((worker.node_ip, API_PORT))
                open_ends.update((client, upstream))
                for ends in ((client, upstream), (upstream, client)):
                    threading.Thread(target=copy, args=ends, daemon=True).start()

    server = threading.Thread(target=serve, daemon=True)
    server.start()
    try:
        yield f"https://{manager.node_ip}:{listener.getsockname()[1]}"
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for end in open_ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        server.join(10)
