"""What the pods of a namespace may connect to."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.unit.make import make_distributed
from tests.unit.workloads.launches import make_launch
from trainstack.objects.labels import RUN
from trainstack.platform.networks import policies
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
    """A policy of the namespace `research`, of both directions."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": "research", "labels": MARK},
        "spec": {"policyTypes": ["Ingress", "Egress"], **spec},
    }


def test_pods_reach_each_other_and_dns_and_nothing_else() -> None:
    """All pods are shut in but for DNS; those of runs are let through to each other."""
    assert policies(Namespace(name="research"), "dev") == [
        make_policy("trainstack-isolated", podSelector={}, egress=[DNS]),
        make_policy("trainstack-replicas", **RUNS, ingress=[{"from": [RUNS]}], egress=[{"to": [RUNS]}]),
    ]


def test_every_pod_of_a_run_bears_the_label_that_lets_it_through() -> None:
    """Masters and workers."""
    for each in launched_pods(manifest(make_distributed(), "dev", make_launch())):
        assert RUN in each.template["metadata"]["labels"]


def test_what_is_named_is_let_out() -> None:
    """Addresses on some ports, and whole namespaces."""
    egress = (Egress(cidr="203.0.113.0/24", ports=(443, 22)), Egress(namespace="minio"))
    isolated, _ = policies(Namespace(name="research", network=NamespaceNetwork(egress=egress)), "dev")
    assert isolated["spec"]["egress"] == [
        DNS,
        {
            "to": [{"ipBlock": {"cidr": "203.0.113.0/24"}}],
            "ports": [{"protocol": "TCP", "port": 443}, {"protocol": "TCP", "port": 22}],
        },
        {"to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "minio"}}}]},
    ]


def test_a_namespace_may_be_open_and_an_adopted_one_is() -> None:
    """Others' pods stand in the latter; it is shut where that is asked for."""
    is_open, shut = NamespaceNetwork(isolated=False), NamespaceNetwork(isolated=True)
    assert policies(Namespace(name="research", network=is_open), "dev") == []
    assert policies(Namespace(name="research", adopt=True), "dev") == []
    assert len(policies(Namespace(name="research", adopt=True, network=shut), "dev")) == 2


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"cidr": "203.0.113.1/24"}, "is not a CIDR block: 203.0.113.1/24 has host bits set; write one such as"),
        ({"cidr": "git.example.org"}, "is not a CIDR block"),
        ({}, "set either cidr or namespace"),
        ({"cidr": "203.0.113.0/24", "namespace": "minio"}, "set either cidr or namespace"),
        ({"namespace": "minio", "ports": (0,)}, "greater than or equal to 1"),
    ],
)
def test_an_exception_leads_to_one_place(said: dict[str, Any], message: str) -> None:
    """Addresses as Kubernetes takes them, or a namespace."""
    with pytest.raises(ValidationError, match=message):
        Egress(**said)


@pytest.mark.parametrize("said", [{"network": NamespaceNetwork(isolated=False, egress=(Egress(namespace="a"),))}, {}])
def test_an_exception_of_nothing_is_refused(said: dict[str, Any]) -> None:
    """Whoever names one believes the namespace to be shut."""
    given = {"network": NamespaceNetwork(egress=(Egress(namespace="a"),)), "adopt": True, **said}
    with pytest.raises(ValidationError, match="requires an isolated namespace: add"):
        Namespace(name="research", **given)
