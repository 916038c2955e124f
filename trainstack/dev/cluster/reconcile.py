"""Keep the cluster as it was chosen: DNS, storage rights, simulated nodes; GPUs and folders of the real node.

Runs inside the cluster as one of its components: `python -m trainstack.dev.cluster.reconcile STATE NODE_IP`.
"""

import sys
import time
from pathlib import Path

from trainstack.dev.cluster import folders, objects, simulated
from trainstack.dev.cluster.api import Api, Manifest
from trainstack.dev.cluster.components import RECONCILED
from trainstack.dev.cluster.errors import ClusterError
from trainstack.dev.cluster.layout import Layout
from trainstack.dev.cluster.network import API_PORT
from trainstack.dev.cluster.spec import NODE_NAME, ClusterSpec

INTERVAL_SECONDS = 2.0
"""How soon a choice is taken over, and GPUs are back on a node that somebody deleted or a kubelet made anew."""


def real_node(api: Api, spec: ClusterSpec) -> None:
    """Give the real node its GPUs; nothing to do before the kubelet has registered it."""
    path = f"/api/v1/nodes/{NODE_NAME}"
    node = api.find(path)
    if node is None:
        return
    labels, status = simulated.real_node_patch(node, spec)
    if labels:
        api.merge(path, labels)
    if status:
        api.merge(f"{path}/status", status)


def simulated_nodes(api: Api, spec: ClusterSpec) -> None:
    """Create missing simulated nodes, correct changed ones, delete those that are too many."""
    listed = api.request("GET", f"/api/v1/nodes?{simulated.SELECTOR}")
    present: dict[str, Manifest] = {node["metadata"]["name"]: node for node in listed["items"]}
    for number in range(spec.simulated_nodes):
        wanted = simulated.node(number, spec)
        found = present.pop(wanted["metadata"]["name"], None)
        if found is not None and not _differs(found, wanted):
            continue
        if found is not None:
            api.request("DELETE", f"/api/v1/nodes/{wanted['metadata']['name']}")
        api.request("POST", "/api/v1/nodes", wanted)
    for name in present:
        api.request("DELETE", f"/api/v1/nodes/{name}")


def _differs(found: Manifest, wanted: Manifest) -> bool:
    def gpus(node: Manifest) -> tuple[str | None, str | None]:
        labels, capacity = node["metadata"].get("labels", {}), node["status"].get("capacity", {})
        return labels.get(simulated.GPU_PRODUCT), capacity.get(simulated.GPU)

    return gpus(found) != gpus(wanted)


def main() -> None:
    """Apply everything once, say so, then watch over the choices and the real node until stopped."""
    layout, node_ip = Layout(Path(sys.argv[1])), sys.argv[2]
    spec = ClusterSpec.from_json(layout.spec.read_text())
    api = Api(f"https://{node_ip}:{API_PORT}", layout.certs)
    for manifest in objects.base(node_ip, layout.identity):
        api.apply(manifest)
    simulated_nodes(api, spec)
    Path(RECONCILED).touch()
    while True:
        try:
            spec = ClusterSpec.from_json(layout.spec.read_text())
            folders.cover(layout, spec.node_folders)
            real_node(api, spec)
        except (ClusterError, OSError) as error:
            print(error, file=sys.stderr, flush=True)
        time.sleep(INTERVAL_SECONDS)


if __name__ == "__main__":
    main()
