"""Quota as a whole: what nobody can use, what no cohort can keep; flavors against each other and against selectors."""

from collections.abc import Iterator, Mapping
from itertools import combinations

from checks.admission.amounts import readable
from checks.admission.tree import Tree
from checks.rule import Check, Rule, Violation
from checks.scene import Scene, each
from settings.queues import ClusterQueue, ResourceFlavor

_EVERY_POD_ASKS = ("cpu", "memory")


@Rule(
    id="queue-unused",
    severity="warning",
    summary=(
        "No local queue leads to a cluster queue, which lends nothing to a cohort either; nobody can use its quota."
    ),
    example="A cluster queue `old` without a cohort, after the last local queue moved to another.",
    remedy=(
        "Declare a local queue for it, or take it out. Where a team's stack has the local queue, silence it and say "
        "which."
    ),
)
def queue_unused(scene: Scene) -> Iterator[Violation]:
    """Somebody can submit to each cluster queue, or it lends to those who can."""
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
    summary="Of a resource that it covers, a cluster queue has nothing on any flavor, and its cohort lends it none.",
    example="`{name: nvidia.com/gpu, nominalQuota: 0}` on the only flavor of a queue without a cohort.",
    remedy="Raise a quota, join a cohort that has some, or take the resource out of the group.",
)
def queue_empty(scene: Scene) -> Iterator[Violation]:
    """Of each resource that a cluster queue covers, it has some, or may borrow some, on one flavor at least."""
    for path, queue, tree in _pools(scene):
        for index, group in enumerate(queue.resource_groups):
            for name in group.covered_resources:
                if not any(tree.potential(queue.name, flavor.name, name) for flavor in group.flavors):
                    message = f"has no {name} to give on any flavor, with all that its cohort lends"
                    remedy = f"raise a nominalQuota, join a cohort that has {name}, or take {name} out of the group"
                    where = f"{path}.resourceGroups[{index}]"
                    yield Violation(where, f"cluster queue {queue.name} {message}", remedy)


@Rule(
    id="coverage-partial",
    severity="warning",
    summary="A cluster queue covers no `cpu` or no `memory`.",
    details="Nearly every pod requests both, and Kueue admits none that requests what the queue does not cover.",
    example="`coveredResources: [nvidia.com/gpu]` in the only group.",
    remedy="Add them, with a quota on each flavor; a generous one where only GPUs are to be counted.",
)
def coverage_partial(scene: Scene) -> Iterator[Violation]:
    """A cluster queue covers what pods always ask for."""
    for path, queue in each("queues.clusterQueues", scene.settings.queues.cluster_queues):
        covered = {name for group in queue.resource_groups for name in group.covered_resources}
        for name in (one for one in _EVERY_POD_ASKS if one not in covered):
            message = f"cluster queue {queue.name} does not cover {name}: no pod that requests any is ever admitted"
            remedy = f"add {name} to coveredResources, with a quota on each flavor"
            yield Violation(f"{path}.resourceGroups", message, remedy)


@Rule(
    id="cohort-overpromised",
    severity="warning",
    summary=(
        "A `borrowingLimit` promises more than the cohort can ever lend, with all that its members and their "
        "`lendingLimit` give."
    ),
    example="`borrowingLimit: 8` where the only other queue of the cohort has `nominalQuota: 8, lendingLimit: 4`.",
    remedy="Lower the limit, or let others lend more.",
)
def cohort_overpromised(scene: Scene) -> Iterator[Violation]:
    """A cohort can lend what a borrowingLimit promises."""
    for path, queue, tree in _pools(scene):
        model = tree.queues[queue.name].quotas
        for index, group in enumerate(queue.resource_groups):
            for where, flavor in each(f"{path}.resourceGroups[{index}].flavors", group.flavors):
                for place, quota in each(f"{where}.resources", flavor.resources):
                    said = model[flavor.name, quota.name]
                    most = tree.potential(queue.name, flavor.name, quota.name) - said.nominal
                    if said.borrowing_limit is not None and most < said.borrowing_limit and queue.cohort is not None:
                        message = (
                            f"cluster queue {queue.name} may borrow {readable(quota.name, said.borrowing_limit)}"
                            f" {quota.name}, and cohort {queue.cohort} lends it {readable(quota.name, most)} at most"
                        )
                        remedy = f"lower it to {readable(quota.name, most)}, or let others of the cohort lend more"
                        yield Violation(f"{place}.borrowingLimit", message, remedy)


@Rule(
    id="flavor-conflict",
    severity="warning",
    summary="Two groups of a cluster queue have flavors whose `nodeLabels` differ in a value.",
    details=(
        "A pod that asks for resources of both is given a flavor of each; Kueue writes both labels over each other, "
        "and quota is counted on nodes that the pod does not stand on."
    ),
    example=(
        "`cpu` on a flavor with `pool: general`, and `nvidia.com/gpu`, in a group of its own, on one with `pool: gpu`."
    ),
    remedy="One group for the resources of such pods, with a quota of each on each flavor.",
)
def flavor_conflict(scene: Scene) -> Iterator[Violation]:
    """Flavors that one pod may be given together, one of each group, name nodes that can be the same.

    Source: FromAssignment in Kueue's pkg/podset/podset.go, where the labels of one overwrite those of the other.
    """
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
    summary="A run selects nodes by a label that no flavor of its queue has, while another flavor has it.",
    details=(
        "Kueue leaves such labels to the scheduler: the run is admitted on any flavor with quota, and its pods stay "
        "Pending where the flavor's nodes lack the label."
    ),
    example="`nodeSelector: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}` on a queue whose only flavor is `cpu`.",
    remedy="Name a queue that has the flavor, or take the label out of the selector.",
)
def selector_ignored(scene: Scene) -> Iterator[Violation]:
    """What a run selects nodes by is known to a flavor of its queue, where flavors know it at all.

    Kueue passes over a label that no flavor of the group has, and admits the run on whichever has quota.
    """
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


def _pools(scene: Scene) -> Iterator[tuple[str, ClusterQueue, Tree]]:
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
