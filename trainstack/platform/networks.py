"""NetworkPolicies of a namespace: its runs' pods may connect to one another, to DNS, and to declared destinations.

Nodes mount the volumes and pull the images, so the policies do not affect them.

Source: https://kubernetes.io/docs/concepts/services-networking/network-policies/
"""

from trainstack.objects.labels import NAMESPACE_NAME, RUN, Manifest, metadata
from trainstack.settings.sections.environment import Egress, Namespace

ISOLATED, REPLICAS = "trainstack-isolated", "trainstack-replicas"
"""The names of a namespace's policies: for all its pods, and for connections between pods of runs."""
_DNS_PORTS = [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]
_DNS_NAMESPACE = "kube-system"
_NODE_LOCAL_DNS = "169.254.20.10/32"
"""The address of NodeLocal DNSCache on each node, which no namespace selector matches.

Source: https://kubernetes.io/docs/tasks/administer-cluster/nodelocaldns/
"""


def policies(declared: Namespace, stack: str) -> list[Manifest]:
    if not declared.isolated:
        return []
    runs = {"podSelector": {"matchExpressions": [{"key": RUN, "operator": "Exists"}]}}
    dns = {"to": [_namespace(_DNS_NAMESPACE), _addresses(_NODE_LOCAL_DNS)], "ports": _DNS_PORTS}
    isolated = {"podSelector": {}, "egress": [dns, *map(_egress, declared.network.egress)]}
    replicas = {**runs, "ingress": [{"from": [runs]}], "egress": [{"to": [runs]}]}
    return [
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": metadata(name, stack, namespace=declared.name),
            "spec": {"policyTypes": ["Ingress", "Egress"], **spec},
        }
        for name, spec in ((ISOLATED, isolated), (REPLICAS, replicas))
    ]


def _egress(declared: Egress) -> Manifest:
    to = _namespace(declared.namespace) if declared.namespace is not None else _addresses(declared.cidr or "")
    ports = [{"protocol": "TCP", "port": port} for port in declared.ports]
    return {"to": [to], **({"ports": ports} if ports else {})}


def _namespace(name: str) -> Manifest:
    return {"namespaceSelector": {"matchLabels": {NAMESPACE_NAME: name}}}


def _addresses(cidr: str) -> Manifest:
    return {"ipBlock": {"cidr": cidr}}
