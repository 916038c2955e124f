"""The files of a kind cluster: the configuration of kind, of the registry, and of the node's access to the registry.

The registry shares the network namespace of the node. containerd reaches it on the node's loopback address, and a port
of the node is published on this machine's. This requires neither names nor fixed addresses in the engine's network.
"""

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import yaml

from trainstack.local_cluster import config
from trainstack.local_cluster.certificates import issue_registry_certificates, kubeconfig, write_secret
from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.kind.engine import ContainerEngine
from trainstack.local_cluster.kind.record import KindRecord
from trainstack.local_cluster.registry_access import AUTHORITY, CLIENT, SERVER, RegistryAccess
from trainstack.local_cluster.spec import ClusterSpec
from trainstack.local_cluster.state_folder import Layout

LOOPBACK = "127.0.0.1"
SERVICE_RANGE, POD_RANGE = "10.96.0.0/16", "10.244.0.0/16"
"""kind's defaults."""
REGISTRY_PORT = 5000
"""The registry's port on the node."""
NODE_REGISTRIES = "/etc/containerd/certs.d"
"""Folder on the node with the registries' configuration for containerd."""
REGISTRY_FOLDER, REGISTRY_DATA = "/trainstack", "/var/lib/registry"
"""Folders in the registry's container: its configuration, and the volume of its images."""
REGISTRY_CONFIG = f"{REGISTRY_FOLDER}/registry.yaml"
_CONTAINERD = f"""\
[plugins."io.containerd.grpc.v1.cri".registry]
  config_path = "{NODE_REGISTRIES}"
"""
_ETCD = (
    """\
kind: ClusterConfiguration
apiVersion: kubeadm.k8s.io/v1beta3
etcd: {local: {extraArgs: {unsafe-no-fsync: "true"}}}
""",
    """\
kind: ClusterConfiguration
apiVersion: kubeadm.k8s.io/v1beta4
etcd: {local: {extraArgs: [{name: unsafe-no-fsync, value: "true"}]}}
""",
)
"""As in the native driver: no sync to disk, which is too slow on a busy machine. kind applies the patch of the API
version that it uses."""
_KUBELET = """\
kind: KubeletConfiguration
maxPods: {max_pods}
registryPullQPS: 0
serializeImagePulls: false
"""


def registries_folder(layout: Layout) -> Path:
    """Return the folder that is mounted into the node."""
    return layout.config / "registries"


def registry_folder(layout: Layout) -> Path:
    """Return the folder that is mounted into the registry."""
    return layout.config / "registry"


def registry_access(layout: Layout, record: KindRecord) -> RegistryAccess:
    return RegistryAccess(f"{LOOPBACK}:{record.registry_port}", layout.certs)


def cluster_config(layout: Layout, record: KindRecord, spec: ClusterSpec) -> str:
    """Return kind's configuration in JSON, which is also YAML: one node with the registry's port and folder."""
    mount: dict[str, Any] = {
        "hostPath": str(registries_folder(layout)),
        "containerPath": NODE_REGISTRIES,
        "readOnly": True,
        "selinuxRelabel": _needs_relabel(record.container_engine()),
    }
    port = {"containerPort": REGISTRY_PORT, "hostPort": record.registry_port, "listenAddress": LOOPBACK}
    return json.dumps(
        {
            "kind": "Cluster",
            "apiVersion": "kind.x-k8s.io/v1alpha4",
            "name": record.name,
            "networking": {"apiServerAddress": LOOPBACK, "serviceSubnet": SERVICE_RANGE, "podSubnet": POD_RANGE},
            "containerdConfigPatches": [_CONTAINERD],
            "kubeadmConfigPatches": [*_ETCD, _KUBELET.format(max_pods=spec.max_pods)],
            "nodes": [{"role": "control-plane", "extraMounts": [mount], "extraPortMappings": [port]}],
        },
        indent=2,
    )


def registry_arguments(layout: Layout, record: KindRecord) -> list[str]:
    """Return the engine's arguments that start the registry in the node's network namespace."""
    engine = record.container_engine()
    options = "ro,Z" if _needs_relabel(engine) else "ro"
    return [
        "run",
        "--detach",
        f"--name={record.registry}",
        f"--network=container:{record.node}",
        f"--volume={registry_folder(layout)}:{REGISTRY_FOLDER}:{options}",
        # All clusters of the engine share one volume, as native clusters share a folder in the cache.
        f"--volume=trainstack-registry:{REGISTRY_DATA}",
        record.registry_image,
        "serve",
        REGISTRY_CONFIG,
    ]


def _needs_relabel(engine: ContainerEngine) -> bool:
    """Return whether the engine has to relabel mounts on machines with SELinux."""
    return engine.name == "podman"


def write_registry(layout: Layout) -> None:
    """Issue new certificates, and write the configuration of the registry and of containerd.

    The folders are not replaced, because running containers have mounted them.
    """
    issue_registry_certificates(layout.certs, LOOPBACK)
    server_folder, node_folder = registry_folder(layout), registries_folder(layout) / "_default"
    for folder in (server_folder, node_folder):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
    config_folder = Path(REGISTRY_FOLDER)
    server_access = RegistryAccess(f"0.0.0.0:{REGISTRY_PORT}", config_folder)
    (server_folder / "registry.yaml").write_text(config.registry_config(server_access, Path(REGISTRY_DATA)))
    node_access = RegistryAccess(f"{LOOPBACK}:{REGISTRY_PORT}", Path(NODE_REGISTRIES, "_default"))
    (node_folder / "hosts.toml").write_text(config.registry_hosts(node_access))
    for name, folder in (
        (AUTHORITY, server_folder),
        (SERVER, server_folder),
        (AUTHORITY, node_folder),
        (CLIENT, node_folder),
    ):
        for file in layout.certs.glob(f"{name}.*"):
            shutil.copy(file, folder / file.name)


def write_credentials(layout: Layout, kind_kubeconfig: Path) -> None:
    """Write the administrator's certificates, and a kubeconfig with the same context as a native cluster's.

    `kind_kubeconfig` is the kubeconfig that kind wrote. Raises LocalClusterError if it cannot be parsed.
    """
    try:
        content = yaml.safe_load(kind_kubeconfig.read_text(encoding="utf-8"))
        cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
        pem = {
            "ca.crt": base64.b64decode(cluster["certificate-authority-data"]),
            "admin.crt": base64.b64decode(user["client-certificate-data"]),
            "admin.key": base64.b64decode(user["client-key-data"]),
        }
    except (OSError, ValueError, KeyError, IndexError, TypeError, yaml.YAMLError) as error:
        raise LocalClusterError(f"kind's kubeconfig {kind_kubeconfig} cannot be read: {error!r}") from error
    for name, data in pem.items():
        write_secret(layout.certs / name, data)
    user = {key: user[key] for key in ("client-certificate-data", "client-key-data")}
    write_secret(layout.kubeconfig, kubeconfig(cluster["server"], pem["ca.crt"], user).encode())


def server_address(layout: Layout) -> str:
    """Return the address of the API server in the kubeconfig."""
    return str(json.loads(layout.kubeconfig.read_text(encoding="utf-8"))["clusters"][0]["cluster"]["server"])
