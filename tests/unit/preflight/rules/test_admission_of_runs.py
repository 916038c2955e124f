"""The findings of the rules of admission about an environment's runs."""

import json
import random
import re
from pathlib import Path

from tests.seeds import chosen_seed
from tests.unit.kueue.make import make_pods, make_workload
from tests.unit.make import (
    make_cluster_queue,
    make_distributed,
    make_group,
    make_queues,
    make_quota,
    make_run,
    make_settings,
)
from tests.unit.preflight.cases import ROOT
from trainstack.kueue.booking import overflowing_requests
from trainstack.kueue.format import as_data, summary
from trainstack.preflight.file_checks import check, examine
from trainstack.settings.sections.queues import ClusterQueue, FlavorQuotas, ResourceFlavor, ResourceGroup
from trainstack.settings.sections.workloads import Resources, Workload
from trainstack.settings.values.quantities import MAX_AMOUNT
from trainstack.stack_objects.stack_objects import StackObjects

SEED = chosen_seed("TRAINSTACK_SEARCH_SEED")


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


OVERFLOW = (
    "1 pod needs 1Gi memory; the quotas of memory on flavor cpu that cluster queue research depends on overflow: they "
    "add up to more than the 64 bits in which Kueue calculates"
)


def limited(name: str, memory: str, **limits: str | None) -> ClusterQueue:
    """Return a cluster queue of the cohort `local` with 2 cpu and a quota of memory with these limits."""
    quotas = (make_quota("cpu", "2"), make_quota("memory", memory, **limits))
    group = ResourceGroup(covered_resources=("cpu", "memory"), flavors=(FlavorQuotas(name="cpu", resources=quotas),))
    return make_cluster_queue(name=name, resource_groups=(group,))


def test_a_borrowing_limit_may_overflow() -> None:
    """Kueue adds it to the queue's own quota: the sum of 9E and 9E is negative, and the run is never admitted."""
    found = messages(make_run(), cluster_queues=(limited("research", "9E", borrowing_limit="9E"),))
    of_quota, of_run = found
    assert of_quota == (
        "the quotas of memory on flavor cpu in cohort local and what is borrowed overflow: they add up to "
        "18000000000000000000, more than the 64 bits in which Kueue calculates"
    )
    assert of_run == OVERFLOW


def test_a_sum_that_overflows_is_never_printed_as_a_negative_amount() -> None:
    """Of quotas that are meant as "unlimited", in findings, verdicts and their JSON."""
    rng = random.Random(SEED)
    amounts = ("0", "1Gi", "4Ei", "9E", str(MAX_AMOUNT))
    negative = 0
    for _ in range(150):
        queues = [
            limited(name, rng.choice(amounts), borrowing_limit=rng.choice((None, "0", *amounts)))
            for name in ("research", "vision", "speech")[: rng.randint(1, 3)]
        ]
        run = make_run(
            completions=4, parallelism=rng.randint(1, 4), resources=Resources(requests={"memory": rng.choice(amounts)})
        )
        settings = make_settings(run, queues=make_queues(cluster_queues=tuple(queues)))
        checked = examine(StackObjects(settings), ROOT)
        texts = [*map(str, checked.findings), *map(summary, checked.verdicts)]
        texts += [json.dumps(as_data(verdict)) for verdict in checked.verdicts]
        assert not [text for text in texts if re.search(r"(?<![\w.])-\d", text)], (SEED, run.resources, queues)
        overflown = any(reason.cause == "overflow" for verdict in checked.verdicts for reason in verdict.reasons)
        negative += overflown
        assert not overflown or "quota-overflow" in {finding.id for finding in checked.findings}
    assert 20 < negative < 130


def test_pods_may_request_as_much_as_64_bits_hold() -> None:
    """One byte more overflows, also as the sum of the pod sets."""

    def requesting(*memory: int) -> list[str]:
        pods = [make_pods(f"set{index}", memory=amount) for index, amount in enumerate(memory)]
        return [reason.message for reason in overflowing_requests(make_workload(*pods))]

    assert requesting(MAX_AMOUNT) == requesting(MAX_AMOUNT - 1, 1) == []
    assert requesting(MAX_AMOUNT - 1, 2) == [
        "its pods request 8388608Ti memory together, which overflows: Kueue calculates with 64 bits"
    ]
