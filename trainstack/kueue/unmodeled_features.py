"""Features that are set and not calculated, so that a verdict is unknown."""

from collections.abc import Iterator

from trainstack.kueue.booking import ambiguous_requests, overflowing_requests
from trainstack.kueue.differences import DisputedFeature
from trainstack.kueue.flavor_assigner import pod_set_groups
from trainstack.kueue.model import Model, Workload
from trainstack.kueue.resource_node import dispatches_and_provisions
from trainstack.kueue.snapshot import QueueSnapshot
from trainstack.kueue.verdict import Reason


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
    for feature, text in _disputed_features(model, workload, cq):
        if not release.minor or feature in release.disputed_features:
            yield Reason("unmodelled", f"{text} depends on the {dependency}", workload.path)
    for kind, name in _relevant_objects(workload, cq):
        for text in model.unmodeled_fields.get((kind, name), ()):
            yield Reason("unmodelled", f"{' '.join(filter(None, (kind, name)))} sets {text}", workload.path)
    for text in workload.unmodeled_fields:
        yield Reason("unmodelled", f"Workload {workload.key} sets {text}", workload.path)
    for pods in workload.pod_sets:
        if (
            pods.requests
            and "pods" not in cq.group_of
            and all(cq.ignores(*request) for request in pods.requests.items())
        ):
            message = (
                f"pod set {pods.name} requests only zero amounts, of resources that cluster queue {cq.spec.name} does"
                " not cover"
            )
            yield Reason("unmodelled", message, workload.path)
    yield from overflowing_requests(workload)
    yield from ambiguous_requests(workload)
    order = [index for group in pod_set_groups(workload) for index in group]
    if order != sorted(order):
        message = "the pod sets of a group (podset-group-name) are not consecutive, which Kueue does not handle"
        yield Reason("unmodelled", message, workload.path)


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


def _relevant_objects(workload: Workload, cq: QueueSnapshot) -> Iterator[tuple[str, str]]:
    """Yield the kinds and names of the objects that the verdict depends on."""
    yield "Configuration", ""
    yield "LocalQueue", f"{workload.namespace}/{workload.queue}"
    yield from (("ResourceFlavor", name) for group in cq.spec.groups for name in group.flavors)
    yield from (("ClusterQueue", node.name) for node in cq.node.tree_queues())
    yield from (("Cohort", name) for name in cq.node.root.all_cohorts())
