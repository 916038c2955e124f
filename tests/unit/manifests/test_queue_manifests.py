"""Kueue's objects, as manifests of its API v1beta2."""

from typing import Any

from trainstack.platform import queues
from trainstack.settings.base import Toleration
from trainstack.settings.sections.queues import (
    BorrowWithinCohort,
    ClusterQueue,
    Cohort,
    FlavorFungibility,
    FlavorQuotas,
    LocalQueue,
    Preemption,
    PriorityClass,
    ResourceFlavor,
    ResourceGroup,
    ResourceQuota,
    Taint,
)

LABELS = {"app.kubernetes.io/managed-by": "trainstack", "trainstack.dev/stack": "dev"}


def make_object(kind: str, name: str, **rest: Any) -> dict[str, Any]:
    """An object of Kueue's that is ours."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": kind,
        "metadata": {"name": name, "labels": LABELS},
        **rest,
    }


def test_a_flavor_that_says_nothing_of_its_nodes_has_no_spec() -> None:
    """It stands for any node."""
    assert queues.resource_flavor(ResourceFlavor(name="cpu"), "dev") == make_object("ResourceFlavor", "cpu")


def test_a_flavor_of_tainted_nodes() -> None:
    """An empty taint value and the toleration's unset fields are left out, as the API server stores them."""
    declared = ResourceFlavor(
        name="mig",
        node_labels={"nvidia.com/gpu.product": "A100"},
        node_taints=(Taint(key="gpu", effect="NoSchedule"), Taint(key="team", value="a", effect="NoExecute")),
        tolerations=(Toleration(key="gpu", operator="Exists", effect="NoSchedule"),),
    )
    assert queues.resource_flavor(declared, "dev") == make_object(
        "ResourceFlavor",
        "mig",
        spec={
            "nodeLabels": {"nvidia.com/gpu.product": "A100"},
            "nodeTaints": [
                {"key": "gpu", "effect": "NoSchedule"},
                {"key": "team", "value": "a", "effect": "NoExecute"},
            ],
            "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        },
    )


def test_a_cohort_names_its_parent_as_v1beta2_does() -> None:
    """`parentName`, and no spec without one."""
    assert queues.cohort(Cohort(name="local"), "dev") == make_object("Cohort", "local")
    assert queues.cohort(Cohort(name="team", parent="local"), "dev") == make_object(
        "Cohort", "team", spec={"parentName": "local"}
    )


def test_a_cluster_queue_with_limits() -> None:
    """`cohortName`, quantities in canonical spelling, a limit only where one is set."""
    quotas = (
        ResourceQuota(name="cpu", nominal_quota="2000m", borrowing_limit="1"),
        ResourceQuota(name="memory", nominal_quota="8192Mi", lending_limit="1Gi"),
    )
    group = ResourceGroup(covered_resources=("cpu", "memory"), flavors=(FlavorQuotas(name="cpu", resources=quotas),))
    declared = ClusterQueue(
        name="research",
        cohort="local",
        namespaces=("research", "other"),
        resource_groups=(group,),
        preemption=Preemption(within_cluster_queue="LowerPriority"),
        stop_policy="Hold",
    )
    namespaces = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["research", "other"]}
    assert queues.cluster_queue(declared, "dev") == make_object(
        "ClusterQueue",
        "research",
        spec={
            "cohortName": "local",
            "namespaceSelector": {"matchExpressions": [namespaces]},
            "preemption": {"reclaimWithinCohort": "Never", "withinClusterQueue": "LowerPriority"},
            "queueingStrategy": "BestEffortFIFO",
            "resourceGroups": [
                {
                    "coveredResources": ["cpu", "memory"],
                    "flavors": [
                        {
                            "name": "cpu",
                            "resources": [
                                {"name": "cpu", "nominalQuota": "2", "borrowingLimit": "1"},
                                {"name": "memory", "nominalQuota": "8Gi", "lendingLimit": "1Gi"},
                            ],
                        }
                    ],
                }
            ],
            "stopPolicy": "Hold",
        },
    )


def test_a_cluster_queue_for_all_namespaces_says_so() -> None:
    """Without a selector Kueue would admit from no namespace; without a cohort there is no `cohortName`."""
    quota = (ResourceQuota(name="cpu", nominal_quota="1"),)
    group = ResourceGroup(covered_resources=("cpu",), flavors=(FlavorQuotas(name="cpu", resources=quota),))
    spec = queues.cluster_queue(ClusterQueue(name="all", resource_groups=(group,)), "dev")["spec"]
    assert spec["namespaceSelector"] == {}
    assert "cohortName" not in spec


def test_a_cluster_queue_that_evicts_rather_than_tries_the_next_flavor() -> None:
    """Borrowing by eviction and the order of flavors are said where they are set, and else left to Kueue's defaults."""
    quota = (ResourceQuota(name="cpu", nominal_quota="1"),)
    group = ResourceGroup(covered_resources=("cpu",), flavors=(FlavorQuotas(name="cpu", resources=quota),))
    usual = ClusterQueue(name="all", resource_groups=(group,))
    said = usual.model_copy(
        update={
            "preemption": Preemption(borrow_within_cohort=BorrowWithinCohort(policy="LowerPriority")),
            "flavor_fungibility": FlavorFungibility(when_can_preempt="MayStopSearch"),
        }
    )
    never = {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never"}
    spec = queues.cluster_queue(usual, "dev")["spec"]
    assert queues.cluster_queue(said, "dev")["spec"] == {
        **spec,
        "preemption": {**never, "borrowWithinCohort": {"policy": "LowerPriority"}},
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch"},
    }
    assert (spec["preemption"], "flavorFungibility" in spec) == (never, False)


def test_a_local_queue_and_a_priority_class() -> None:
    """A class's value and description stand beside its metadata, not in a spec."""
    queue = queues.local_queue(LocalQueue(name="research", namespace="lab", cluster_queue="all"), "dev")
    assert queue == {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": "research", "namespace": "lab", "labels": LABELS},
        "spec": {"clusterQueue": "all"},
    }
    declared = PriorityClass(name="high", value=10000, description="For a deadline.")
    assert queues.priority_class(declared, "dev") == make_object(
        "WorkloadPriorityClass", "high", value=10000, description="For a deadline."
    )
    assert "description" not in queues.priority_class(PriorityClass(name="low", value=1), "dev")
