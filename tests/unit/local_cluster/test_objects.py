"""The initial objects of every cluster."""

from trainstack.local_cluster import config
from trainstack.local_cluster.api import object_path


def test_base_objects_and_their_places() -> None:
    """Each has its API path; the order is that of creation: a namespace before its objects."""
    assert [object_path(manifest) for manifest in config.initial_objects("198.18.254.2", "local-1")] == [
        "/api/v1/namespaces/kube-system",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/kube-apiserver-kubelet-client",
        "/api/v1/namespaces/kube-system/services/kube-dns",
        "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices/kube-dns-node",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:coredns",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/system:coredns",
        "/api/v1/namespaces/local-path-storage",
        "/api/v1/namespaces/local-path-storage/serviceaccounts/local-path-provisioner",
        "/api/v1/namespaces/local-path-storage/configmaps/local-path-config",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:local-path-provisioner",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/system:local-path-provisioner",
    ]


def test_names_are_resolved_by_the_process_on_the_node() -> None:
    """The Service has a fixed address and a manual slice: there is no pod to select."""
    service, endpoints = config.initial_objects("198.18.254.2", "local-1")[2:4]
    assert service["spec"] == {
        "clusterIP": "198.18.128.10",
        "ports": [
            {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53},
            {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": 53},
        ],
    }
    assert endpoints["metadata"]["labels"]["kubernetes.io/service-name"] == "kube-dns"
    assert endpoints["endpoints"] == [{"addresses": ["198.18.254.2"], "conditions": {"ready": True}}]
