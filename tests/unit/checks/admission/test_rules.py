"""The findings of the rules of admission about an environment's runs."""

from pathlib import Path

from tests.unit.make import (
    make_cluster_queue,
    make_distributed,
    make_group,
    make_queues,
    make_quota,
    make_run,
    make_settings,
)
from trainstack.preflight.preflight import check
from trainstack.settings.sections.queues import FlavorQuotas, ResourceFlavor, ResourceGroup
from trainstack.settings.sections.workloads import Resources, Workload


def messages(*runs: Workload, **queues: object) -> list[str]:
    """Return the messages of the admission findings about runs."""
    settings = make_settings(*runs, queues=make_queues(**queues))
    return [finding.message for finding in check(settings, Path("/nonexistent"))]


def test_a_pod_set_has_one_flavor() -> None:
    """A pod of 3 cpu does not fit on flavors of 2 and 1."""
    group = make_group(("cpu", {"cpu": "2", "memory": "8Gi"}), ("old", {"cpu": "1", "memory": "8Gi"}))
    run = make_run(resources=Resources(requests={"cpu": "3"}))
    flavors = (ResourceFlavor(name="cpu"), ResourceFlavor(name="old"))
    assert messages(run, flavors=flavors, cluster_queues=(make_cluster_queue(resource_groups=(group,)),)) == [
        "1 pod needs 3 cpu; cluster queue research has at most 2 of flavor cpu (1 missing)"
    ]


def test_pod_sets_may_have_different_flavors() -> None:
    """Master and workers that fit on separate flavors are not refused."""
    group = make_group(("cpu", {"cpu": "1", "memory": "8Gi"}), ("old", {"cpu": "500m", "memory": "8Gi"}))
    flavors = (ResourceFlavor(name="cpu"), ResourceFlavor(name="old"))
    queue = make_cluster_queue(resource_groups=(group,))
    assert messages(make_distributed(workers=2), flavors=flavors, cluster_queues=(queue,)) == []


def test_a_limit_without_a_request_counts_as_a_request() -> None:
    """Kubernetes sets the request to the limit; Kueue requires that a request of 0 is covered too."""
    limit_alone = make_run(resources=Resources(limits={"memory": "9Gi", "nvidia.com/gpu": "0"}))
    both = make_run(name="both", resources=Resources(requests={"memory": "1Gi"}, limits={"memory": "9Gi"}))
    assert messages(limit_alone, both) == [
        "1 pod needs 9Gi memory; cluster queue research has at most 8Gi of flavor cpu (1Gi missing)",
        "the pod requests nvidia.com/gpu, which cluster queue research does not cover",
    ]


def test_a_job_needs_the_pods_that_run_at_once() -> None:
    """Parallelism counts, or completions if they are fewer."""
    many = make_run(completions=9, parallelism=2)
    few = make_run(name="few", completions=2, parallelism=9)
    assert messages(many, few) == []


def test_a_borrowing_limit_may_overflow() -> None:
    """Kueue adds it to the queue's own quota: the sum of 9E and 9E is negative, and the run is never admitted."""
    quotas = (make_quota("cpu", "2"), make_quota("memory", "9E", borrowing_limit="9E"))
    group = ResourceGroup(covered_resources=("cpu", "memory"), flavors=(FlavorQuotas(name="cpu", resources=quotas),))
    found = messages(make_run(), cluster_queues=(make_cluster_queue(resource_groups=(group,)),))
    assert (
        "the quotas of memory on flavor cpu in cohort local and what is borrowed add up to "
        "18000000000000000000, which Kueue counts as -446744073709551616"
    ) in found
    assert any("1 pod needs 1Gi memory" in message for message in found)
