"""Models and workloads for tests of admission, said in a few words."""

from collections.abc import Mapping
from typing import Any

from trainstack.kueue.model import (
    Admitted,
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
from trainstack.kueue.quantities import value

Amount = int | str
Quotas = Mapping[str, Mapping[str, Amount | tuple[Amount | None, ...]]]
"""By flavor and resource: the nominal quota, or that, the borrowing limit and the lending limit."""


def make_queue(
    name: str = "q", quotas: Quotas | None = None, cohort: str | None = None, **changes: Any
) -> ClusterQueue:
    """A cluster queue of one group, with 4 cpu on the flavor `cpu` if nothing else is said."""
    said = quotas or {"cpu": {"cpu": 4}}
    covered = frozenset(next(iter(said.values())))
    found = {
        (flavor, resource): make_quota(resource, figure)
        for flavor, figures in said.items()
        for resource, figure in figures.items()
    }
    base = {"groups": (ResourceGroup(covered, tuple(said)),), "quotas": found, "cohort": cohort}
    return ClusterQueue(**{"name": name, **base, **changes})


def make_quota(resource: str, figure: Amount | tuple[Amount | None, ...]) -> Quota:
    """A quota of so much, with limits where there are any."""
    figures = figure if isinstance(figure, tuple) else (figure,)
    nominal, borrowing, lending = (
        None if each is None else value(resource, each) for each in (*figures, None, None)[:3]
    )
    assert nominal is not None
    return Quota(nominal, borrowing, lending)


def make_model(*queues: ClusterQueue, cohorts: tuple[Cohort, ...] = (), **changes: Any) -> Model:
    """Queues with a local queue each, of their name, in namespace `ns`; flavors as far as the queues name them."""
    names = [name for queue in queues for group in queue.groups for name in group.flavors]
    base = {
        "flavors": {name: Flavor(name) for name in names},
        "cluster_queues": {queue.name: queue for queue in queues},
        "local_queues": {("ns", queue.name): LocalQueue("ns", queue.name, queue.name) for queue in queues},
        "cohorts": {cohort.name: cohort for cohort in cohorts},
    }
    return Model(**{**base, **changes})


def make_pods(name: str = "main", count: int = 1, path: str = "", **requests: Amount) -> PodSet:
    """Pods of which each requests so much; `gpu` is `nvidia.com/gpu`."""
    each = {"nvidia.com/gpu" if key == "gpu" else key: amount for key, amount in requests.items()}
    totals = {resource: value(resource, amount) * count for resource, amount in each.items()}
    return PodSet(name=name, count=count, requests=totals, path=path, resources_path=f"{path}.resources")


def make_workload(*sets: PodSet, queue: str = "q", **changes: Any) -> Workload:
    """The workload `asked` of these pods; one of 1 cpu if none are said."""
    base = {"name": "asked", "namespace": "ns", "queue": queue, "pod_sets": sets or (make_pods(cpu=1),)}
    return Workload(**{**base, **changes})


def make_admitted(name: str, queue: str = "q", flavor: str = "cpu", **changes: Any) -> Admitted:
    """A workload that has cpu on a flavor: 1 if nothing else is said."""
    cpu = changes.pop("cpu", 1)
    own = {key: changes.pop(key) for key in ("priority", "created") if key in changes}
    workload = make_workload(make_pods(cpu=cpu), queue=queue, name=name, **own)
    return Admitted(workload, queue, {(flavor, "cpu"): value("cpu", cpu)}, **changes)
