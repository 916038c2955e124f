"""Further environments with one fault in their queues and flavors."""

from tests.unit.make import (
    make_cluster_queue,
    make_distributed,
    make_group,
    make_queues,
    make_quota,
    make_run,
    make_settings,
)
from tests.unit.preflight.cases import Case
from tests.unit.preflight.pod_cases import requiring
from trainstack.settings.model import Settings
from trainstack.settings.sections.queues import (
    BorrowWithinCohort,
    ClusterQueue,
    FlavorQuotas,
    Preemption,
    ResourceFlavor,
    ResourceGroup,
)
from trainstack.settings.sections.workloads import Resources, Role

A100 = ResourceFlavor(name="a100", node_labels={"gpu": "a100"})
CPU = ResourceFlavor(name="cpu")
POOL = "queues.clusterQueues[research]"
SPARE = {"cpu": "1", "memory": "1Gi"}


def pool(*groups: ResourceGroup, **changes: object) -> Settings:
    """Return an environment whose cluster queue has these groups, on flavors `cpu` and `a100`."""
    queue = make_cluster_queue(resource_groups=groups)
    return make_settings(queues=make_queues(flavors=(CPU, A100), cluster_queues=(queue,), **changes))


def preempting(policy: str) -> Settings:
    """Return an environment whose queue preempts while it borrows, and reclaims its quota by this policy."""
    preemption = Preemption.model_validate(
        {"borrow_within_cohort": BorrowWithinCohort(policy="LowerPriority"), "reclaim_within_cohort": policy}
    )
    return make_settings(queues=make_queues(cluster_queues=(make_cluster_queue(preemption=preemption),)))


def spare(**limits: str) -> Settings:
    """Return an environment with another cluster queue in the same cohort, at which no local queue points."""
    quotas = tuple(make_quota(name, "1Gi" if name == "memory" else "1", **limits) for name in SPARE)
    group = ResourceGroup(covered_resources=tuple(SPARE), flavors=(FlavorQuotas(name="cpu", resources=quotas),))
    queues = (make_cluster_queue(), make_cluster_queue(name="spare", resource_groups=(group,)))
    return make_settings(queues=make_queues(cluster_queues=queues))


def unlimited(own: str, others: str) -> Settings:
    """Return an environment with these amounts of memory on a second flavor, for its queue and another one."""

    def queue(name: str, memory: str) -> ClusterQueue:
        group = make_group(("cpu", SPARE), ("a100", {"cpu": "1", "memory": memory}))
        return make_cluster_queue(name=name, resource_groups=(group,))

    queues = (queue("research", own), queue("spare", others))
    return make_settings(queues=make_queues(flavors=(CPU, A100), cluster_queues=queues))


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
            "flavor cpu is already listed in resourceGroups[0]",
            "list each resource and flavor once, in one group",
        )
    ],
    "borrow-without-reclaim": [
        Case(
            preempting("Never"),
            f"{POOL}.preemption",
            "borrowWithinCohort.policy is LowerPriority, but reclaimWithinCohort is Never",
            "set `reclaimWithinCohort` to `LowerPriority` or `Any`, or remove `borrowWithinCohort`",
        )
    ],
    "queue-unused": [
        Case(
            make_settings(queues=make_queues(local_queues=(), cluster_queues=(make_cluster_queue(cohort=None),))),
            POOL,
            "no local queue points at cluster queue research, and it lends nothing",
            "declare a local queue under `queues.localQueues`, or remove the cluster queue; silence the finding if "
            "another stack declares the local queue",
            "warning",
        ),
        Case(
            spare(lending_limit="0"),
            "queues.clusterQueues[spare]",
            "no local queue points at cluster queue spare, and it lends nothing",
            "declare a local queue under `queues.localQueues`, or remove the cluster queue; silence the finding if "
            "another stack declares the local queue",
            "warning",
        ),
    ],
    "queue-empty": [
        Case(
            pool(make_group(("cpu", {**SPARE, "gpu": "0"}), ("a100", {**SPARE, "gpu": "0"}))),
            f"{POOL}.resourceGroups[0]",
            "cluster queue research has no quota of gpu on any flavor, and can borrow none",
            "raise a `nominalQuota`, join a cohort that has some, or remove the resource from the group",
            "warning",
        )
    ],
    "coverage-partial": [
        Case(
            pool(make_group(("cpu", {"cpu": "1"}))),
            f"{POOL}.resourceGroups",
            "cluster queue research does not cover memory: it admits no pod that requests memory",
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
            "cluster queue research may borrow 4 cpu, but cohort local can lend it at most 2",
            "lower it to 2, or raise what other members of the cohort lend",
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
            "a pod with flavor cpu of resourceGroups[0] and gpu of resourceGroups[1] would need nodes with both "
            "pool=a and pool=b",
            "put the resources of such pods into one group, with a quota of each on each flavor",
            "warning",
        )
    ],
    "selector-ignored": [
        Case(
            make_settings(
                make_run(node_selector={"gpu": "a100", "disk": "ssd"}), queues=make_queues(flavors=(CPU, A100))
            ),
            "workloads.runs[train].nodeSelector",
            "the run selects nodes by gpu, which no flavor of queue research has (flavor a100 has it): Kueue ignores "
            "it, and may admit the pods on a flavor whose nodes they do not select",
            "name a queue with flavor a100, or remove gpu from the selector",
            "warning",
        ),
        Case(
            make_settings(
                make_distributed(roles={"Master": Role(), "Worker": Role(node_selector={"gpu": "a100"})}),
                queues=make_queues(flavors=(CPU, A100)),
            ),
            "workloads.runs[train].roles.Worker.nodeSelector",
            "the run selects nodes by gpu, which no flavor of queue research has (flavor a100 has it): Kueue ignores "
            "it, and may admit the pods on a flavor whose nodes they do not select",
            "name a queue with flavor a100, or remove gpu from the selector",
            "warning",
        ),
        Case(
            make_settings(make_run(affinity=requiring("gpu", "disk")), queues=make_queues(flavors=(CPU, A100))),
            "workloads.runs[train].affinity",
            "the run selects nodes by gpu, which no flavor of queue research has (flavor a100 has it): Kueue ignores "
            "it, and may admit the pods on a flavor whose nodes they do not select",
            "name a queue with flavor a100, or remove gpu from the selector",
            "warning",
        ),
    ],
    "quota-overflow": [
        Case(
            unlimited("9E", "9E"),
            f"{POOL}.resourceGroups[0].flavors[a100].resources[memory].nominalQuota",
            "the quotas of memory on flavor a100 in cohort local overflow: they add up to 18000000000000000000, more "
            "than the 64 bits in which Kueue calculates",
            "write a large amount that can be added up, such as `1P` of memory or `1M` of cpu",
        ),
        Case(
            pool(make_group(("cpu", SPARE), ("a100", {"cpu": "10P", "memory": "1Gi"}))),
            f"{POOL}.resourceGroups[0].flavors[a100].resources[cpu].nominalQuota",
            "10P of cpu exceeds 64 bits in Kueue's unit",
            "write a large amount that can be added up, such as `1P` of memory or `1M` of cpu",
        ),
        Case(
            make_settings(make_run(completions=4, parallelism=4, resources=Resources(requests={"memory": "2Ei"}))),
            "workloads.runs[train].resources",
            "its pods request 8388608Ti memory together, which overflows: Kueue calculates with 64 bits",
            "request less in each pod, or run fewer pods",
        ),
    ],
}
