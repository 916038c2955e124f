"""Quota that Kueue books for a run and settings of its pods that the run's author would not expect."""

from collections import Counter
from collections.abc import Iterator
from itertools import combinations

from trainstack.kueue.limit_ranger import requests_at_creation
from trainstack.kueue.model import Model, PodSet, Workload
from trainstack.kueue.pod_requests import Body, requests_and_faults
from trainstack.kueue.quantities import format_readable, from_billionths
from trainstack.kueue.verdict import Reason, Verdict
from trainstack.settings.values.quantities import MAX_AMOUNT


def pods_without_booking(model: Model, workload: Workload) -> Iterator[tuple[PodSet, str]]:
    """Yield the pods for which Kueue books nothing, each with the reason; none if their runtime was not read."""
    if workload.unread_runtime:
        return
    local_queue = (model.local_queues or {}).get((workload.namespace, workload.queue))
    queue = (model.cluster_queues or {}).get(local_queue.cluster_queue) if local_queue else None
    if queue is not None and any("pods" in group.covered_resources for group in queue.groups):
        return
    for pods in workload.pod_sets:
        if pods.count and not any(pods.requests.values()):
            uncounted = sorted(pods.own_resources - pods.requests.keys())
            if pods.requests:
                why = f"{_requests_phrase(pods)} only an amount of 0"
            elif uncounted:
                why = (
                    f"{_requests_phrase(pods)} only {', '.join(uncounted)}, which Kueue's Configuration does not count"
                )
            else:
                why = f"{_requests_phrase(pods)} nothing"
            flavor = "" if pods.requests else " and gets no flavor, so Kueue does not select its nodes"
            yield pods, f"{why}: it uses no quota{flavor}"


def _requests_phrase(pods: PodSet) -> str:
    name = "" if pods.name == "main" else f"{pods.name} "
    return f"each {name}pod requests"


def overflowing_requests(workload: Workload) -> Iterator[Reason]:
    """Yield, for each resource, the pods with which the sum of requests exceeds the 64 bits of Kueue."""
    totals, reported = Counter[str](), set[str]()
    for pods in workload.pod_sets:
        totals.update(pods.requests)
        for resource in sorted(name for name in pods.requests if totals[name] > MAX_AMOUNT and name not in reported):
            reported.add(resource)
            message = (
                f"its pods request {format_readable(resource, totals[resource])} {resource} together, which overflows: "
                "Kueue calculates with 64 bits"
            )
            yield Reason("overflow", message, pods.resources_path, pods.name, resource=resource)


def ambiguous_requests(workload: Workload) -> Iterator[Reason]:
    for pods in workload.pod_sets:
        for resource in pods.ambiguous_resources:
            message = (
                f"{_requests_phrase(pods)} {resource}, which a transformation of Kueue's Configuration puts out too: "
                "Kueue counts both or the request alone, by chance"
            )
            yield Reason("unmodelled", message, pods.resources_path, pods.name, resource=resource)


def amounts_booked_otherwise(spec: Body, namespace: str, model: Model) -> Iterator[str]:
    """Yield the resources of which Kueue books another amount than a pod requests, or than its run alone requests."""
    without_overhead = {**spec, "overhead": {}, "runtimeClassName": ""}
    limits = model.limit_ranges.get(namespace, ())
    created, created_alone = (requests_at_creation(spec, bounds) for bounds in (limits, ()))
    defaults_pod_level_requests = model.release.defaults_pod_level_requests
    booked, booked_alone = (
        requests_and_faults(without_overhead, bounds, {}, defaults_pod_level_requests=defaults_pod_level_requests)[0]
        for bounds in (limits, ())
    )
    for resource in sorted(booked.keys() | created.keys()):
        amounts = [amounts_by_resource.get(resource, 0) for amounts_by_resource in (booked, created, booked_alone)]
        of_kueue, of_pod, of_run = (
            f"{format_readable(resource, from_billionths(resource, number))}" for number in amounts
        )
        books = f"Kueue books {of_kueue} {resource} for the containers of each pod, which"
        if resource.startswith(model.excluded_prefixes):
            continue
        if booked.get(resource) != created.get(resource):
            is_of_limits = created_alone.get(resource) != booked_alone.get(resource)
            if is_of_limits and created_alone.get(resource, 0) < booked_alone.get(resource, 0):
                continue  # The API server refuses it, as another rule reports.
            why = (
                "a limit of the whole pod is by default its request"
                if is_of_limits
                else "it takes the default request of the namespace's LimitRange, where the API server takes a limit"
            )
            yield f"{books} request {of_pod}: {why}"
        elif booked.get(resource) != booked_alone.get(resource):
            yield f"{books} alone request {of_run}: the namespace's LimitRange has defaults"


def contradictory_flavors(model: Model, verdict: Verdict) -> Iterator[tuple[frozenset[str], str]]:
    """Yield the flavors of a pod set whose nodes have different values of a label, with a message.

    Source: FromAssignment in Kueue's pkg/podset/podset.go, where the labels of one flavor overwrite those of another in
    no particular order.
    """
    if any(reason.cause == "dispatched" for reason in verdict.reasons):
        return  # The worker cluster has flavors of its own.
    flavors = model.flavors or {}
    for pods in verdict.assigned:
        pod_set_flavors = (flavors[name] for name in sorted({*pods.flavors.values()}) if name in flavors)
        for flavor, other_flavor in combinations(pod_set_flavors, 2):
            for key in sorted(flavor.labels.keys() & other_flavor.labels.keys()):
                if flavor.labels[key] != other_flavor.labels[key]:
                    subject = "its pods get" if pods.pod_set == "main" else f"its {pods.pod_set} pods get"
                    values = f"{key}={flavor.labels[key]} and {key}={other_flavor.labels[key]}"
                    message = (
                        f"{subject} flavors {flavor.name} and {other_flavor.name} together, whose nodes have {values}: "
                        "as Kueue sets either label, they run on nodes of one flavor with quota of both, or wait "
                        "forever"
                    )
                    yield frozenset({flavor.name, other_flavor.name}), message
