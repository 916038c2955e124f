"""Further environments with one fault: of queues and flavors as a whole."""

from tests.unit.checks.cases import Case
from tests.unit.make import (
    make_cluster_queue,
    make_group,
    make_queues,
    make_quota,
    make_run,
    make_settings,
)
from trainstack.settings.model import Settings
from trainstack.settings.sections.queues import (
    BorrowWithinCohort,
    FlavorQuotas,
    Preemption,
    ResourceFlavor,
    ResourceGroup,
)

A100 = ResourceFlavor(name="a100", node_labels={"gpu": "a100"})
CPU = ResourceFlavor(name="cpu")
POOL = "queues.clusterQueues[research]"
SPARE = {"cpu": "1", "memory": "1Gi"}


def pool(*groups: ResourceGroup, **changes: object) -> Settings:
    """An environment in which the cluster queue has these groups, on flavors `cpu` and `a100`."""
    queue = make_cluster_queue(resource_groups=groups)
    return make_settings(queues=make_queues(flavors=(CPU, A100), cluster_queues=(queue,), **changes))


def preempting(policy: str) -> Settings:
    """An environment whose queue evicts while it borrows, and takes back its own by this policy."""
    preemption = Preemption.model_validate(
        {"borrow_within_cohort": BorrowWithinCohort(policy="LowerPriority"), "reclaim_within_cohort": policy}
    )
    return make_settings(queues=make_queues(cluster_queues=(make_cluster_queue(preemption=preemption),)))


def spare(**limits: str) -> Settings:
    """An environment with one more cluster queue, to which no local queue leads, in the same cohort."""
    quotas = tuple(make_quota(name, "1Gi" if name == "memory" else "1", **limits) for name in SPARE)
    group = ResourceGroup(covered_resources=tuple(SPARE), flavors=(FlavorQuotas(name="cpu", resources=quotas),))
    queues = (make_cluster_queue(), make_cluster_queue(name="spare", resource_groups=(group,)))
    return make_settings(queues=make_queues(cluster_queues=queues))


POOL_CASES: dict[str, list[Case]] = {
    "group-overlap": [
        Case(
            make_settings(
                queues=make_queues(
                    cluster_queues=(
                        make_cluster_queue(
                            resource_groups=(
                                ResourceGroup(
                                    covered_resources=("cpu", "memory"),
                                    flavors=(
                                        FlavorQuotas(
                                            name="cpu", resources=(make_quota("cpu", "1"), make_quota("memory", "1Gi"))
                                        ),
                                    )
                                    * 2,
                                ),
                            )
                        ),
                    )
                )
            ),
            f"{POOL}.resourceGroups[0]",
            "the flavor cpu is in resourceGroups[0] already",
            "keep each flavor in one group, once",
        )
    ],
    "borrow-without-reclaim": [
        Case(
            preempting("Never"),
            f"{POOL}.preemption",
            "borrowWithinCohort has the policy LowerPriority, and reclaimWithinCohort is Never",
            "let reclaimWithinCohort be LowerPriority or Any, or leave borrowWithinCohort out",
        )
    ],
    "queue-unused": [
        Case(
            make_settings(queues=make_queues(local_queues=(), cluster_queues=(make_cluster_queue(cohort=None),))),
            POOL,
            "no local queue leads to cluster queue research, and it lends to nobody",
            "declare a local queue for it under queues.localQueues, or take it out",
            "warning",
        ),
        Case(
            spare(lending_limit="0"),
            "queues.clusterQueues[spare]",
            "no local queue leads to cluster queue spare, and it lends to nobody",
            "declare a local queue for it under queues.localQueues, or take it out",
            "warning",
        ),
    ],
    "queue-empty": [
        Case(
            pool(make_group(("cpu", {**SPARE, "gpu": "0"}), ("a100", {**SPARE, "gpu": "0"}))),
            f"{POOL}.resourceGroups[0]",
            "cluster queue research has no gpu to give on any flavor, with all that its cohort lends",
            "raise a nominalQuota, join a cohort that has gpu, or take gpu out of the group",
            "warning",
        )
    ],
    "coverage-partial": [
        Case(
            pool(make_group(("cpu", {"cpu": "1"}))),
            f"{POOL}.resourceGroups",
            "cluster queue research does not cover memory: no pod that requests any is ever admitted",
            "add memory to coveredResources, with a quota on each flavor",
            "warning",
        )
    ],
    "cohort-overpromised": [
        Case(
            make_settings(
                queues=make_queues(
                    cluster_queues=(
                        make_cluster_queue(
                            resource_groups=(
                                ResourceGroup(
                                    covered_resources=("cpu", "memory"),
                                    flavors=(
                                        FlavorQuotas(
                                            name="cpu",
                                            resources=(
                                                make_quota("cpu", "2", borrowing_limit="4"),
                                                make_quota("memory", "8Gi", borrowing_limit="8Gi"),
                                            ),
                                        ),
                                    ),
                                ),
                            )
                        ),
                        make_cluster_queue(name="other"),
                    )
                )
            ),
            f"{POOL}.resourceGroups[0].flavors[cpu].resources[cpu].borrowingLimit",
            "cluster queue research may borrow 4 cpu, and cohort local lends it 2 at most",
            "lower it to 2, or let others of the cohort lend more",
            "warning",
        )
    ],
    "flavor-conflict": [
        Case(
            make_settings(
                queues=make_queues(
                    flavors=(
                        ResourceFlavor(name="cpu", node_labels={"pool": "a", "zone": "z"}),
                        ResourceFlavor(name="gpu", node_labels={"pool": "b", "zone": "z"}),
                    ),
                    cluster_queues=(
                        make_cluster_queue(
                            resource_groups=(make_group(("cpu", SPARE)), make_group(("gpu", {"g": "1"})))
                        ),
                    ),
                )
            ),
            f"{POOL}.resourceGroups[1]",
            "a pod that is given flavor cpu of resourceGroups[0] and gpu of resourceGroups[1] would have to stand on "
            "nodes with pool=a and pool=b",
            "put the resources of such pods into one group, or give the flavors labels that agree",
            "warning",
        )
    ],
    "selector-ignored": [
        Case(
            make_settings(
                make_run(node_selector={"gpu": "a100", "disk": "ssd"}), queues=make_queues(flavors=(CPU, A100))
            ),
            "workloads.runs[train].nodeSelector",
            "selects nodes by gpu, which no flavor of queue research has (flavor a100 has it): Kueue does not look at "
            "it, and its pods may be admitted on nodes that they do not select",
            "name a queue with flavor a100, or take gpu out of the selector",
            "warning",
        )
    ],
}
