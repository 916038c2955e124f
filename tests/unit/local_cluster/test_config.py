"""The components' complete configuration."""

import json
from pathlib import Path

import yaml

from trainstack.local_cluster import config
from trainstack.local_cluster.network import Slot
from trainstack.local_cluster.spec import ClusterSpec
from trainstack.local_cluster.state_folder import Layout

LAYOUT = Layout(Path("/state"))


def render() -> dict[str, str]:
    """Return the files of a cluster with default options."""
    return config.config_files(LAYOUT, Slot(0), ClusterSpec(), Path("/images"), Path("/volumes"))


def test_containerd() -> None:
    """It has its own folders and sandbox image, all registries are redirected, and systemd is not used."""
    assert render()["containerd.toml"] == (
        """version = 2
root = "/state/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "/state/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.local/trainstack/pause:1"
  restrict_oom_score_adj = true
  max_concurrent_downloads = 8
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "/state/config/registries"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/state/config/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""
    )
    assert render()["registries/_default/hosts.toml"] == (
        """server = "https://198.18.254.2:5000"
capabilities = ["pull", "resolve"]
ca = "/state/certs/registry-ca.crt"
client = [["/state/certs/registry-client.crt", "/state/certs/registry-client.key"]]
[host."https://198.18.254.2:5000"]
capabilities = ["pull", "resolve"]
ca = "/state/certs/registry-ca.crt"
client = [["/state/certs/registry-client.crt", "/state/certs/registry-client.key"]]
"""
    )


def test_kubelet() -> None:
    """It has its own cgroups and folders, authentication, and no eviction or pull limit."""
    assert json.loads(render()["kubelet.json"]) == {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "198.18.254.2",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": "/state/certs/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{LAYOUT.cgroup}",
        "clusterDNS": ["198.18.128.10"],
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "evictionHard": {
            "imagefs.available": "0%",
            "memory.available": "0%",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
        },
        "failCgroupV1": False,
        "failSwapOn": False,
        "imageGCHighThresholdPercent": 100,
        "maxPods": 250,
        "podLogsDir": "/state/pod-logs",
        "registryPullQPS": 0,
        "resolvConf": "/state/config/resolv.conf",
        "serializeImagePulls": False,
        "tlsCertFile": "/state/certs/kubelet.crt",
        "tlsPrivateKeyFile": "/state/certs/kubelet.key",
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
    }


def test_pod_network() -> None:
    """Links are routed, addresses are leased in memory, and nothing is masqueraded."""
    assert json.loads(render()["cni/10-pods.conflist"]) == {
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "ptp",
                "ipMasq": False,
                "ipam": {
                    "type": "host-local",
                    "dataDir": "/run/cni",
                    "ranges": [[{"subnet": "198.18.0.0/18"}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def test_names_registry_and_storage() -> None:
    """The small files are compared as a whole."""
    files = render()
    assert files["resolv.conf"] == "nameserver 198.18.254.2\n"
    assert files["Corefile"] == (
        """.:53 {
    errors
    health 127.0.0.1:8080
    ready 127.0.0.1:8181
    kubernetes cluster.local in-addr.arpa {
        kubeconfig /state/certs/coredns.kubeconfig trainstack-local
        pods insecure
        ttl 5
    }
    cache 5
}
"""
    )
    assert files["registry.yaml"] == (
        """version: 0.1
log:
  level: warn
  accesslog:
    disabled: true
storage:
  filesystem:
    rootdirectory: /images
  delete:
    enabled: true
http:
  addr: 198.18.254.2:5000
  tls:
    certificate: /state/certs/registry.crt
    key: /state/certs/registry.key
    clientcas:
      - /state/certs/registry-ca.crt
"""
    )
    assert json.loads(files["storage-shared.json"]) == {"sharedFileSystemPath": "/volumes/shared"}
    assert json.loads(files["storage-node.json"]) == {"nodePathMap": [{"node": "local", "paths": ["/volumes/node"]}]}
    assert yaml.safe_load(files["storage-helper-pod.yaml"])["spec"] == {
        "nodeSelector": {"kubernetes.io/hostname": "local"},
        "containers": [
            {"name": "helper-pod", "image": "registry.local/trainstack/helper:1", "imagePullPolicy": "IfNotPresent"}
        ],
    }


def test_two_state_folders_share_nothing() -> None:
    """Their cgroups differ, and no path of one cluster is in the other's folder."""
    other = Layout(Path("/other"))
    assert other.cgroup != LAYOUT.cgroup
    texts = config.config_files(
        other, Slot(1), ClusterSpec(volumes="/other/v"), Path("/images"), Path("/other/v")
    ).values()
    assert not any("/state" in text or "198.18.254.2" in text for text in texts)


def test_the_audit_policy_exists_where_it_is_enabled() -> None:
    """It has one entry without body for each request of people and pods, and none for the cluster's components."""
    assert "audit-policy.json" not in render()
    files = config.config_files(LAYOUT, Slot(0), ClusterSpec(audit=True), Path("/images"), Path("/volumes"))
    policy = json.loads(files["audit-policy.json"])
    assert (policy["kind"], policy["omitStages"]) == ("Policy", ["RequestReceived"])
    assert [rule["level"] for rule in policy["rules"]] == ["None", "None", "Metadata"]
