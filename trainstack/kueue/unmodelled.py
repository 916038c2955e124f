"""What is set and not calculated, so that a verdict is unknown."""

from collections.abc import Iterator

from trainstack.kueue.flavor_assigner import pod_set_groups
from trainstack.kueue.model import Model, Workload
from trainstack.kueue.verdict import Reason


def unmodelled_features(model: Model, workload: Workload) -> Iterator[Reason]:
    """Yield the reasons; none if everything that the verdict on a workload depends on is calculated."""
    for text in model.gates.unmodelled():
        yield Reason("unmodelled", f"Kueue runs with {text}", workload.path)
    order = [index for group in pod_set_groups(workload) for index in group]
    if order != sorted(order):
        message = "the pod sets of a group (podset-group-name) are not consecutive, which Kueue does not handle"
        yield Reason("unmodelled", message, workload.path)
