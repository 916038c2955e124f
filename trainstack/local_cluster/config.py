"""The components, their configuration files and the cluster's first objects, from templates/.

- containerd: `restrict_oom_score_adj`, because root without CAP_SYS_RESOURCE could not start a pod without it.
- registries/_default/hosts.toml sends pulls of every registry name to the cluster's own registry. The settings occur
  twice: containerd 1.6 ignores a file without hosts, and requests from `server` what the host lacks.
- cni: `ptp` rather than `bridge`, so that traffic between pods always passes the node's routing, and services work
  without the kernel's br_netfilter module.
- kubelet: no eviction, because a developer's full disk must not end training runs; no pull limit, because hundreds of
  pods may start at once.
- Corefile: resolves names of the cluster only, and forwards no query.
- registry: no cache, because clusters on the same machine share the folder. `clientcas` requires a certificate of every
  client, also for pulls.
- storage-shared: for `rancher.io/local-path`, any access mode, on every node; storage-node: for
  `rancher.io/local-path-node`, ReadWriteOnce only, volumes tied to their node.
- audit-policy: log each response to a user or pod, without bodies, and none to the cluster's own parts.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from string import Template
from typing import Any

import yaml

from trainstack.local_cluster import network
from trainstack.local_cluster.api import Manifest
from trainstack.local_cluster.network import Slot
from trainstack.local_cluster.registry_access import CLIENT, SERVER, RegistryAccess
from trainstack.local_cluster.spec import NODE_NAME, ClusterSpec
from trainstack.local_cluster.state_folder import KUBELET_ROOT, Layout
from trainstack.local_cluster.supervisor_plan import ClusterComponent, Probe

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
"""containerd's default path, which is free because the cluster has its own /run: `ctr` needs no option."""
PAUSE_IMAGE = "registry.local/trainstack/pause:1"
HELPER_IMAGE = "registry.local/trainstack/helper:1"
STORAGE_NAMESPACE = "local-path-storage"
STORAGE_ACCOUNT = "local-path-provisioner"
STORAGE_CONFIG_MAP = "local-path-config"
SHARED_FOLDER, NODE_FOLDER = "shared", "node"
"""Names of the provisioners' folders in the folder of dynamic volumes."""
RECONCILED_FILE = "/run/trainstack-reconciled"
"""File in the cluster's /run that exists once the initial objects are applied."""

TEMPLATES = Path(__file__).with_name("templates")
_FILES = (
    *("containerd.toml", "registries/_default/hosts.toml", "cni/10-pods.conflist", "kubelet.json", "resolv.conf"),
    *("Corefile", "registry.yaml", "storage-shared.json", "storage-node.json", "storage-helper-pod.yaml"),
)


def _fill(template: str, **values: object) -> str:
    return Template((TEMPLATES / template).read_text(encoding="utf-8")).substitute(values)


def registry_config(access: RegistryAccess, folder: Path) -> str:
    """Return the configuration of the registry, which stores its images in `folder`."""
    return _fill("registry.yaml", **_registry_values(access, folder))


def registry_hosts(access: RegistryAccess) -> str:
    """Return the `hosts.toml` by which containerd reaches the registry, with the credentials in `access.certs`."""
    return _fill("registries/_default/hosts.toml", **_registry_values(access, Path()))


def _registry_values(access: RegistryAccess, folder: Path) -> dict[str, object]:
    certificate, key = access.client_pair
    return {
        "registry": access.address,
        "registry_ca": access.authority,
        "registry_certificate": access.certs / f"{SERVER}.crt",
        "registry_key": access.certs / f"{SERVER}.key",
        "registry_folder": folder,
        "client_certificate": certificate,
        "client_key": key,
    }


def _template_values(layout: Layout, slot: Slot) -> dict[str, object]:
    """Return the values of the templates' placeholders, except those of the registry's own configuration."""
    return {
        "api_port": network.API_PORT,
        "audit": layout.audit,
        "audit_policy": layout.audit_policy,
        "certs": layout.certs,
        "cgroup": layout.cgroup,
        "config": layout.config,
        "containerd": layout.containerd,
        "containerd_socket": CONTAINERD_SOCKET,
        "dns_ip": network.DNS_SERVICE_IP,
        "etcd": layout.etcd,
        "helper_image": HELPER_IMAGE,
        "kubelet_root": KUBELET_ROOT,
        "node": NODE_NAME,
        "node_ip": slot.node_ip,
        "pause_image": PAUSE_IMAGE,
        "pod_logs": layout.pod_logs,
        "pod_range": network.POD_RANGE,
        "pod_subnet": network.REAL_POD_SUBNET,
        "python": sys.executable,
        "reconciled": RECONCILED_FILE,
        "registry": slot.registry,
        "registry_client": CLIENT,
        "server": slot.server,
        "service_range": network.SERVICE_RANGE,
        "simulated_pod_subnet": network.SIMULATED_POD_SUBNET,
        "state": layout.state,
        "storage_account": STORAGE_ACCOUNT,
        "storage_config_map": STORAGE_CONFIG_MAP,
        "storage_namespace": STORAGE_NAMESPACE,
    }


def components(
    layout: Layout, slot: Slot, spec: ClusterSpec, find_program: Callable[[str], Path]
) -> tuple[ClusterComponent, ...]:
    """Return the cluster's components, dependencies first. `find_program` returns the path of a program."""
    values = _template_values(layout, slot)

    def component(entry: dict[str, Any]) -> ClusterComponent:
        executable = str(find_program(entry["program"])) if "program" in entry else fill(entry["command"])
        probe: dict[str, Any] = {key: fill(value) for key, value in entry["probe"].items()}
        arguments = [*entry["arguments"], *(entry.get("audit", ()) if spec.audit else ())]
        return ClusterComponent(
            entry["name"],
            (executable, *map(fill, arguments)),
            Probe(**probe),
            tuple(entry.get("after", ())),
            entry.get("once", False),
            entry.get("environment", {}),
        )

    def fill(text: str) -> str:
        return Template(text).substitute(values)

    entries = yaml.safe_load((TEMPLATES / "components.yaml").read_text(encoding="utf-8"))
    return tuple(component(entry) for entry in entries if entry["name"] != "kwok" or spec.simulated_nodes)


def config_files(layout: Layout, slot: Slot, spec: ClusterSpec, registry_folder: Path, volumes: Path) -> dict[str, str]:
    """Return the texts of the configuration files, by their path in the `config` folder."""
    values = {
        **_template_values(layout, slot),
        **_registry_values(RegistryAccess(slot.registry, layout.certs), registry_folder),
        "max_pods": spec.max_pods,
        "node_folder": f"{volumes}/{NODE_FOLDER}",
        "shared_folder": f"{volumes}/{SHARED_FOLDER}",
    }
    names = [*_FILES, *([layout.audit_policy.name] if spec.audit else [])]
    kwok_files = {"kwok.yaml": (TEMPLATES / "kwok.yaml").read_text(encoding="utf-8")} if spec.simulated_nodes else {}
    return {name: _fill(name, **values) for name in names} | kwok_files


def initial_objects(node_ip: str, identity: str) -> list[Manifest]:
    """Return the objects that every cluster has from its start, in the order in which they are applied."""
    text = _fill(
        "objects.yaml",
        dns_ip=network.DNS_SERVICE_IP,
        helper_image=HELPER_IMAGE,
        identity=identity,
        node_ip=node_ip,
        storage_account=STORAGE_ACCOUNT,
        storage_config_map=STORAGE_CONFIG_MAP,
        storage_namespace=STORAGE_NAMESPACE,
    )
    return list(yaml.safe_load_all(text))
