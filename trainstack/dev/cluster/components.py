"""The cluster's programs, with their arguments and order, from templates/components.yaml."""

import sys
from collections.abc import Callable
from pathlib import Path
from string import Template
from typing import Any

import yaml

from trainstack.dev.cluster import config, network
from trainstack.dev.cluster.layout import KUBELET_ROOT, Layout
from trainstack.dev.cluster.network import Slot
from trainstack.dev.cluster.plan import Component, Probe
from trainstack.dev.cluster.registry_access import CLIENT
from trainstack.dev.cluster.spec import NODE_NAME, ClusterSpec

RECONCILED = "/run/trainstack-reconciled"
"""Created in the cluster's /run once its objects are applied."""

Find = Callable[[str], Path]


def components(layout: Layout, slot: Slot, spec: ClusterSpec, find: Find) -> tuple[Component, ...]:
    """Return every component after those that it needs."""
    values = {
        "api_port": network.API_PORT,
        "audit": layout.audit,
        "audit_policy": layout.audit_policy,
        "certs": layout.certs,
        "config": layout.config,
        "containerd_socket": config.CONTAINERD_SOCKET,
        "etcd": layout.etcd,
        "helper_image": config.HELPER_IMAGE,
        "kubelet_root": KUBELET_ROOT,
        "node": NODE_NAME,
        "node_ip": slot.node_ip,
        "pod_range": network.POD_RANGE,
        "python": sys.executable,
        "reconciled": RECONCILED,
        "registry": slot.registry,
        "registry_client": CLIENT,
        "server": slot.server,
        "service_range": network.SERVICE_RANGE,
        "simulated_pod_subnet": network.SIMULATED_POD_SUBNET,
        "state": layout.state,
        "storage_account": config.STORAGE_ACCOUNT,
        "storage_config_map": config.STORAGE_CONFIG_MAP,
        "storage_namespace": config.STORAGE_NAMESPACE,
    }

    def component(entry: dict[str, Any]) -> Component:
        executable = str(find(entry["program"])) if "program" in entry else fill(entry["command"])
        probe: dict[str, Any] = {key: fill(value) for key, value in entry["probe"].items()}
        arguments = [*entry["arguments"], *(entry.get("audit", ()) if spec.audit else ())]
        return Component(
            entry["name"],
            (executable, *map(fill, arguments)),
            Probe(**probe),
            tuple(entry.get("after", ())),
            entry.get("once", False),
            entry.get("environment", {}),
        )

    def fill(text: str) -> str:
        return Template(text).substitute(values)

    entries = yaml.safe_load((config.TEMPLATES / "components.yaml").read_text(encoding="utf-8"))
    return tuple(component(entry) for entry in entries if entry["name"] != "kwok" or spec.simulated_nodes)
