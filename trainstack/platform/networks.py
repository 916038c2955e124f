"""NetworkPolicies of a namespace: its runs' pods may connect to one another, to DNS, and to declared destinations.

Nodes mount the volumes and pull the images, so the policies do not affect them.

Source: https://kubernetes.io/docs/concepts/services-networking/network-policies/
"""

from trainstack.objects.labels import NAMESPACE_NAME, RUN, Manifest, metadata
from trainstack.settings.sections.environment import Egress, Namespace

ISOLATION_POLICY, REPLICAS_POLICY = "trainstack-isolated", "trainstack-replicas"
"""The names of a namespace's policies: for all its pods, and for connections between pods of runs."""
_DNS_PORTS = [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]
_DNS_NAMESPACE = "kube-system"
_NODE_LOCAL_DNS = "169.254.20.10/32"
"""The address of NodeLocal DNSCache on each node, which no namespace selector matches.

Source: https://kubernetes.io/docs/tasks/administer-cluster/nodelocaldns/
"""


def network_policies(namespace: Namespace, stack: str) -> list[Manifest]:
    if not namespace.is_isolated:
        return []
    run_pods = {"podSelector": {"matchExpressions": [{"key": RUN, "operator": "Exists"}]}}
    dns_rule = {"to": [_namespace_peer(_DNS_NAMESPACE), _address_peer(_NODE_LOCAL_DNS)], "ports": _DNS_PORTS}
    isolation_spec = {"podSelector": {}, "egress": [dns_rule, *map(_egress_rule, namespace.network.egress)]}
    replicas_spec = {**run_pods, "ingress": [{"from": [run_pods]}], "egress": [{"to": [run_pods]}]}
    return [
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": metadata(name, stack, namespace=namespace.name),
            "spec": {"policyTypes": ["Ingress", "Egress"], **spec},
        }
        for name, spec in ((ISOLATION_POLICY, isolation_spec), (REPLICAS_POLICY, replicas_spec))
    ]


def _egress_rule(destination: Egress) -> Manifest:
    peer = (
        _namespace_peer(destination.namespace)
        if destination.namespace is not None
        else _address_peer(destination.cidr or "")
    )
    ports = [{"protocol": "TCP", "port": port} for port in destination.ports]
    return {"to": [peer], **({"ports": ports} if ports else {})}


def _namespace_peer(name: str) -> Manifest:
    return {"namespaceSelector": {"matchLabels": {NAMESPACE_NAME: name}}}


def _address_peer(cidr: str) -> Manifest:
    return {"ipBlock": {"cidr": cidr}}
