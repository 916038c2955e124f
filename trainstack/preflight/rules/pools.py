"""Quota as a whole: what nobody can use, what no cohort can keep; flavors against each other and against selectors."""

from collections.abc import Iterator, Mapping
from itertools import combinations

from trainstack.kueue.quantities import readable
from trainstack.kueue.resource_node import CohortTree
from trainstack.preflight.rule import Check, Rule, Violation
from trainstack.preflight.rule_context import Scene, each, quotas
from trainstack.settings.sections.queues import ClusterQueue, ResourceFlavor

_EVERY_POD_ASKS = ("cpu", "memory")


@Rule(
    id="queue-unused",
    severity="warning",
    summary="No local queue points at a cluster queue, and it lends nothing to a cohort.",
    details="Nobody can use its quota.",
    change="""
        trainstack:queues:
          clusterQueues:
            - name: old
              resourceGroups:
                - coveredResources: [cpu, memory]
                  flavors:
                    - name: cpu
                      resources: [{name: cpu, nominalQuota: 1}, {name: memory, nominalQuota: 1Gi}]
    """,
    remedy=(
        "Declare a local queue for it, or remove it. If a team's stack declares the local queue, silence the "
        "finding and name that stack in the reason."
    ),
)
def queue_unused(scene: Scene) -> Iterator[Violation]:
    queues = scene.settings.queues
    used = {one.cluster_queue for one in queues.local_queues}
    for path, queue in each("queues.clusterQueues", queues.cluster_queues):
        if queue.name not in used and not _lends(queue):
            message = f"no local queue leads to cluster queue {queue.name}, and it lends to nobody"
            remedy = "declare a local queue for it under queues.localQueues, or take it out"
            yield Violation(path, message, remedy)


@Rule(
    id="queue-empty",
    severity="warning",
    summary="A cluster queue covers a resource of which it has no quota on any flavor, and its cohort lends it none.",
    change="""
        trainstack:queues:
          clusterQueues:
            - name: research
              resourceGroups:
                - coveredResources: [cpu, memory, nvidia.com/gpu]
                  flavors:
                    - name: cpu
                      resources:
                        - {name: cpu, nominalQuota: 2}
                        - {name: memory, nominalQuota: 8Gi}
                        - {name: nvidia.com/gpu, nominalQuota: 0}
    """,
    remedy="Raise a quota, join a cohort that has some, or remove the resource from the group.",
)
def queue_empty(scene: Scene) -> Iterator[Violation]:
    for path, queue, tree in _pools(scene):
        for index, group in enumerate(queue.resource_groups):
            for name in group.covered_resources:
                if not any(tree.potential_available(queue.name, flavor.name, name) for flavor in group.flavors):
                    message = f"has no {name} to give on any flavor, with all that its cohort lends"
                    remedy = f"raise a nominalQuota, join a cohort that has {name}, or take {name} out of the group"
                    where = f"{path}.resourceGroups[{index}]"
                    yield Violation(where, f"cluster queue {queue.name} {message}", remedy)


@Rule(
    id="coverage-partial",
    severity="warning",
    summary="A cluster queue does not cover `cpu`, or does not cover `memory`.",
    details=(
        "Nearly every pod requests both, and Kueue does not admit a pod that requests a resource which the queue "
        "does not cover."
    ),
    change="""
        trainstack:queues:
          clusterQueues:
            - name: gpus
              cohort: local
              resourceGroups:
                - coveredResources: [nvidia.com/gpu]
                  flavors:
                    - {name: cpu, resources: [{name: nvidia.com/gpu, nominalQuota: 2}]}
    """,
    remedy="Add both with a quota on each flavor. If only GPUs are to be limited, make these quotas generous.",
)
def coverage_partial(scene: Scene) -> Iterator[Violation]:
    for path, queue in each("queues.clusterQueues", scene.settings.queues.cluster_queues):
        covered = {name for group in queue.resource_groups for name in group.covered_resources}
        for name in (one for one in _EVERY_POD_ASKS if one not in covered):
            message = f"cluster queue {queue.name} does not cover {name}: no pod that requests any is ever admitted"
            remedy = f"add {name} to coveredResources, with a quota on each flavor"
            yield Violation(f"{path}.resourceGroups", message, remedy)


@Rule(
    id="cohort-overpromised",
    severity="warning",
    summary="A `borrowingLimit` is higher than what the cohort can ever lend.",
    details="The rule adds up the quotas and `lendingLimit`s of all other members.",
    change="""
        trainstack:queues:
          clusterQueues:
            - name: research
              resourceGroups:
                - coveredResources: [cpu, memory]
                  flavors:
                    - name: cpu
                      resources: [{name: cpu, nominalQuota: 2, borrowingLimit: 8}, {name: memory, nominalQuota: 8Gi}]
    """,
    remedy="Lower the limit, or raise what other members lend.",
)
def cohort_overpromised(scene: Scene) -> Iterator[Violation]:
    for path, queue, tree in _pools(scene):
        model = tree.queues[queue.name].quotas
        for where, flavor, quota in quotas(path, queue):
            limit = model[flavor.name, quota.name].borrowing_limit
            most = (
                tree.potential_available(queue.name, flavor.name, quota.name) - model[flavor.name, quota.name].nominal
            )
            if limit is not None and most < limit and queue.cohort is not None:
                message = (
                    f"cluster queue {queue.name} may borrow {readable(quota.name, limit)} {quota.name}, and cohort"
                    f" {queue.cohort} lends it {readable(quota.name, most)} at most"
                )
                remedy = f"lower it to {readable(quota.name, most)}, or let others of the cohort lend more"
                yield Violation(f"{where}.borrowingLimit", message, remedy)


@Rule(
    id="flavor-conflict",
    severity="warning",
    summary="Two resource groups of a cluster queue have flavors whose `nodeLabels` differ in the value of a label.",
    details=(
        "A pod that requests resources of both groups gets a flavor of each. Kueue writes both labels, one over the "
        "other, and counts quota on nodes where the pod does not run."
    ),
    change="""
        trainstack:queues:
          flavors:
            - {name: cpu, nodeLabels: {pool: general}}
            - {name: gpu, nodeLabels: {pool: gpu}}
          clusterQueues:
            - name: research
              resourceGroups:
                - coveredResources: [cpu, memory]
                  flavors:
                    - name: cpu
                      resources: [{name: cpu, nominalQuota: 2}, {name: memory, nominalQuota: 8Gi}]
                - coveredResources: [nvidia.com/gpu]
                  flavors:
                    - {name: gpu, resources: [{name: nvidia.com/gpu, nominalQuota: 2}]}
    """,
    remedy="Put the resources of such pods into one group, with a quota of each on each flavor.",
)
def flavor_conflict(scene: Scene) -> Iterator[Violation]:
    # Source: FromAssignment in Kueue's pkg/podset/podset.go, where the labels of one overwrite those of the other.
    flavors = {one.name: one for one in scene.settings.queues.flavors}
    for path, queue in each("queues.clusterQueues", scene.settings.queues.cluster_queues):
        named = [[one.name for one in group.flavors] for group in queue.resource_groups]
        groups = [[flavors[name] for name in names if name in flavors] for names in named]
        for (first, ones), (second, others) in combinations(enumerate(groups), 2):
            for one, other in ((one, other) for one in ones for other in others):
                for key in _differing(one, other):
                    message = (
                        f"a pod that is given flavor {one.name} of resourceGroups[{first}] and {other.name} of"
                        f" resourceGroups[{second}] would have to stand on nodes with {key}={one.node_labels[key]} and"
                        f" {key}={other.node_labels[key]}"
                    )
                    remedy = "put the resources of such pods into one group, or give the flavors labels that agree"
                    where = f"{path}.resourceGroups[{second}]"
                    yield Violation(where, message, remedy)


@Rule(
    id="selector-ignored",
    severity="warning",
    summary="A run selects nodes by a label that no flavor of its queue has, although another flavor has it.",
    details=(
        "Kueue leaves such labels to the scheduler: it admits the run on any flavor with quota, and the pods stay "
        "Pending if that flavor's nodes do not have the label."
    ),
    change="""
        trainstack:queues:
          flavors:
            - {name: a100, nodeLabels: {nvidia.com/gpu.product: A100}}
        trainstack:workloads:
          runs:
            - {name: digits, nodeSelector: {nvidia.com/gpu.product: A100}}
    """,
    remedy="Name a queue that has the flavor, or remove the label from the selector.",
)
def selector_ignored(scene: Scene) -> Iterator[Violation]:
    queues = scene.settings.queues
    flavors = {one.name: one for one in queues.flavors}
    keys = _keys(scene)
    for path, run in scene.runs():
        known = keys.get((run.namespace, run.queue or ""))
        for key in (one for one in run.node_selector if known is not None and one not in known):
            having = [one.name for one in flavors.values() if key in one.node_labels]
            if having:
                message = (
                    f"selects nodes by {key}, which no flavor of queue {run.queue} has (flavor {having[0]} has it):"
                    " Kueue does not look at it, and its pods may be admitted on nodes that they do not select"
                )
                remedy = f"name a queue with flavor {having[0]}, or take {key} out of the selector"
                yield Violation(f"{path}.nodeSelector", message, remedy)


def _pools(scene: Scene) -> Iterator[tuple[str, ClusterQueue, CohortTree]]:
    """The cluster queues with the tree that they stand in; none in a circle of cohorts, which is another's finding."""
    declared = scene.settings.queues.cluster_queues
    tree = scene.tree
    for path, queue in each("queues.clusterQueues", declared):
        if queue.name in tree.queues and not (queue.cohort and tree.cyclic(queue.cohort)):
            yield path, queue, tree


def _lends(queue: ClusterQueue) -> bool:
    """Whether it has something that its cohort may borrow."""
    quotas = (quota for group in queue.resource_groups for flavor in group.flavors for quota in flavor.resources)
    return queue.cohort is not None and any(
        quota.nominal_quota != "0" and (quota.lending_limit is None or quota.lending_limit != "0") for quota in quotas
    )


def _differing(one: ResourceFlavor, other: ResourceFlavor) -> list[str]:
    """Labels that both have with different values."""
    return [key for key, value in one.node_labels.items() if other.node_labels.get(key, value) != value]


def _keys(scene: Scene) -> Mapping[tuple[str, str], set[str]]:
    """By namespace and name of a local queue, the labels of the flavors that it leads to."""
    queues = scene.settings.queues
    labels = {one.name: set(one.node_labels) for one in queues.flavors}
    of_pool = {
        one.name: {
            key for group in one.resource_groups for flavor in group.flavors for key in labels.get(flavor.name, ())
        }
        for one in queues.cluster_queues
    }
    return {
        (one.namespace, one.name): of_pool[one.cluster_queue]
        for one in queues.local_queues
        if one.cluster_queue in of_pool
    }


RULES: tuple[Check[Scene], ...] = (
    queue_unused,
    queue_empty,
    coverage_partial,
    cohort_overpromised,
    flavor_conflict,
    selector_ignored,
)
