"""What is set and not calculated, so that a verdict is unknown."""

from collections.abc import Iterator

from trainstack.kueue.flavor_assigner import pod_set_groups
from trainstack.kueue.model import Model, Workload
from trainstack.kueue.snapshot import QueueSnapshot
from trainstack.kueue.verdict import Reason


def unmodelled_features(model: Model, workload: Workload, cq: QueueSnapshot) -> Iterator[Reason]:
    """Yield the reasons; none if everything that the verdict on a workload depends on is calculated."""
    for text in model.gates.unmodelled():
        yield Reason("unmodelled", f"Kueue runs with {text}", workload.path)
    if model.fair_sharing and not model.release.models_fair_sharing:
        message = f"preemption under fair sharing in Kueue {model.release.minor} is not calculated"
        yield Reason("unmodelled", message, workload.path)
    for kind, name in _relevant(workload, cq):
        for text in model.unmodelled.get((kind, name), ()):
            yield Reason("unmodelled", f"{' '.join(filter(None, (kind, name)))} sets {text}", workload.path)
    for text in workload.unmodelled:
        yield Reason("unmodelled", f"Workload {workload.key} sets {text}", workload.path)
    for pods in workload.pod_sets:
        if pods.requests and "pods" not in cq.group_of and all(cq.ignores(*item) for item in pods.requests.items()):
            message = f"pod set {pods.name} requests nothing that cluster queue {cq.spec.name} covers, and some of zero"
            yield Reason("unmodelled", message, workload.path)
    order = [index for group in pod_set_groups(workload) for index in group]
    if order != sorted(order):
        message = "the pod sets of a group (podset-group-name) are not consecutive, which Kueue does not handle"
        yield Reason("unmodelled", message, workload.path)


def _relevant(workload: Workload, cq: QueueSnapshot) -> Iterator[tuple[str, str]]:
    """Yield the kinds and names of the objects that the verdict depends on."""
    yield "Configuration", ""
    yield "LocalQueue", f"{workload.namespace}/{workload.queue}"
    yield from (("ResourceFlavor", name) for group in cq.spec.groups for name in group.flavors)
    yield from (("ClusterQueue", node.name) for node in cq.node.tree_queues())
    *_, root = (cq.node, *cq.node.ancestors())
    yield from (("Cohort", name) for name in root.all_cohorts())
