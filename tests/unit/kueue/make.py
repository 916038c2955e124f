"""Short constructors of models and workloads for tests of admission."""

from collections.abc import Mapping
from typing import Any

from trainstack.kueue.model import (
    AdmittedWorkload,
    ClusterQueue,
    Cohort,
    Flavor,
    LocalQueue,
    Model,
    PodSet,
    Quota,
    ResourceGroup,
    Workload,
)
from trainstack.kueue.quantities import resource_value

Amount = int | str
Quotas = Mapping[str, Mapping[str, Amount | tuple[Amount | None, ...]]]
"""By flavor and resource: the nominal quota, or that, the borrowing limit and the lending limit."""


def make_queue(
    name: str = "q", quotas: Quotas | None = None, cohort: str | None = None, **changes: Any
) -> ClusterQueue:
    """Return a cluster queue with one group, by default with 4 cpu on the flavor `cpu`."""
    flavors = quotas or {"cpu": {"cpu": 4}}
    covered = frozenset(next(iter(flavors.values())))
    flavor_quotas = {
        (flavor, resource): make_quota(resource, figure)
        for flavor, figures in flavors.items()
        for resource, figure in figures.items()
    }
    base = {"groups": (ResourceGroup(covered, tuple(flavors)),), "quotas": flavor_quotas, "cohort": cohort}
    return ClusterQueue(**{"name": name, **base, **changes})


def make_quota(resource: str, figure: Amount | tuple[Amount | None, ...]) -> Quota:
    """Return a quota, with limits if the figure is a tuple."""
    figures = figure if isinstance(figure, tuple) else (figure,)
    nominal, borrowing, lending = (
        None if amount is None else resource_value(resource, amount) for amount in (*figures, None, None)[:3]
    )
    assert nominal is not None
    return Quota(nominal, borrowing, lending)


def make_model(*queues: ClusterQueue, cohorts: tuple[Cohort, ...] = (), **changes: Any) -> Model:
    """Return a model with these queues, local queues of the same names in namespace `ns`, and their flavors."""
    names = [name for queue in queues for group in queue.groups for name in group.flavors]
    base = {
        "flavors": {name: Flavor(name) for name in names},
        "cluster_queues": {queue.name: queue for queue in queues},
        "local_queues": {("ns", queue.name): LocalQueue("ns", queue.name, queue.name) for queue in queues},
        "cohorts": {cohort.name: cohort for cohort in cohorts},
    }
    return Model(**{**base, **changes})


def make_pods(name: str = "main", count: int = 1, path: str = "", **requests: Amount) -> PodSet:
    """Return a pod set with these requests per pod; `gpu` is `nvidia.com/gpu`."""
    per_pod = {"nvidia.com/gpu" if key == "gpu" else key: amount for key, amount in requests.items()}
    totals = {resource: resource_value(resource, amount) * count for resource, amount in per_pod.items()}
    return PodSet(name=name, count=count, requests=totals, path=path, resources_path=f"{path}.resources")


def make_workload(*sets: PodSet, queue: str = "q", **changes: Any) -> Workload:
    """Return the workload `asked` with these pod sets, by default one pod with 1 cpu."""
    base = {"name": "asked", "namespace": "ns", "queue": queue, "pod_sets": sets or (make_pods(cpu=1),)}
    return Workload(**{**base, **changes})


def make_admitted(name: str, queue: str = "q", flavor: str = "cpu", **changes: Any) -> AdmittedWorkload:
    """Return an admitted workload with cpu on a flavor, by default 1."""
    cpu = changes.pop("cpu", 1)
    workload_changes = {key: changes.pop(key) for key in ("priority", "created") if key in changes}
    workload = make_workload(make_pods(cpu=cpu), queue=queue, name=name, **workload_changes)
    return AdmittedWorkload(workload, queue, {(flavor, "cpu"): resource_value("cpu", cpu)}, **changes)
