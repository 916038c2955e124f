"""The component that reconciles the cluster with its spec: initial objects, simulated nodes, GPUs and folders.

The supervisor runs `python -m trainstack.local_cluster.reconcile STATE NODE_IP` inside the cluster.
"""

import sys
import time
from pathlib import Path

from trainstack.local_cluster import config, mount_points, simulated_gpus
from trainstack.local_cluster.api import ApiClient, Manifest
from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.network import API_PORT
from trainstack.local_cluster.spec import NODE_NAME, ClusterSpec
from trainstack.local_cluster.state_folder import Layout

INTERVAL_SECONDS = 2.0
"""Interval at which it reads the spec again, and restores the GPUs of a node that was registered again."""


def reconcile_real_node(api: ApiClient, name: str, spec: ClusterSpec) -> bool:
    """Set the real node's GPUs. Return False if the kubelet has not registered it yet."""
    path = f"/api/v1/nodes/{name}"
    node = api.find(path)
    if node is None:
        return False
    labels, status = simulated_gpus.real_node_patch(node, spec)
    if labels:
        api.merge(path, labels)
    if status:
        api.merge(f"{path}/status", status)
    return True


def reconcile_simulated_nodes(api: ApiClient, spec: ClusterSpec) -> None:
    """Create missing simulated nodes, replace changed ones and delete surplus ones."""
    node_list = api.request("GET", f"/api/v1/nodes?{simulated_gpus.SIMULATED_NODES_QUERY}")
    live_nodes: dict[str, Manifest] = {node["metadata"]["name"]: node for node in node_list["items"]}
    for number in range(spec.simulated_nodes):
        desired_node = simulated_gpus.node(number, spec)
        name = desired_node["metadata"]["name"]
        live_node = live_nodes.pop(name, None)
        if live_node is not None and _gpus(live_node) == _gpus(desired_node):
            continue
        if live_node is not None:
            api.request("DELETE", f"/api/v1/nodes/{name}")
        api.request("POST", "/api/v1/nodes", desired_node)
    for name in live_nodes:
        api.request("DELETE", f"/api/v1/nodes/{name}")


def _gpus(node: Manifest) -> tuple[str | None, str | None]:
    labels, capacity = node["metadata"].get("labels", {}), node["status"].get("capacity", {})
    return labels.get(simulated_gpus.GPU_PRODUCT), capacity.get(simulated_gpus.GPU)


def main() -> None:
    """Apply all objects once, create RECONCILED_FILE, then reconcile the real node until the process ends."""
    layout, node_ip = Layout(Path(sys.argv[1])), sys.argv[2]
    spec = ClusterSpec.from_json(layout.spec.read_text())
    api = ApiClient(f"https://{node_ip}:{API_PORT}", layout.certs)
    for manifest in config.initial_objects(node_ip, layout.identity):
        api.apply(manifest)
    reconcile_simulated_nodes(api, spec)
    Path(config.RECONCILED_FILE).touch()
    while True:
        try:
            spec = ClusterSpec.from_json(layout.spec.read_text())
            mount_points.mount_folders(layout, spec.node_folders)
            reconcile_real_node(api, NODE_NAME, spec)
        except (LocalClusterError, OSError) as error:
            print(error, file=sys.stderr, flush=True)
        time.sleep(INTERVAL_SECONDS)


if __name__ == "__main__":
    main()
