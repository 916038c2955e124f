"""Runs that Kueue would evict because of an edit of their queue. Pure.

Of the fields of queues that an environment declares, only `stopPolicy: HoldAndDrain` of a ClusterQueue or a LocalQueue
evicts admitted Workloads: `reconcileOnClusterQueueActiveState` and `reconcileOnLocalQueueActiveState` in
pkg/controller/core/workload_controller.go of Kueue v0.15.2. A further admission check, a lower quota or a removed
flavor does not.
"""

from collections.abc import Collection, Iterator, Sequence

from trainstack.lifecycle.teardown.context import Body, LiveStack, finished
from trainstack.lifecycle.teardown.users import admitted_by, root
from trainstack.objects.ownership import Identity, identity, shown
from trainstack.settings.model import Settings

DRAIN = "HoldAndDrain"


def draining_queues(settings: Settings) -> frozenset[Identity]:
    """Return the declared queues that evict what they have admitted."""
    queues = settings.queues
    found: set[Identity] = {("ClusterQueue", None, q.name) for q in queues.cluster_queues if q.stop_policy == DRAIN}
    found |= {("LocalQueue", q.namespace, q.name) for q in queues.local_queues if q.stop_policy == DRAIN}
    return frozenset(found)


def evicted_runs(live: LiveStack, draining: Collection[Identity]) -> Iterator[tuple[Identity, Identity, str]]:
    """Yield the admitted object, the queue that will evict it, and its name in `workloads.stop`.

    A queue that drains already evicts nothing more because of this change.
    """
    stopped = {identity(queue) for queue in _queues(live) if (queue.get("spec") or {}).get("stopPolicy") == DRAIN}
    named: dict[Identity, str] = {
        (launch.kind, launch.namespace, launch.name): launch.sweep.name if launch.sweep else launch.run_id
        for launch in live.launches
    }
    for workload in live.all("Workload"):
        namespace, who = str(workload["metadata"]["namespace"]), root(workload)
        local_queue: Identity = ("LocalQueue", namespace, str((workload.get("spec") or {}).get("queueName")))
        for queue in (("ClusterQueue", None, str(admitted_by(workload))), local_queue):
            is_admitted = admitted_by(workload) is not None and not finished(workload)
            if is_admitted and queue in draining and queue not in stopped:
                yield who, queue, named.get(who, f"{namespace}/{who[2]}")


def eviction_refusals(live: LiveStack, draining: Collection[Identity], stop: Collection[str]) -> tuple[str, ...]:
    """Return a refusal for each evicted run that `stop` does not name."""
    return tuple(
        f"{shown(queue)} has stopPolicy {DRAIN}, which would evict {shown(who)} (running, admitted by it). Use "
        "`stopPolicy: Hold`, which lets admitted runs end, wait for the run, or name it in this change: "
        f"trainstack:workloads: stop: [{name}]"
        for who, queue, name in sorted(evicted_runs(live, draining), key=str)
        if name not in stop
    )


def _queues(live: LiveStack) -> Sequence[Body]:
    return (*live.all("ClusterQueue"), *live.all("LocalQueue"))
