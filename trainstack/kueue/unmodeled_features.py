"""Features that are set and not calculated, so that a verdict is unknown."""

from collections.abc import Iterator

from trainstack.kueue.booking import ambiguous_requests, overflowing_requests
from trainstack.kueue.differences import V15, DisputedFeature
from trainstack.kueue.flavor_assigner import pod_set_groups
from trainstack.kueue.model import Model, PodSet, Workload
from trainstack.kueue.node_affinity import match_labels
from trainstack.kueue.resource_node import dispatches_and_provisions
from trainstack.kueue.snapshot import QueueSnapshot
from trainstack.kueue.verdict import Reason
from trainstack.settings.sections.workloads import CLUSTER_RUNTIME
from trainstack.settings.values.kubernetes import is_extended_resource


def unmodeled_features(model: Model, workload: Workload, cq: QueueSnapshot) -> Iterator[Reason]:
    """Yield the reasons; none if everything that the verdict on a workload depends on is calculated."""
    for text in model.gates.unmodeled_gates():
        yield Reason("unmodelled", f"Kueue runs with {text}", workload.path)
    release = model.release
    dependency = (
        "patch release of Kueue, and is not calculated for this one"
        if release.minor
        else "release of Kueue, which is unknown"
    )
    for feature, text in (*_disputed_features(model, workload, cq), *_disputed_requests(workload, cq)):
        if not release.minor or feature in release.disputed_features:
            yield Reason("unmodelled", f"{text} depends on the {dependency}", workload.path)
    for kind, name in _relevant_objects(workload, cq):
        for text in model.unmodeled_fields.get((kind, name), ()):
            yield Reason("unmodelled", f"{' '.join(filter(None, (kind, name)))} sets {text}", workload.path)
    yield from _unread_runtimes(workload)
    for text in workload.unmodeled_fields:
        yield Reason("unmodelled", f"Workload {workload.key} sets {text}", workload.path)
    for pods in workload.pod_sets:
        if (
            pods.requests
            and "pods" not in cq.group_of
            and all(cq.ignores(*request) for request in pods.requests.items())
        ):
            amounts = "resources" if any(pods.requests.values()) else "zero amounts, of resources"
            message = f"pod set {pods.name} requests only {amounts} that cluster queue {cq.spec.name} does not cover"
            yield Reason("unmodelled", message, workload.path)
    yield from _device_requests(model, workload)
    yield from overflowing_requests(workload)
    yield from ambiguous_requests(workload)
    order = [index for group in pod_set_groups(workload) for index in group]
    if order != sorted(order):
        message = "the pod sets of a group (podset-group-name) are not consecutive, which Kueue does not handle"
        yield Reason("unmodelled", message, workload.path)


def _unread_runtimes(workload: Workload) -> Iterator[Reason]:
    runtime = workload.unread_runtime
    if runtime is not None:
        remedy = (
            "`trainstack check --cluster` reads them, except for MPI and Flux"
            if runtime.kind == CLUSTER_RUNTIME
            else "declare the runtime under objects"
        )
        message = f"the pods that {runtime.kind} {runtime.name} defines are unknown here; {remedy}"
        yield Reason("unread", message, f"{workload.path}.{runtime.path}")


def _disputed_features(
    model: Model, workload: Workload, cq: QueueSnapshot
) -> Iterator[tuple[DisputedFeature | None, str]]:
    """Yield the decisions on which releases differ, with their feature if patch releases differ on it, or None."""
    if model.fair_sharing:
        yield "fair sharing", "preemption under fair sharing"
    zero_requests = {name for pods in workload.pod_sets for name, number in pods.requests.items() if number == 0}
    for name in sorted(zero_requests - cq.group_of.keys()):
        yield None, f"whether a request of zero {name} needs quota"
    if cq.spec.fungibility.preference is not None:
        yield "preference", f"the preference of cluster queue {cq.spec.name} (flavorFungibility)"
    preemption = cq.spec.preemption
    if "pods" in cq.group_of and {preemption.within_cluster_queue, preemption.reclaim_within_cohort} != {"Never"}:
        yield None, f"whether workloads are preempted for the quota of pods in cluster queue {cq.spec.name}"
    if cq.spec.fungibility.preference == "BorrowingOverPreemption":
        yield "no candidates", f"the choice of a flavor without preemption candidates in cluster queue {cq.spec.name}"
    if any(
        cq.node.overflows((name, resource))
        for pods in workload.pod_sets
        for resource in pods.requests
        if resource in cq.group_of
        for name in cq.group_of[resource].names
    ):
        yield None, f"whether quotas of cluster queue {cq.spec.name} that add up to more than 64 bits are unlimited"
    without_topology = {
        flavor.name
        for pods in workload.pod_sets
        for name, group in cq.group_of.items()
        if pods.requests_topology
        and name in (*pods.requests, "pods")
        and group.covered_resources.isdisjoint(pods.own_resources)
        for flavor in group.flavors
        if flavor and not flavor.topology
    }
    for name in sorted(without_topology):
        yield "topology", f"whether pods with a topology request get flavor {name}, which has no topology,"
    if dispatches_and_provisions(model, cq.spec) and not cq.spec.inactive_message:
        yield (
            None,
            f"whether cluster queue {cq.spec.name}, with checks of MultiKueue and ProvisioningRequest, is active",
        )


def _disputed_requests(workload: Workload, cq: QueueSnapshot) -> Iterator[tuple[DisputedFeature | None, str]]:
    """Yield what releases make differently of a workload's pod sets, as `_disputed_features`."""
    for pods in workload.pod_sets:
        for name in sorted(_flavors_by_release(cq, pods)):
            yield "label keys", f"whether flavor {name}, which lacks labels that {pods.name} pods select, suits them"
        topology_groups = {
            id(group)
            for name, group in cq.group_of.items()
            if name in (*pods.requests, "pods") and not cq.topology_flavors.isdisjoint(group.names)
        }
        if len(topology_groups) > 1 and cq.places(pods):
            yield "several topologies", f"whether {pods.name} pods may get flavors of several topologies"
        if pods.pod_refusals or pods.first_refusals:
            yield "LimitRange defaults", f"whether Kueue always refuses {pods.name} pods that a LimitRange contradicts"
        if "pod-level resources" in pods.disputed_requests:
            yield "pod-level resources", f"whether limits of whole {pods.name} pods count as their requests"
        if "tolerations" in pods.disputed_requests:
            yield None, f"whether tolerations of {pods.name} pods by Gt or Lt match taints"
        if "transformations" in pods.disputed_requests:
            yield "transformations", f"what Kueue's transformations make of the requests of {pods.name} pods"
    if len(workload.pod_sets) > V15.max_pod_sets:
        yield None, f"whether a Workload may have {len(workload.pod_sets)} pod sets"
    if any(pods.resource_claims for pods in workload.pod_sets):
        yield None, "whether resource claims need quota"


def _flavors_by_release(cq: QueueSnapshot, pods: PodSet) -> set[str]:
    """Return the flavors whose label keys decide whether they suit the pods: in some releases all keys of the group."""
    return {
        flavor.name
        for name, group in cq.group_of.items()
        if name in (*pods.requests, "pods")
        for flavor in group.flavors
        if flavor is not None
        and match_labels(pods.selector, pods.affinity, flavor.labels, group.keys)
        != match_labels(pods.selector, pods.affinity, flavor.labels, flavor.labels.keys())
    }


def _device_requests(model: Model, workload: Workload) -> Iterator[Reason]:
    """Yield the requests that may need quota of device classes."""
    for pods in workload.pod_sets:
        if model.release.counts_devices and pods.resource_claims:
            names = ", ".join(pods.resource_claims)
            message = f"{pods.name} pods have resource claims ({names}): quota of device classes is not calculated"
            yield Reason("unmodelled", message, pods.path, pods.name)
        if model.maps_device_classes and model.gates.is_enabled("KueueDRAIntegrationExtendedResource"):
            for resource in sorted(filter(is_extended_resource, pods.own_resources)):
                message = (
                    f"{pods.name} pods request {resource}, which may be of a device class: deviceClassMappings of"
                    " Kueue's Configuration are not calculated"
                )
                yield Reason("unmodelled", message, pods.resources_path, pods.name, resource=resource)


def _relevant_objects(workload: Workload, cq: QueueSnapshot) -> Iterator[tuple[str, str]]:
    """Yield the kinds and names of the objects that the verdict depends on."""
    yield "Configuration", ""
    yield "LocalQueue", f"{workload.namespace}/{workload.queue}"
    yield from (("ResourceFlavor", name) for group in cq.spec.groups for name in group.flavors)
    yield from (("ClusterQueue", node.name) for node in cq.node.tree_queues())
    yield from (("Cohort", name) for name in cq.node.root.all_cohorts())
