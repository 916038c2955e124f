"""Kueue's objects, as manifests of its API v1beta2."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.unit.make import make_cluster_queue
from trainstack.platform import queues
from trainstack.settings.base import Toleration
from trainstack.settings.sections.queues import (
    AdmissionCheck,
    AdmissionScope,
    BorrowWithinCohort,
    CheckParameters,
    ClusterKubeConfig,
    ClusterQueue,
    Cohort,
    FairSharing,
    FlavorFungibility,
    FlavorQuotas,
    LocalQueue,
    MultiKueueCluster,
    MultiKueueConfig,
    PodSetUpdate,
    PodSetUpdates,
    Preemption,
    PriorityClass,
    ProvisioningRequestConfig,
    QueueCheck,
    ResourceFlavor,
    ResourceGroup,
    ResourceQuota,
    RetryStrategy,
    Taint,
    Topology,
)

LABELS = {"app.kubernetes.io/managed-by": "trainstack", "trainstack.dev/stack": "dev"}


def make_object(kind: str, name: str, **rest: Any) -> dict[str, Any]:
    """Return an object of Kueue with our label."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": kind,
        "metadata": {"name": name, "labels": LABELS},
        **rest,
    }


def test_a_flavor_without_node_labels_has_no_spec() -> None:
    """It applies to any node."""
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
    """The field is `parentName`, and without a parent there is no spec."""
    assert queues.cohort(Cohort(name="local"), "dev") == make_object("Cohort", "local")
    assert queues.cohort(Cohort(name="team", parent="local"), "dev") == make_object(
        "Cohort", "team", spec={"parentName": "local"}
    )


def test_a_cluster_queue_with_limits() -> None:
    """The field is `cohortName`, quantities are in canonical form, and only declared limits are present."""
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


def test_a_cluster_queue_for_all_namespaces_has_an_empty_selector() -> None:
    """Without a selector Kueue would admit from no namespace; without a cohort there is no `cohortName`."""
    quota = (ResourceQuota(name="cpu", nominal_quota="1"),)
    group = ResourceGroup(covered_resources=("cpu",), flavors=(FlavorQuotas(name="cpu", resources=quota),))
    spec = queues.cluster_queue(ClusterQueue(name="all", resource_groups=(group,)), "dev")["spec"]
    assert spec["namespaceSelector"] == {}
    assert "cohortName" not in spec


def test_a_cluster_queue_for_no_namespace_has_no_selector() -> None:
    """Kueue refuses an empty list of values, and admits no namespace without a selector."""
    quota = (ResourceQuota(name="cpu", nominal_quota="1"),)
    group = ResourceGroup(covered_resources=("cpu",), flavors=(FlavorQuotas(name="cpu", resources=quota),))
    queue = ClusterQueue(name="none", resource_groups=(group,), namespaces=())
    assert "namespaceSelector" not in queues.cluster_queue(queue, "dev")["spec"]


def test_a_cluster_queue_that_evicts_rather_than_tries_the_next_flavor() -> None:
    """Borrowing by eviction and the order of flavors are written only if declared; Kueue has defaults."""
    quota = (ResourceQuota(name="cpu", nominal_quota="1"),)
    group = ResourceGroup(covered_resources=("cpu",), flavors=(FlavorQuotas(name="cpu", resources=quota),))
    usual = ClusterQueue(name="all", resource_groups=(group,))
    explicit = usual.model_copy(
        update={
            "preemption": Preemption(borrow_within_cohort=BorrowWithinCohort(policy="LowerPriority")),
            "flavor_fungibility": FlavorFungibility(when_can_preempt="MayStopSearch"),
        }
    )
    never = {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never"}
    spec = queues.cluster_queue(usual, "dev")["spec"]
    assert queues.cluster_queue(explicit, "dev")["spec"] == {
        **spec,
        "preemption": {**never, "borrowWithinCohort": {"policy": "LowerPriority"}},
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch"},
    }
    assert (spec["preemption"], "flavorFungibility" in spec) == (never, False)


def test_a_local_queue_and_a_priority_class() -> None:
    """A class's value and description are top-level fields, not in a spec."""
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


def test_shares_checks_and_scopes_are_written_only_if_declared() -> None:
    groups = (
        ResourceGroup(
            covered_resources=("cpu",),
            flavors=(FlavorQuotas(name="cpu", resources=(ResourceQuota(name="cpu", nominal_quota="1"),)),),
        ),
    )
    group = {
        "coveredResources": ["cpu"],
        "flavors": [{"name": "cpu", "resources": [{"name": "cpu", "nominalQuota": "1"}]}],
    }
    queue = ClusterQueue(
        name="lab",
        resource_groups=groups,
        fair_sharing=FairSharing(weight="1500m"),
        admission_checks=(QueueCheck(name="nodes", on_flavors=("cpu",)), QueueCheck(name="budget")),
        admission_scope=AdmissionScope(admission_mode="UsageBasedAdmissionFairSharing"),
        flavor_fungibility=FlavorFungibility(
            when_can_borrow="TryNextFlavor", when_can_preempt="TryNextFlavor", preference="PreemptionOverBorrowing"
        ),
    )
    spec = queues.cluster_queue(queue, "dev")["spec"]
    assert spec["fairSharing"] == {"weight": "1500m"}
    assert spec["admissionScope"] == {"admissionMode": "UsageBasedAdmissionFairSharing"}
    assert spec["admissionChecksStrategy"] == {
        "admissionChecks": [{"name": "nodes", "onFlavors": ["cpu"]}, {"name": "budget"}]
    }
    assert spec["flavorFungibility"]["preference"] == "PreemptionOverBorrowing"
    plain = queues.cluster_queue(ClusterQueue(name="lab", resource_groups=groups), "dev")["spec"]
    assert not {"fairSharing", "admissionScope", "admissionChecksStrategy", "flavorFungibility"} & {*plain}
    cohort = Cohort(name="all", resource_groups=groups, fair_sharing=FairSharing(weight="0"))
    assert queues.cohort(cohort, "dev") == make_object(
        "Cohort", "all", spec={"resourceGroups": [group], "fairSharing": {"weight": "0"}}
    )
    local = LocalQueue(
        name="lab", namespace="lab", cluster_queue="lab", stop_policy="Hold", fair_sharing=FairSharing(weight="2")
    )
    assert queues.local_queue(local, "dev")["spec"] == {
        "clusterQueue": "lab",
        "stopPolicy": "Hold",
        "fairSharing": {"weight": "2"},
    }


def test_a_topology_and_its_flavor() -> None:
    levels = ("cloud/block", "cloud/rack", "kubernetes.io/hostname")
    assert queues.topology(Topology(name="racks", levels=levels), "dev") == make_object(
        "Topology", "racks", spec={"levels": [{"nodeLabel": level} for level in levels]}
    )
    flavor = ResourceFlavor(name="gpu", node_labels={"pool": "gpu"}, topology="racks")
    assert queues.resource_flavor(flavor, "dev")["spec"] == {"nodeLabels": {"pool": "gpu"}, "topologyName": "racks"}


@pytest.mark.parametrize(
    ("levels", "fault"),
    [(("rack", "rack"), "listed more than once"), (("kubernetes.io/hostname", "rack"), "is not the last level")],
)
def test_levels_that_the_api_server_refuses(levels: tuple[str, ...], fault: str) -> None:
    """Source: the rules of Topology's CustomResourceDefinition."""
    with pytest.raises(ValidationError, match=fault):
        Topology(name="racks", levels=levels)


def test_lists_that_the_api_server_keeps_as_maps_and_sets_have_no_duplicates() -> None:
    """It refuses the object at `up`."""
    with pytest.raises(ValidationError, match="admissionChecks lists nodes more than once"):
        make_cluster_queue(admission_checks=(QueueCheck(name="nodes"),) * 2)
    with pytest.raises(ValidationError, match="managedResources lists cpu more than once"):
        ProvisioningRequestConfig(name="a", provisioning_class_name="a", managed_resources=("cpu", "cpu"))
    update = PodSetUpdate(key="zone", value_from_provisioning_class_detail="Zone")
    with pytest.raises(ValidationError, match="nodeSelector lists zone more than once"):
        PodSetUpdates(node_selector=(update, update))


def test_a_check_names_as_many_flavors_as_the_api_server_accepts() -> None:
    names = tuple(f"f{number}" for number in range(65))
    assert len(QueueCheck(name="nodes", on_flavors=names[:64]).on_flavors) == 64
    with pytest.raises(ValidationError, match="at most 64 items"):
        QueueCheck(name="nodes", on_flavors=names)


def test_a_weight_is_more_than_the_smallest_unit() -> None:
    with pytest.raises(ValidationError, match="set 0 or a larger weight"):
        FairSharing(weight="0.000000001")
    assert [FairSharing(weight=weight).weight for weight in ("0", "2n")] == ["0", "2n"]


def test_a_flavor_with_a_topology_selects_nodes() -> None:
    with pytest.raises(ValidationError, match="set nodeLabels"):
        ResourceFlavor(name="gpu", topology="racks")


def test_a_preference_needs_a_comparison() -> None:
    with pytest.raises(ValidationError, match="the search stops at the first"):
        FlavorFungibility(preference="BorrowingOverPreemption")


def test_checks_with_their_parameters() -> None:
    config = ProvisioningRequestConfig(
        name="nodes",
        provisioning_class_name="queued-provisioning.gke.io",
        parameters={"maxRunDurationSeconds": "3600"},
        managed_resources=("nvidia.com/gpu",),
        retry_strategy=RetryStrategy(backoff_limit_count=0),
        pod_set_updates=PodSetUpdates(
            node_selector=(PodSetUpdate(key="cloud/reservation", value_from_provisioning_class_detail="Reservation"),)
        ),
        pod_set_merge_policy="IdenticalPodTemplates",
    )
    assert queues.provisioning_request_config(config, "dev")["spec"] == {
        "provisioningClassName": "queued-provisioning.gke.io",
        "parameters": {"maxRunDurationSeconds": "3600"},
        "managedResources": ["nvidia.com/gpu"],
        "retryStrategy": {"backoffLimitCount": 0, "backoffBaseSeconds": 60, "backoffMaxSeconds": 1800},
        "podSetUpdates": {
            "nodeSelector": [{"key": "cloud/reservation", "valueFromProvisioningClassDetail": "Reservation"}]
        },
        "podSetMergePolicy": "IdenticalPodTemplates",
    }
    bare = ProvisioningRequestConfig(name="nodes", provisioning_class_name="check-capacity.autoscaling.x-k8s.io")
    assert queues.provisioning_request_config(bare, "dev")["spec"] == {
        "provisioningClassName": "check-capacity.autoscaling.x-k8s.io"
    }
    check = AdmissionCheck(
        name="nodes",
        controller_name="kueue.x-k8s.io/provisioning-request",
        parameters=CheckParameters(kind="ProvisioningRequestConfig", name="nodes"),
    )
    assert queues.admission_check(check, "dev")["spec"] == {
        "controllerName": "kueue.x-k8s.io/provisioning-request",
        "parameters": {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "nodes"},
    }
    cluster = MultiKueueCluster(name="west", kube_config=ClusterKubeConfig(location="west-kubeconfig"))
    assert queues.multi_kueue_cluster(cluster, "dev")["spec"] == {
        "clusterSource": {"kubeConfig": {"location": "west-kubeconfig", "locationType": "Secret"}}
    }
    workers = MultiKueueConfig(name="workers", clusters=("west",))
    assert queues.multi_kueue_config(workers, "dev")["spec"] == {"clusters": ["west"]}
