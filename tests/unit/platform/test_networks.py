"""The connections that the pods of a namespace may open."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.unit.make import make_distributed
from tests.unit.runs.launches import make_launch
from trainstack.objects.labels import RUN
from trainstack.platform.networks import network_policies
from trainstack.runs.manifests.build import manifest
from trainstack.runs.manifests.launched_pods import launched_pods
from trainstack.settings.sections.environment import Egress, Namespace, NamespaceNetwork

MARK = {"app.kubernetes.io/managed-by": "trainstack", "trainstack.dev/stack": "dev"}
RUNS = {"podSelector": {"matchExpressions": [{"key": RUN, "operator": "Exists"}]}}
DNS = {
    "to": [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}},
        {"ipBlock": {"cidr": "169.254.20.10/32"}},
    ],
    "ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}],
}


def make_policy(name: str, **spec: Any) -> dict[str, Any]:
    """Return a policy of the namespace `research`, for both directions."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": "research", "labels": MARK},
        "spec": {"policyTypes": ["Ingress", "Egress"], **spec},
    }


def test_pods_reach_each_other_and_dns_and_nothing_else() -> None:
    """All pods are isolated except for DNS; pods of runs may connect to each other."""
    assert network_policies(Namespace(name="research"), "dev") == [
        make_policy("trainstack-isolated", podSelector={}, egress=[DNS]),
        make_policy("trainstack-replicas", **RUNS, ingress=[{"from": [RUNS]}], egress=[{"to": [RUNS]}]),
    ]


def test_every_pod_of_a_run_has_the_label_that_allows_its_traffic() -> None:
    """Masters and workers do."""
    for pod in launched_pods(manifest(make_distributed(), "dev", make_launch())):
        assert RUN in pod.template["metadata"]["labels"]


def test_what_is_named_is_let_out() -> None:
    """The exceptions are addresses on some ports, and whole namespaces."""
    egress = (Egress(cidr="203.0.113.0/24", ports=(443, 22)), Egress(namespace="minio"))
    isolated, _ = network_policies(Namespace(name="research", network=NamespaceNetwork(egress=egress)), "dev")
    assert isolated["spec"]["egress"] == [
        DNS,
        {
            "to": [{"ipBlock": {"cidr": "203.0.113.0/24"}}],
            "ports": [{"protocol": "TCP", "port": 443}, {"protocol": "TCP", "port": 22}],
        },
        {"to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "minio"}}}]},
    ]


def test_a_namespace_may_be_open_and_an_adopted_one_is() -> None:
    """Other tenants' pods are in the latter; it is isolated on request."""
    is_open, shut = NamespaceNetwork(isolated=False), NamespaceNetwork(isolated=True)
    assert network_policies(Namespace(name="research", network=is_open), "dev") == []
    assert network_policies(Namespace(name="research", adopt=True), "dev") == []
    assert len(network_policies(Namespace(name="research", adopt=True, network=shut), "dev")) == 2


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"cidr": "203.0.113.1/24"}, "is not a CIDR block: 203.0.113.1/24 has host bits set; write one such as"),
        ({"cidr": "git.example.org"}, "is not a CIDR block"),
        ({}, "set either cidr or namespace"),
        ({"cidr": "203.0.113.0/24", "namespace": "minio"}, "set either cidr or namespace"),
        ({"namespace": "minio", "ports": (0,)}, "greater than or equal to 1"),
    ],
)
def test_an_exception_leads_to_one_place(fields: dict[str, Any], message: str) -> None:
    """It is a range of addresses in Kubernetes' format, or a namespace."""
    with pytest.raises(ValidationError, match=message):
        Egress(**fields)


@pytest.mark.parametrize("fields", [{"network": NamespaceNetwork(isolated=False, egress=(Egress(namespace="a"),))}, {}])
def test_an_exception_of_nothing_is_refused(fields: dict[str, Any]) -> None:
    """Its author believes that the namespace is isolated."""
    options = {"network": NamespaceNetwork(egress=(Egress(namespace="a"),)), "adopt": True, **fields}
    with pytest.raises(ValidationError, match="requires an isolated namespace: add"):
        Namespace(name="research", **options)
