"""Why a workload is not admitted: everything that is missing, not only where the search ended."""

from collections.abc import Iterator

from trainstack.kueue.cohort_paths import local_queue_path, queue_path, quota_path
from trainstack.kueue.flavor_assigner import scaled
from trainstack.kueue.model import ClusterQueue, Flavor, FlavorResource, Model, PodSet, Taint, Workload
from trainstack.kueue.node_affinity import selected, suits, untolerated
from trainstack.kueue.quantities import readable
from trainstack.kueue.resource_node import idle_checks, missing_flavors
from trainstack.kueue.snapshot import ClusterQueueSnapshot, GroupFlavors, SchedulerSnapshot
from trainstack.kueue.verdict import Reason


def pod_faults(workload: Workload) -> Iterator[Reason]:
    """What Kueue refuses of the pods themselves."""
    for pods in workload.pod_sets:
        for fault in pods.faults:
            yield Reason("pod-refused", fault, pods.resources_path, pods.name)


def closed(model: Model, workload: Workload, queue: ClusterQueue) -> Iterator[Reason]:
    """Whether the workload's namespace may use the queue."""
    labels = model.namespaces.get(workload.namespace, {"kubernetes.io/metadata.name": workload.namespace})
    if not selected(queue.namespaces, labels):
        message = f"cluster queue {queue.name} is not open to namespace {workload.namespace}"
        yield Reason("queue-closed", message, queue_path(model, queue.name, "namespaces"))


def inactive(model: Model, workload: Workload, queue: ClusterQueue, snapshot: SchedulerSnapshot) -> Iterator[Reason]:
    """Why the queue admits nothing at all."""
    name = queue.name
    for flavor in missing_flavors(model, queue):
        message = f"cluster queue {name} lists flavor {flavor}, which does not exist: it admits nothing"
        yield Reason("flavor-missing", message, queue_path(model, name), flavor=flavor)
    for check in idle_checks(model, queue):
        message = f"cluster queue {name} lists admission check {check}, which is not there or not active"
        yield Reason("check-inactive", message, queue_path(model, name))
    if queue.cohort is not None and snapshot.tree.cyclic(queue.cohort):
        message = f"cluster queue {name} is in cohort {queue.cohort}, whose parents are a circle: it admits nothing"
        yield Reason("cohort-cycle", message, queue_path(model, name, "cohort"))
    if queue.inactive:
        message = f"cluster queue {name} admits nothing: {queue.inactive}"
        yield Reason("queue-inactive", message, queue_path(model, name))
    local = (model.local_queues or {})[workload.namespace, workload.queue]
    if queue.stop_policy != "None":
        message = f"cluster queue {name} is on hold (its stopPolicy)"
        yield Reason("queue-stopped", message, queue_path(model, name, "stopPolicy"))
    if local.stop_policy != "None":
        message = f"queue {local.name} is on hold (its stopPolicy)"
        yield Reason("queue-stopped", message, local_queue_path(model, local.namespace, local.name, "stopPolicy"))


def reasons(model: Model, cq: ClusterQueueSnapshot, workload: Workload, *, now: bool) -> list[Reason]:
    """What of quota and flavors is missing.

    A pod set that no flavor serves is taken to stand on the one that comes nearest, so that those after it are judged
    beside it too.

    Args:
        model: for paths.
        pool: the workload's queue.
        workload: what asks.
        now: beside what is used now; else if nobody used anything.

    """
    found: list[Reason] = []
    usage: dict[FlavorResource, int] = {}
    for pods in workload.pod_sets:
        requests = scaled(pods, pods.count)
        if "pods" in cq.group_of:
            requests["pods"] = pods.count
        for resource in sorted(requests.keys() - cq.group_of.keys()):
            message = f"{resource} is requested by {_named(pods)}, and cluster queue {cq.spec.name} does not cover it"
            found.append(Reason("uncovered", message, pods.resources_path, pods.name, resource=resource))
        groups = {id(group): group for name, group in cq.group_of.items() if name in requests}
        for group in groups.values():
            wanted = {name: number for name, number in requests.items() if name in group.covered}
            found += _Group(model, cq, pods, group, wanted, usage).reasons(now=now)
    return found


class _Group:
    """What one pod set wants of one group."""

    def __init__(
        self,
        model: Model,
        cq: ClusterQueueSnapshot,
        pods: PodSet,
        group: GroupFlavors,
        wanted: dict[str, int],
        usage: dict[FlavorResource, int],
    ) -> None:
        self._model, self._cq, self._pods, self._group = model, cq, pods, group
        self._wanted, self._usage = wanted, usage

    def reasons(self, *, now: bool) -> list[Reason]:
        """Of the flavor that comes nearest; or of all of them, where the pods may stand on none."""
        apart: list[Reason] = []
        nearest: tuple[float, str, list[Reason]] | None = None
        for name, flavor in zip(self._group.names, self._group.flavors, strict=True):
            if flavor is None:
                continue
            if reason := self._topology(flavor) or self._apart(flavor):
                apart.append(reason)
                continue
            short = [reason for each in self._wanted if (reason := self._short(name, each, now=now))]
            distance = sum(reason.missing / max(1, self._wanted[reason.resource]) for reason in short)
            if nearest is None or distance < nearest[0]:
                nearest = (distance, name, short)
        if nearest is None:
            return apart
        _, name, short = nearest
        for resource, number in self._wanted.items():
            self._usage[name, resource] = self._usage.get((name, resource), 0) + number
        return short

    def _apart(self, flavor: Flavor) -> Reason | None:
        pods = self._pods
        taint = untolerated(flavor.taints, (*pods.tolerations, *flavor.tolerations))
        if taint is not None:
            message = f"flavor {flavor.name} has the taint {_said(taint)}, which {_named(pods)} does not tolerate"
            return Reason("taint", message, pods.path, pods.name, flavor.name)
        if not suits(pods.selector, pods.affinity, flavor.labels, self._group.keys):
            message = f"flavor {flavor.name} is of other nodes than {_named(pods)} selects"
            return Reason("affinity", message, pods.path, pods.name, flavor.name)
        return None

    def _topology(self, flavor: Flavor) -> Reason | None:
        """Pods that ask for a topology go with flavors that have one. Source: checkPodSetAndFlavorMatchForTAS."""
        pods = self._pods
        if (flavor.topology is None) != pods.topology or self._cq.only_topologies:
            return None
        message = (
            f"{_named(pods)} asks for a topology, and flavor {flavor.name} has none"
            if pods.topology
            else f"flavor {flavor.name} is for pods that ask for a topology, and {_named(pods)} does not"
        )
        return Reason("topology", message, pods.path, pods.name, flavor.name)

    def _short(self, flavor: str, resource: str, *, now: bool) -> Reason | None:
        fr, number = (flavor, resource), self._wanted[resource]
        before = self._usage.get(fr, 0)
        have = self._cq.available(fr) if now else self._cq.node.potential_available(fr)
        missing = before + number - have
        if missing <= 0:
            return None
        pods, queue = self._pods, self._cq.spec.name

        def said(amount: int) -> str:
            return readable(resource, amount)

        beside = f", beside the {said(before)} of the pods before them" if before else ""
        rest = (
            f"cluster queue {queue} has {said(max(0, have))} left of flavor {flavor} ({said(missing)} must become free)"
            if now
            else f"cluster queue {queue} has {said(have)} of flavor {flavor} at most ({said(missing)} missing)"
        )
        message = f"{_counted(pods)} {said(number)} {resource}{beside}; {rest}"
        return Reason(
            cause="in-use" if now else "quota",
            message=message,
            path=pods.path,
            pod_set=pods.name,
            flavor=flavor,
            resource=resource,
            missing=missing,
            quota_path=quota_path(self._model, queue, flavor, resource),
        )


def _named(pods: PodSet) -> str:
    return "the pod" if pods.name == "main" and pods.count == 1 else f"the {pods.name} pod"


def _counted(pods: PodSet) -> str:
    name = "" if pods.name == "main" else f"{pods.name} "
    return f"{pods.count} {name}{'pod needs' if pods.count == 1 else 'pods need'}"


def _said(taint: Taint) -> str:
    return f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"
