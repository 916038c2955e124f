"""What Kueue books for a run and gives its pods, where it is not what the run's author would expect."""

from collections import Counter
from collections.abc import Iterator
from itertools import combinations

from trainstack.kueue.model import Model, PodSet, Workload
from trainstack.kueue.quantities import readable
from trainstack.kueue.verdict import Reason, Verdict
from trainstack.settings.values.quantities import MAX


def unbooked(model: Model, workload: Workload) -> Iterator[tuple[PodSet, str]]:
    """Yield the pods for which Kueue books nothing, each with the reason."""
    local = (model.local_queues or {}).get((workload.namespace, workload.queue))
    queue = (model.cluster_queues or {}).get(local.cluster_queue) if local else None
    if queue is not None and any("pods" in group.covered for group in queue.groups):
        return
    for pods in workload.pod_sets:
        if pods.count and not any(pods.requests.values()):
            uncounted = sorted(pods.own_resources - pods.requests.keys())
            if pods.requests:
                why = f"{_pods(pods)} only an amount of 0"
            elif uncounted:
                why = f"{_pods(pods)} only {', '.join(uncounted)}, which Kueue's Configuration does not count"
            else:
                why = f"{_pods(pods)} nothing"
            flavor = "" if pods.requests else " and gets no flavor, so Kueue does not select its nodes"
            yield pods, f"{why}: it uses no quota{flavor}"


def _pods(pods: PodSet) -> str:
    name = "" if pods.name == "main" else f"{pods.name} "
    return f"each {name}pod requests"


def overflowing_requests(workload: Workload) -> Iterator[Reason]:
    """Yield, for each resource, the pods with which the sum of requests exceeds the 64 bits of Kueue."""
    totals, reported = Counter[str](), set[str]()
    for pods in workload.pod_sets:
        totals.update(pods.requests)
        for resource in sorted(name for name in pods.requests if totals[name] > MAX and name not in reported):
            reported.add(resource)
            message = (
                f"its pods request {readable(resource, totals[resource])} {resource} together, which overflows: Kueue "
                "calculates with 64 bits"
            )
            yield Reason("overflow", message, pods.resources_path, pods.name, resource=resource)


def contradictory_flavors(model: Model, verdict: Verdict) -> Iterator[tuple[frozenset[str], str]]:
    """Yield the flavors that a pod set gets together and whose nodes have different values of a label, with a message.

    Source: FromAssignment in Kueue's pkg/podset/podset.go, where the labels of one flavor overwrite those of another in
    no particular order.
    """
    if any(reason.cause == "dispatched" for reason in verdict.reasons):
        return  # The worker cluster has flavors of its own.
    flavors = model.flavors or {}
    for pods in verdict.assigned:
        together = (flavors[name] for name in sorted({*pods.flavors.values()}) if name in flavors)
        for one, other in combinations(together, 2):
            for key in sorted(one.labels.keys() & other.labels.keys()):
                if one.labels[key] != other.labels[key]:
                    subject = "its pods get" if pods.pod_set == "main" else f"its {pods.pod_set} pods get"
                    values = f"{key}={one.labels[key]} and {key}={other.labels[key]}"
                    message = (
                        f"{subject} flavors {one.name} and {other.name} together, whose nodes have {values}: as Kueue "
                        "sets either label, they run on nodes of one flavor with quota of both, or wait forever"
                    )
                    yield frozenset({one.name, other.name}), message
