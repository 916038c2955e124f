"""Whether a run can ever be admitted by its queue: quota only, on an idle cluster."""

from collections.abc import Iterator
from fractions import Fraction

from checks.finding import Finding
from checks.quota import Need, potential
from checks.scene import PodSet, Rule, Scene, pod_sets
from settings.errors import nearest
from settings.quantities import amount, readable
from settings.queues import ClusterQueue, Queues, ResourceGroup
from settings.workloads import Resources, Workload


def resource_uncovered(scene: Scene) -> Iterator[Finding]:
    """The queue covers everything the pods request; Kueue never admits a pod that requests anything else."""
    for path, run, queue in _queued(scene):
        covered = {name for group in queue.resource_groups for name in group.covered_resources}
        for pods in pod_sets(path, run):
            for name in sorted(_requests(pods.resources).keys() - covered):
                message = f"{name} is requested by {pods.name}, and cluster queue {queue.name} does not cover it"
                remedy = f"add {name} to its resource groups, or take it out of the resources; {nearest(name, covered)}"
                yield Finding("resource-uncovered", "error", pods.resources_path, message, remedy)


def never_fits(scene: Scene) -> Iterator[Finding]:
    """The gang fits into what the queue has and may borrow."""
    for path, run, queue in _queued(scene):
        sets = list(pod_sets(path, run))
        alone = [finding for pods in sets for finding in _pod_set_misfits(scene.settings.queues, queue, pods)]
        yield from alone or _gang_misfits(scene.settings.queues, queue, path, sets)


def _pod_set_misfits(queues: Queues, queue: ClusterQueue, pods: PodSet) -> Iterator[Finding]:
    """Kueue gives a pod set one flavor of each group."""
    needs = _needs(pods)
    for group in queue.resource_groups:
        wanted = {name: need for name, need in needs.items() if name in group.covered_resources}
        short = {flavor.name: _short(queues, queue, flavor.name, wanted) for flavor in group.flavors}
        if not wanted or not all(short.values()):
            continue
        lacks = [(each[1] / wanted[each[0]], flavor, *each) for flavor, each in short.items() if each]
        _, flavor, name, most = max(lacks)
        verb = "needs" if pods.count == 1 else "need"
        message = (
            f"{_count(pods)} {verb} {readable(wanted[name])} {name};"
            f" no flavor of cluster queue {queue.name} has that much"
            f" ({flavor} comes nearest with {readable(most)}, {readable(wanted[name] - most)} missing)"
        )
        yield Finding("never-fits", "error", pods.path, message, _REMEDY)


def _gang_misfits(queues: Queues, queue: ClusterQueue, path: str, sets: list[PodSet]) -> Iterator[Finding]:
    """Whatever flavors the pod sets get, together they take no more than all of them have."""
    for group in queue.resource_groups:
        for name in group.covered_resources:
            need = sum((_needs(pods).get(name, Fraction(0)) for pods in sets), Fraction(0))
            most = _all_flavors(queues, queue, group, name)
            if need > most:
                message = (
                    f"{' and '.join(map(_count, sets))} together need {readable(need)} {name}; cluster queue"
                    f" {queue.name} has {readable(most)} at most ({readable(need - most)} missing)"
                )
                yield Finding("never-fits", "error", path, message, _REMEDY)


_REMEDY = "ask for less, or raise the queue's nominalQuota or borrowingLimit"


def _queued(scene: Scene) -> Iterator[tuple[str, Workload, ClusterQueue]]:
    """The runs whose cluster queue this stack knows."""
    queues = scene.settings.queues
    local = {(one.namespace, one.name): one.cluster_queue for one in queues.local_queues}
    cluster = {one.name: one for one in queues.cluster_queues}
    for path, run in scene.runs():
        queue = cluster.get(local.get((run.namespace, run.queue or ""), ""))
        if queue is not None:
            yield path, run, queue


def _requests(resources: Resources) -> Need:
    """What a container requests: a limit counts where no request stands beside it; nothing of something is nothing."""
    named = {**resources.limits, **resources.requests}
    return {name: amount(text) for name, text in named.items() if amount(text)}


def _needs(pods: PodSet) -> Need:
    return {name: pods.count * each for name, each in _requests(pods.resources).items()}


def _short(queues: Queues, queue: ClusterQueue, flavor: str, wanted: Need) -> tuple[str, Fraction] | None:
    """The first resource that the flavor has too little of, and how much it has."""
    have = {name: potential(queues, queue, flavor, name) for name in wanted}
    return next(((name, have[name]) for name in wanted if wanted[name] > have[name]), None)


def _all_flavors(queues: Queues, queue: ClusterQueue, group: ResourceGroup, name: str) -> Fraction:
    return sum((potential(queues, queue, flavor.name, name) for flavor in group.flavors), Fraction(0))


def _count(pods: PodSet) -> str:
    return f"{pods.count} {pods.name} pod{'' if pods.count == 1 else 's'}"


RULES: tuple[Rule, ...] = (resource_uncovered, never_fits)
