"""The components' configuration files; pure."""

import json
from pathlib import Path

from trainstack.dev.cluster import network
from trainstack.dev.cluster.layout import KUBELET_ROOT, Layout
from trainstack.dev.cluster.network import Slot
from trainstack.dev.cluster.registry_access import SERVER, RegistryAccess
from trainstack.dev.cluster.spec import NODE_NAME, ClusterSpec

CNI_PLUGINS = Path("/usr/lib/cni")
"""Debian's folder of CNI plugins."""
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
"""The default path, since /run is the cluster's own: `ctr` needs no option inside it."""
CNI_STATE = "/run/cni"
"""Address leases; in the cluster's own /run, because no pod outlives it."""
PAUSE_IMAGE = "registry.local/trainstack/pause:1"
HELPER_IMAGE = "registry.local/trainstack/helper:1"
STORAGE_NAMESPACE = "local-path-storage"
STORAGE_ACCOUNT = "local-path-provisioner"
STORAGE_CONFIG_MAP = "local-path-config"
SHARED_FOLDER = "shared"
NODE_FOLDER = "node"


def containerd(layout: Layout) -> str:
    """Return containerd's TOML.

    `restrict_oom_score_adj`: otherwise root without CAP_SYS_RESOURCE could not start a pod. `_default/hosts.toml` in
    `config_path` redirects every pull, from any registry, to the cluster's own registry.
    """
    return f"""version = 2
root = "{layout.containerd}"
state = "/run/containerd"
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{layout.containerd}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  max_concurrent_downloads = 8
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{layout.config}/registries"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI_PLUGINS}"
    conf_dir = "{layout.config}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""


def registries(access: RegistryAccess) -> str:
    """Return the hosts.toml for every registry name: the cluster's own registry serves them all.

    The settings occur twice: containerd 1.6 ignores a file without hosts, and asks `server` for what the host lacks.
    """
    certificate, key = access.client_pair
    settings = f"""capabilities = ["pull", "resolve"]
ca = "{access.authority}"
client = [["{certificate}", "{key}"]]
"""
    return f"""server = "https://{access.address}"
{settings}[host."https://{access.address}"]
{settings}"""


def cni() -> str:
    """Return the pod network: a routed link for each pod.

    `ptp` rather than `bridge`: traffic between two pods then always passes the node's routing, so that services work
    without the kernel's br_netfilter module.
    """
    return (
        json.dumps(
            {
                "cniVersion": "0.4.0",
                "name": "pods",
                "plugins": [
                    {
                        "type": "ptp",
                        "ipMasq": False,
                        "ipam": {
                            "type": "host-local",
                            "dataDir": CNI_STATE,
                            "ranges": [[{"subnet": network.REAL_POD_SUBNET}]],
                            "routes": [{"dst": "0.0.0.0/0"}],
                        },
                    },
                    {"type": "portmap", "capabilities": {"portMappings": True}},
                ],
            },
            indent=2,
        )
        + "\n"
    )


def kubelet(layout: Layout, slot: Slot, spec: ClusterSpec) -> str:
    """Return the KubeletConfiguration.

    No eviction: a developer's full disk must not end training runs. No pull limit: hundreds of pods may start at once.
    """
    return (
        json.dumps(
            {
                "apiVersion": "kubelet.config.k8s.io/v1beta1",
                "kind": "KubeletConfiguration",
                "address": slot.node_ip,
                "authentication": {
                    "anonymous": {"enabled": False},
                    "webhook": {"enabled": True},
                    "x509": {"clientCAFile": f"{layout.certs}/ca.crt"},
                },
                "authorization": {"mode": "Webhook"},
                "cgroupDriver": "cgroupfs",
                "cgroupRoot": f"/{layout.cgroup}",
                "clusterDNS": [network.DNS_SERVICE_IP],
                "clusterDomain": "cluster.local",
                "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
                "evictionHard": {
                    "imagefs.available": "0%",
                    "memory.available": "0%",
                    "nodefs.available": "0%",
                    "nodefs.inodesFree": "0%",
                },
                "failCgroupV1": False,
                "failSwapOn": False,
                "imageGCHighThresholdPercent": 100,
                "maxPods": spec.max_pods,
                "podLogsDir": str(layout.pod_logs),
                "registryPullQPS": 0,
                "resolvConf": f"{layout.config}/resolv.conf",
                "serializeImagePulls": False,
                "tlsCertFile": f"{layout.certs}/kubelet.crt",
                "tlsPrivateKeyFile": f"{layout.certs}/kubelet.key",
                "volumePluginDir": f"{KUBELET_ROOT}/volume-plugins",
            },
            indent=2,
        )
        + "\n"
    )


def coredns(layout: Layout) -> str:
    """Return CoreDNS's Corefile: cluster names only, nothing is forwarded."""
    return f""".:53 {{
    errors
    health 127.0.0.1:8080
    ready 127.0.0.1:8181
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {layout.certs}/coredns.kubeconfig trainstack-local
        pods insecure
        ttl 5
    }}
    cache 5
}}
"""


def registry(access: RegistryAccess, folder: Path) -> str:
    """Return docker-registry's YAML.

    No cache, because clusters on the same machine share the folder. `clientcas` requires a certificate of every client,
    also for pulls.
    """
    return f"""version: 0.1
log:
  level: warn
  accesslog:
    disabled: true
storage:
  filesystem:
    rootdirectory: {folder}
  delete:
    enabled: true
http:
  addr: {access.address}
  tls:
    certificate: {access.certs}/{SERVER}.crt
    key: {access.certs}/{SERVER}.key
    clientcas:
      - {access.authority}
"""


def storage_shared(volumes: Path) -> str:
    """Return local-path-provisioner's settings for `rancher.io/local-path`: any access mode, on every node."""
    return json.dumps({"sharedFileSystemPath": f"{volumes}/{SHARED_FOLDER}"}) + "\n"


def storage_node(volumes: Path) -> str:
    """Return the settings for `rancher.io/local-path-node`: ReadWriteOnce only, volumes tied to their node."""
    return json.dumps({"nodePathMap": [{"node": NODE_NAME, "paths": [f"{volumes}/{NODE_FOLDER}"]}]}) + "\n"


def storage_helper_pod() -> str:
    """Return the pod that creates and removes volume folders; tied to the real node, since it tolerates every taint."""
    return (
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "helper-pod"},
                "spec": {
                    "nodeSelector": {"kubernetes.io/hostname": NODE_NAME},
                    "containers": [{"name": "helper-pod", "image": HELPER_IMAGE, "imagePullPolicy": "IfNotPresent"}],
                },
            },
            indent=2,
        )
        + "\n"
    )


def audit_policy() -> str:
    """Return the audit policy: log each response to a user or pod, without bodies, and none to the cluster's own
    parts."""
    parts = ["system:nodes", "system:serviceaccounts:kube-system", "system:masters"]
    users = ["system:apiserver", "system:kube-controller-manager", "system:kube-scheduler", "system:kube-proxy"]
    users += ["system:coredns", "system:local-path-provisioner"]
    return (
        json.dumps(
            {
                "apiVersion": "audit.k8s.io/v1",
                "kind": "Policy",
                "omitStages": ["RequestReceived"],
                "rules": [
                    {"level": "None", "userGroups": parts},
                    {"level": "None", "users": users},
                    {"level": "Metadata"},
                ],
            },
            indent=2,
        )
        + "\n"
    )


def files(layout: Layout, slot: Slot, spec: ClusterSpec, registry_folder: Path, volumes: Path) -> dict[str, str]:
    """Return every configuration file: path below the `config` folder to text."""
    access = RegistryAccess(slot.registry, layout.certs)
    audit = {layout.audit_policy.name: audit_policy()} if spec.audit else {}
    return {
        **audit,
        "containerd.toml": containerd(layout),
        "registries/_default/hosts.toml": registries(access),
        "cni/10-pods.conflist": cni(),
        "kubelet.json": kubelet(layout, slot, spec),
        "resolv.conf": f"nameserver {slot.node_ip}\n",
        "Corefile": coredns(layout),
        "registry.yaml": registry(access, registry_folder),
        "storage-shared.json": storage_shared(volumes),
        "storage-node.json": storage_node(volumes),
        "storage-helper-pod.yaml": storage_helper_pod(),
    }
