"""The rule about MultiKueue's worker clusters, which are read with the user's own kubeconfig."""

from collections.abc import Iterator, Sequence

from trainstack.preflight.live_context import LiveContext
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.worker_needs import Need, WorkerCluster

_REMEDY = "look for these objects there"


@Rule(
    id="worker-incomplete",
    may_be=("unknown",),
    summary="A worker cluster of MultiKueue lacks what a dispatched run needs.",
    details=(
        "MultiKueue creates only the launch: not the namespace, local queue, claims, Secrets, service account, or the "
        "ConfigMap of the wrapper. `unknown` without a context for that cluster; the message then lists the needs."
    ),
    example="Cluster `west` has no LocalQueue `research` in namespace `research`.",
    remedy="Declare it in that cluster's environment, with the namespace in `workloads.receives`, and deploy it there.",
)
def worker_incomplete(context: LiveContext) -> Iterator[Violation]:
    needs_by_run, workers = context.live.worker_needs, context.live.workers
    for cluster, worker in workers.items():
        if worker.problem:
            needs = sorted(
                {need for needs_by_cluster in needs_by_run.values() for need in needs_by_cluster.get(cluster, ())},
                key=str,
            )
            message = f"{worker.problem}. It was not checked for what the runs need: {', '.join(map(str, needs))}"
            yield Violation(f"queues.multiKueueClusters[{cluster}]", message, worker.remedy or _REMEDY, "unknown")
    reported: set[tuple[str, Need]] = set()
    for path, needs_by_cluster in needs_by_run.items():
        for cluster, run_needs in needs_by_cluster.items():
            yield from _find_missing_needs(f"{path}.queue", cluster, run_needs, workers[cluster], reported)


def _find_missing_needs(
    path: str, cluster: str, needs: Sequence[Need], worker: WorkerCluster, reported: set[tuple[str, Need]]
) -> Iterator[Violation]:
    new_needs = [need for need in needs if (cluster, need) not in reported]
    reported |= {(cluster, need) for need in new_needs}
    missing_needs = [need for need in new_needs if need in worker.missing]
    if missing_needs:
        # A missing namespace implies that all namespaced objects are missing; it is the first need.
        named_needs = missing_needs[:1] if missing_needs[0].kind == "Namespace" else missing_needs
        yield Violation(path, f"worker cluster {cluster} does not have {', '.join(map(str, named_needs))}")
    elif unreadable_needs := [need for need in new_needs if need in worker.unreadable]:
        message = f"whether worker cluster {cluster} has {', '.join(map(str, unreadable_needs))} is unknown"
        remedy = "ask its owner: these credentials may not read them"
        yield Violation(path, message, remedy, "unknown")
