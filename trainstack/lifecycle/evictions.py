"""Runs that Kueue would evict because of an edit of their queue or of a MultiKueueConfig. Pure.

Of the fields of queues that an environment declares, only `stopPolicy: HoldAndDrain` of a ClusterQueue or a LocalQueue
evicts admitted Workloads: `reconcileOnClusterQueueActiveState` and `reconcileOnLocalQueueActiveState` in
pkg/controller/core/workload_controller.go of Kueue v0.15.2. An additional admission check, a lower quota or a
removed flavor does not. Of MultiKueue's objects, the list of worker clusters in a MultiKueueConfig does: Kueue treats
the worker of a dispatched run as lost, evicts the run once `workerLostTimeout` has passed since its dispatch, and
dispatches it to another worker, while the first one still executes it (`reconcileGroup` in multikueue/workload.go).
"""

from collections.abc import Collection, Iterator, Sequence

from trainstack.lifecycle.teardown.live_stack import Body, LiveStack, is_finished
from trainstack.lifecycle.teardown.users import admitting_queue, owner_identity
from trainstack.objects.ownership import Identity, format_identity, identity
from trainstack.settings.model import Settings

HOLD_AND_DRAIN = "HoldAndDrain"
"""The `stopPolicy` with which Kueue evicts admitted Workloads."""


def draining_queues(settings: Settings) -> frozenset[Identity]:
    """Return the declared queues whose `stopPolicy` evicts the Workloads that they have admitted."""
    queues = settings.queues
    draining: set[Identity] = {
        ("ClusterQueue", None, queue.name) for queue in queues.cluster_queues if queue.stop_policy == HOLD_AND_DRAIN
    }
    draining |= {
        ("LocalQueue", queue.namespace, queue.name)
        for queue in queues.local_queues
        if queue.stop_policy == HOLD_AND_DRAIN
    }
    return frozenset(draining)


def find_evicted_runs(
    live: LiveStack, queues_to_drain: Collection[Identity]
) -> Iterator[tuple[Identity, Identity, str]]:
    """Yield each admitted object, the queue that will evict it, and its name in `workloads.stop`.

    A change evicts nothing from a queue that drains already.
    """
    stopped_queues = {
        identity(queue) for queue in _queues(live) if (queue.get("spec") or {}).get("stopPolicy") == HOLD_AND_DRAIN
    }
    for workload in live.objects_of_kind("Workload"):
        namespace, owner = str(workload["metadata"]["namespace"]), owner_identity(workload)
        local_queue: Identity = ("LocalQueue", namespace, str((workload.get("spec") or {}).get("queueName")))
        for queue in (("ClusterQueue", None, str(admitting_queue(workload))), local_queue):
            is_admitted = admitting_queue(workload) is not None and not is_finished(workload)
            if is_admitted and queue in queues_to_drain and queue not in stopped_queues:
                yield owner, queue, _stop_name(live, owner)


def eviction_refusals(live: LiveStack, queues_to_drain: Collection[Identity], stop: Collection[str]) -> tuple[str, ...]:
    """Return a refusal for each evicted run that `stop` does not name."""
    return tuple(
        f"{format_identity(queue)} has stopPolicy {HOLD_AND_DRAIN}, which would evict {format_identity(run)} (running, "
        "admitted by it). Use `stopPolicy: Hold`, which lets admitted runs end, wait for the run, or name it in this "
        f"change: trainstack:workloads: stop: [{name}]"
        for run, queue, name in sorted(find_evicted_runs(live, queues_to_drain), key=str)
        if name not in stop
    )


def runs_on_removed_workers(live: LiveStack, settings: Settings) -> Iterator[tuple[Identity, Identity, str]]:
    """Yield each dispatched object whose MultiKueueCluster the change removes from a MultiKueueConfig.

    The elements are the object, the MultiKueueCluster, and the object's name in `workloads.stop`.
    """
    declared_workers = {config.name: {*config.clusters} for config in settings.queues.multi_kueue_configs}
    removed_workers: dict[str, set[str]] = {}
    for config in live.objects_of_kind("MultiKueueConfig"):
        if (name := str(config["metadata"]["name"])) in declared_workers:
            removed_workers[name] = {*(config.get("spec") or {}).get("clusters", ())} - declared_workers[name]
    removed_workers_by_check: dict[str, set[str]] = {}
    for check in live.objects_of_kind("AdmissionCheck"):
        parameters = (check.get("spec") or {}).get("parameters") or {}
        if parameters.get("kind") == "MultiKueueConfig":
            removed_workers_by_check[str(check["metadata"]["name"])] = removed_workers.get(
                str(parameters.get("name")), set()
            )
    for workload in live.objects_of_kind("Workload"):
        status, owner = workload.get("status") or {}, owner_identity(workload)
        clusters = {
            name
            for check in status.get("admissionChecks") or ()
            for name in removed_workers_by_check.get(check["name"], ())
        }
        if (cluster := status.get("clusterName")) in clusters and not is_finished(workload):
            yield owner, ("MultiKueueCluster", None, str(cluster)), _stop_name(live, owner)


def worker_refusals(live: LiveStack, settings: Settings) -> tuple[str, ...]:
    """Return a refusal for each run on a removed worker that `stop` does not name."""
    return tuple(
        f"{format_identity(cluster)} is removed from its MultiKueueConfig, and {format_identity(run)} is dispatched to "
        "it: Kueue would evict it and dispatch it a second time. Undo the edit, wait for the run, or name it in this "
        f"change: trainstack:workloads: stop: [{name}]"
        for run, cluster, name in sorted(runs_on_removed_workers(live, settings), key=str)
        if name not in settings.workloads.stop
    )


def _stop_name(live: LiveStack, owner: Identity) -> str:
    """Return the name in `workloads.stop`: a sweep, a run id, or `namespace/name` of an object of another owner."""
    for launch in live.launches:
        if (launch.kind, launch.namespace, launch.name) == owner:
            return launch.sweep.name if launch.sweep else launch.run_id
    return f"{owner[1]}/{owner[2]}"


def _queues(live: LiveStack) -> Sequence[Body]:
    return (*live.objects_of_kind("ClusterQueue"), *live.objects_of_kind("LocalQueue"))
