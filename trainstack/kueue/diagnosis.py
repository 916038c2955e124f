"""Why a workload is not admitted: everything that is missing, not only where the search ended."""

from collections.abc import Iterator

from trainstack.kueue.cohort_paths import local_queue_path, queue_path, quota_path
from trainstack.kueue.flavor_assigner import scaled
from trainstack.kueue.model import ClusterQueue, Flavor, FlavorResource, Model, PodSet, Taint, Workload
from trainstack.kueue.node_affinity import selected, suits, untolerated
from trainstack.kueue.quantities import readable
from trainstack.kueue.resource_node import idle_checks, missing_flavors
from trainstack.kueue.snapshot import Pool, State, TriedGroup
from trainstack.kueue.verdict import Lack


def pod_faults(workload: Workload) -> Iterator[Lack]:
    """What Kueue refuses of the pods themselves."""
    for pods in workload.pod_sets:
        for fault in pods.faults:
            yield Lack("pod-refused", fault, pods.resources_path, pods.name)


def closed(model: Model, workload: Workload, queue: ClusterQueue) -> Iterator[Lack]:
    """Whether the workload's namespace may use the queue."""
    labels = model.namespaces.get(workload.namespace, {"kubernetes.io/metadata.name": workload.namespace})
    if not selected(queue.namespaces, labels):
        message = f"cluster queue {queue.name} is not open to namespace {workload.namespace}"
        yield Lack("queue-closed", message, queue_path(model, queue.name, "namespaces"))


def inactive(model: Model, workload: Workload, queue: ClusterQueue, state: State) -> Iterator[Lack]:
    """Why the queue admits nothing at all."""
    name = queue.name
    for flavor in missing_flavors(model, queue):
        message = f"cluster queue {name} lists flavor {flavor}, which does not exist: it admits nothing"
        yield Lack("flavor-missing", message, queue_path(model, name), flavor=flavor)
    for check in idle_checks(model, queue):
        message = f"cluster queue {name} lists admission check {check}, which is not there or not active"
        yield Lack("check-inactive", message, queue_path(model, name))
    if queue.cohort is not None and state.tree.cyclic(queue.cohort):
        message = f"cluster queue {name} is in cohort {queue.cohort}, whose parents are a circle: it admits nothing"
        yield Lack("cohort-cycle", message, queue_path(model, name, "cohort"))
    if queue.inactive:
        message = f"cluster queue {name} admits nothing: {queue.inactive}"
        yield Lack("queue-inactive", message, queue_path(model, name))
    local = (model.local_queues or {})[workload.namespace, workload.queue]
    if queue.stop_policy != "None":
        message = f"cluster queue {name} is on hold (its stopPolicy)"
        yield Lack("queue-stopped", message, queue_path(model, name, "stopPolicy"))
    if local.stop_policy != "None":
        message = f"queue {local.name} is on hold (its stopPolicy)"
        yield Lack("queue-stopped", message, local_queue_path(model, local.namespace, local.name, "stopPolicy"))


def lacks(model: Model, pool: Pool, workload: Workload, *, now: bool) -> list[Lack]:
    """What of quota and flavors is missing.

    A pod set that no flavor serves is taken to stand on the one that comes nearest, so that those after it are judged
    beside it too.

    Args:
        model: for paths.
        pool: the workload's queue.
        workload: what asks.
        now: beside what is used now; else if nobody used anything.

    """
    found: list[Lack] = []
    usage: dict[FlavorResource, int] = {}
    for pods in workload.pod_sets:
        requests = scaled(pods, pods.count)
        if "pods" in pool.group_of:
            requests["pods"] = pods.count
        for resource in sorted(requests.keys() - pool.group_of.keys()):
            message = f"{resource} is requested by {_named(pods)}, and cluster queue {pool.said.name} does not cover it"
            found.append(Lack("uncovered", message, pods.resources_path, pods.name, resource=resource))
        groups = {id(group): group for name, group in pool.group_of.items() if name in requests}
        for group in groups.values():
            wanted = {name: number for name, number in requests.items() if name in group.covered}
            found += _Group(model, pool, pods, group, wanted, usage).lacks(now=now)
    return found


class _Group:
    """What one pod set wants of one group."""

    def __init__(
        self,
        model: Model,
        pool: Pool,
        pods: PodSet,
        group: TriedGroup,
        wanted: dict[str, int],
        usage: dict[FlavorResource, int],
    ) -> None:
        self._model, self._pool, self._pods, self._group = model, pool, pods, group
        self._wanted, self._usage = wanted, usage

    def lacks(self, *, now: bool) -> list[Lack]:
        """Of the flavor that comes nearest; or of all of them, where the pods may stand on none."""
        apart: list[Lack] = []
        nearest: tuple[float, str, list[Lack]] | None = None
        for name, flavor in zip(self._group.names, self._group.flavors, strict=True):
            if flavor is None:
                continue
            if reason := self._topology(flavor) or self._apart(flavor):
                apart.append(reason)
                continue
            short = [lack for each in self._wanted if (lack := self._short(name, each, now=now))]
            distance = sum(lack.missing / max(1, self._wanted[lack.resource]) for lack in short)
            if nearest is None or distance < nearest[0]:
                nearest = (distance, name, short)
        if nearest is None:
            return apart
        _, name, short = nearest
        for resource, number in self._wanted.items():
            self._usage[name, resource] = self._usage.get((name, resource), 0) + number
        return short

    def _apart(self, flavor: Flavor) -> Lack | None:
        pods = self._pods
        taint = untolerated(flavor.taints, (*pods.tolerations, *flavor.tolerations))
        if taint is not None:
            message = f"flavor {flavor.name} has the taint {_said(taint)}, which {_named(pods)} does not tolerate"
            return Lack("taint", message, pods.path, pods.name, flavor.name)
        if not suits(pods.selector, pods.affinity, flavor.labels, self._group.keys):
            message = f"flavor {flavor.name} is of other nodes than {_named(pods)} selects"
            return Lack("affinity", message, pods.path, pods.name, flavor.name)
        return None

    def _topology(self, flavor: Flavor) -> Lack | None:
        """Pods that ask for a topology go with flavors that have one. Source: checkPodSetAndFlavorMatchForTAS."""
        pods = self._pods
        if (flavor.topology is None) != pods.topology or self._pool.only_topologies:
            return None
        message = (
            f"{_named(pods)} asks for a topology, and flavor {flavor.name} has none"
            if pods.topology
            else f"flavor {flavor.name} is for pods that ask for a topology, and {_named(pods)} does not"
        )
        return Lack("topology", message, pods.path, pods.name, flavor.name)

    def _short(self, flavor: str, resource: str, *, now: bool) -> Lack | None:
        what, number = (flavor, resource), self._wanted[resource]
        before = self._usage.get(what, 0)
        have = self._pool.available(what) if now else self._pool.node.potential(what)
        missing = before + number - have
        if missing <= 0:
            return None
        pods, queue = self._pods, self._pool.said.name

        def said(amount: int) -> str:
            return readable(resource, amount)

        beside = f", beside the {said(before)} of the pods before them" if before else ""
        rest = (
            f"cluster queue {queue} has {said(max(0, have))} left of flavor {flavor} ({said(missing)} must become free)"
            if now
            else f"cluster queue {queue} has {said(have)} of flavor {flavor} at most ({said(missing)} missing)"
        )
        message = f"{_counted(pods)} {said(number)} {resource}{beside}; {rest}"
        return Lack(
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
