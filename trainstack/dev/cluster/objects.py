"""Objects that every cluster has from its start: DNS, and the rights of processes outside the API server; pure."""

from trainstack.dev.cluster.api import Manifest
from trainstack.dev.cluster.config import HELPER_IMAGE, STORAGE_ACCOUNT, STORAGE_CONFIG_MAP, STORAGE_NAMESPACE
from trainstack.dev.cluster.network import DNS_SERVICE_IP

IDENTITY = "trainstack.dev/local-cluster"
"""Annotation of kube-system by which a stack recognizes a local cluster after a reset: see
trainstack/objects/labels.py."""
RBAC = "rbac.authorization.k8s.io/v1"
READ = ["get", "list", "watch"]
ALL = ["get", "list", "watch", "create", "patch", "update", "delete"]


def _role(name: str, rules: list[tuple[str, list[str], list[str]]]) -> Manifest:
    return {
        "apiVersion": RBAC,
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [{"apiGroups": [group], "resources": resources, "verbs": verbs} for group, resources, verbs in rules],
    }


def _binding(name: str, role: str, user: str) -> Manifest:
    return {
        "apiVersion": RBAC,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }


def dns(node_ip: str) -> list[Manifest]:
    """Return the fixed address of cluster DNS for the CoreDNS process on the node."""
    protocols = (("dns", "UDP"), ("dns-tcp", "TCP"))
    labels = {"k8s-app": "kube-dns"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": labels},
            "spec": {
                "clusterIP": DNS_SERVICE_IP,
                "ports": [{"name": n, "port": 53, "protocol": p, "targetPort": 53} for n, p in protocols],
            },
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": "kube-dns-node",
                "namespace": "kube-system",
                "labels": labels | {"kubernetes.io/service-name": "kube-dns"},
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": [node_ip], "conditions": {"ready": True}}],
            "ports": [{"name": n, "port": 53, "protocol": p} for n, p in protocols],
        },
        _role(
            "system:coredns",
            [
                ("", ["endpoints", "services", "pods", "namespaces"], ["list", "watch"]),
                ("discovery.k8s.io", ["endpointslices"], ["list", "watch"]),
            ],
        ),
        _binding("system:coredns", "system:coredns", "system:coredns"),
    ]


def storage() -> list[Manifest]:
    """Return the namespace of volume helpers, their script and the provisioner's rights."""
    name = "system:local-path-provisioner"
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": STORAGE_NAMESPACE,
                # Helper pods mount host folders.
                "labels": {"pod-security.kubernetes.io/enforce": "privileged"},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": STORAGE_ACCOUNT, "namespace": STORAGE_NAMESPACE},
            "automountServiceAccountToken": False,
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": STORAGE_CONFIG_MAP, "namespace": STORAGE_NAMESPACE},
            "data": {
                "image": HELPER_IMAGE,
                "setup": '#!/bin/sh\nset -eu\nmkdir -m 0777 -p "$VOL_DIR"\n',
                "teardown": '#!/bin/sh\nset -eu\nrm -rf "$VOL_DIR"\n',
            },
        },
        _role(
            name,
            [
                ("", ["nodes", "persistentvolumeclaims", "configmaps", "pods/log"], READ),
                ("", ["persistentvolumes", "pods", "events", "endpoints"], ALL),
                ("storage.k8s.io", ["storageclasses"], READ),
            ],
        ),
        _binding(name, name, name),
    ]


def base(node_ip: str, identity: str) -> list[Manifest]:
    """Return all of them in the order of application; `identity` is the cluster's."""
    kubelet_client = "kube-apiserver-kubelet-client"
    system = {"name": "kube-system", "annotations": {IDENTITY: identity}}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": system},
        _binding(kubelet_client, "system:kubelet-api-admin", kubelet_client),
        *dns(node_ip),
        *storage(),
    ]
