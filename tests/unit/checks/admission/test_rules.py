"""What a queue can ever give, and which runs that is too little for."""

from pathlib import Path

import pytest

from checks.preflight import check
from checks.quota import potential
from settings.queues import ClusterQueue, Cohort, FlavorQuotas, Queues, ResourceFlavor, ResourceGroup
from settings.workloads import Resources, Workload
from tests.unit.make import (
    make_cluster_queue,
    make_distributed,
    make_group,
    make_queues,
    make_quota,
    make_run,
    make_settings,
)


def make_pool(name: str, cohort: str | None, nominal: str, **limits: str) -> ClusterQueue:
    """A cluster queue with so much cpu on the flavor `cpu`."""
    quota = make_quota("cpu", nominal, **limits)
    group = ResourceGroup(covered_resources=("cpu",), flavors=(FlavorQuotas(name="cpu", resources=(quota,)),))
    return ClusterQueue(name=name, cohort=cohort, resource_groups=(group,))


@pytest.mark.parametrize(
    ("pools", "expected"),
    [
        pytest.param([make_pool("q", None, "2"), make_pool("r", None, "4")], 2, id="alone: its own"),
        pytest.param([make_pool("q", "a", "2"), make_pool("r", "a", "4")], 6, id="in a cohort: everybody's"),
        pytest.param(
            [make_pool("q", "a", "2", borrowing_limit="1"), make_pool("r", "a", "4")], 3, id="borrows so much"
        ),
        pytest.param([make_pool("q", "a", "2"), make_pool("r", "a", "4", lending_limit="1")], 3, id="is lent so much"),
        pytest.param([make_pool("q", "a", "2", lending_limit="0"), make_pool("r", "a", "4")], 6, id="keeps its own"),
        pytest.param([make_pool("q", "a", "2"), make_pool("r", "b", "4")], 6, id="cohorts of one parent share"),
        pytest.param([make_pool("q", "a", "2"), make_pool("r", "root", "4")], 6, id="the parent's own queues lend"),
        pytest.param([make_pool("q", "a", "2"), make_pool("r", "c", "4")], 2, id="another tree does not"),
        pytest.param([make_pool("q", "a", "0"), make_pool("r", "a", "4")], 4, id="all of it borrowed"),
    ],
)
def test_potential_is_what_an_idle_cluster_gives(pools: list[ClusterQueue], expected: int) -> None:
    """Nominal quota, and what the whole tree of cohorts lends, within the limits of both sides."""
    cohorts = (Cohort(name="a", parent="root"), Cohort(name="b", parent="root"), Cohort(name="c"))
    assert potential(Queues(cohorts=cohorts, cluster_queues=tuple(pools)), pools[0], "cpu", "cpu") == expected


def test_a_cycle_of_cohorts_ends() -> None:
    """Cohorts that are each other's parent are another rule's fault; the arithmetic still ends."""
    pool = make_pool("q", "a", "2")
    cohorts = (Cohort(name="a", parent="b"), Cohort(name="b", parent="a"))
    assert potential(Queues(cohorts=cohorts, cluster_queues=(pool,)), pool, "cpu", "cpu") == 2


def test_a_flavor_without_own_quota_gives_nothing() -> None:
    """A queue borrows only on flavors that it lists itself."""
    pool = make_pool("q", "a", "2")
    assert potential(Queues(cluster_queues=(pool, make_pool("r", "a", "4"))), pool, "gpu", "cpu") == 0


def messages(*runs: Workload, **queues: object) -> list[str]:
    """The admission findings of runs."""
    settings = make_settings(*runs, queues=make_queues(**queues))
    return [each.message for each in check(settings, Path("/nonexistent"))]


def test_a_pod_set_stands_on_one_flavor() -> None:
    """Two flavors of 2 cpu do not hold one pod of 3."""
    group = make_group(("cpu", {"cpu": "2", "memory": "8Gi"}), ("old", {"cpu": "1", "memory": "8Gi"}))
    run = make_run(resources=Resources(requests={"cpu": "3"}))
    flavors = (ResourceFlavor(name="cpu"), ResourceFlavor(name="old"))
    assert messages(run, flavors=flavors, cluster_queues=(make_cluster_queue(resource_groups=(group,)),)) == [
        "1 Job pod needs 3 cpu; no flavor of cluster queue research has that much (cpu comes nearest with 2, 1 missing)"
    ]


def test_pod_sets_may_stand_on_flavors_of_their_own() -> None:
    """Master and workers that fit on a flavor each are not refused."""
    group = make_group(("cpu", {"cpu": "1", "memory": "8Gi"}), ("old", {"cpu": "500m", "memory": "8Gi"}))
    flavors = (ResourceFlavor(name="cpu"), ResourceFlavor(name="old"))
    queue = make_cluster_queue(resource_groups=(group,))
    assert messages(make_distributed(workers=2), flavors=flavors, cluster_queues=(queue,)) == []


def test_a_limit_alone_is_a_request() -> None:
    """Kubernetes takes a limit for the request that is not there; a request of nothing is none."""
    limit_alone = make_run(resources=Resources(limits={"memory": "9Gi", "nvidia.com/gpu": "0"}))
    both = make_run(name="both", resources=Resources(requests={"memory": "1Gi"}, limits={"memory": "9Gi"}))
    assert messages(limit_alone, both) == [
        (
            "1 Job pod needs 9Gi memory; no flavor of cluster queue research has that much "
            "(cpu comes nearest with 8Gi, 1Gi missing)"
        )
    ]


def test_a_job_needs_the_pods_that_run_at_once() -> None:
    """Parallelism counts, completions only where they are fewer."""
    many = make_run(completions=9, parallelism=2)
    few = make_run(name="few", completions=2, parallelism=9)
    assert messages(many, few) == []
